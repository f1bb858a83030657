//! A well-behaved receiver of webhooks.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
};

/// A receiver that answers as the path says, and keeps what it got.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) received: mpsc::UnboundedReceiver<(HeaderMap, Bytes)>,
    /// Lets `/held` answer, once a permit.
    pub(crate) hold: Arc<Semaphore>,
}

#[derive(Clone)]
struct Received {
    requests: mpsc::UnboundedSender<(HeaderMap, Bytes)>,
    hold: Arc<Semaphore>,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        let (requests, received) = mpsc::unbounded_channel();
        let hold = Arc::new(Semaphore::new(0));
        let state = Received { requests, hold: Arc::clone(&hold) };
        let routes = Router::new()
            .route("/status/{code}", post(answer))
            .route("/redirect", post(redirect))
            .route("/held", post(held))
            .with_state(state);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, received, hold }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn answer(State(state): State<Received>, Path(code): Path<u16>, headers: HeaderMap, body: Bytes) -> StatusCode {
    state.requests.send((headers, body)).unwrap();
    StatusCode::from_u16(code).unwrap()
}

async fn redirect() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "/status/200")]).into_response()
}

async fn held(State(state): State<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    state.requests.send((headers, body)).unwrap();
    state.hold.acquire().await.unwrap().forget();
    StatusCode::OK
}

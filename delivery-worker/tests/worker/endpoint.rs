//! Receivers of webhooks, well-behaved and not.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures::stream;
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    sync::{Semaphore, mpsc},
};
use tokio_rustls::TlsAcceptor;

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
            .route("/endless", post(endless))
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

async fn endless() -> Body {
    Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1024]))))
}

async fn held(State(state): State<Received>, headers: HeaderMap, body: Bytes) -> StatusCode {
    state.requests.send((headers, body)).unwrap();
    state.hold.acquire().await.unwrap().forget();
    StatusCode::OK
}

/// A socket that takes a request and sends these bytes, then keeps the connection open.
pub(crate) async fn raw(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        talk(&mut socket, &answer).await;
        std::future::pending::<()>().await;
    });
    address
}

async fn talk(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &[u8]) {
    let mut request = [0; 4096];
    // The other side may hang up at any time.
    let _ = socket.read(&mut request).await;
    let _ = socket.write_all(answer).await;
    let _ = socket.flush().await;
}

/// An HTTPS receiver that answers 204, and the root to trust for it.
pub(crate) async fn tls(host: &str) -> (SocketAddr, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            if let Ok(mut socket) = acceptor.accept(socket).await {
                talk(&mut socket, b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        }
    });
    (address, made.cert.pem().into_bytes())
}

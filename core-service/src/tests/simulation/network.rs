//! Connections between the nodes: gRPC to the cores, and the attempts of the workers.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use delivery_worker::{Failure, Transport, VettedTarget};
use http::{HeaderMap, Method, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thesis_net::{channel::CoreChannel, clock::SharedClock, server::RequestHandler, services, tls::Authorities};
use tokio::task::JoinSet;
use tonic::{
    async_trait,
    transport::{Channel, Endpoint},
};
use turmoil::net::{TcpListener, TcpStream};

use crate::{replicas::peers::Dial, tests::harness::SERVICE_TOKEN};

/// The port of every core.
const CORE_PORT: u16 = 7_000;

/// The URL of a core by its name.
pub(super) fn core_url(name: &str) -> String {
    format!("http://{name}:{CORE_PORT}")
}

/// The channel to some cores by their URLs.
pub(super) fn channel(urls: &[String], clock: SharedClock) -> CoreChannel {
    let connect = |endpoint: &Endpoint| -> Channel {
        endpoint.connect_with_connector_lazy(tower::service_fn(|url: Uri| async move {
            let address = (url.host().unwrap_or_default().to_owned(), url.port_u16().unwrap_or(CORE_PORT));
            io::Result::Ok(TokioIo::new(TcpStream::connect(address).await?))
        }))
    };
    CoreChannel::connected_by(connect, urls, &Authorities::default(), clock).expect("a name makes a URL")
}

/// How a core reaches the others.
pub(super) fn dial(clock: SharedClock) -> Dial {
    Arc::new(move |url: &str| {
        let channel = channel(&[url.to_owned()], Arc::clone(&clock));
        Ok(services::peer(channel, &SERVICE_TOKEN.into())?)
    })
}

/// Serves the calls of a core. It does not return, except with an error.
pub(super) async fn serve<A: RequestHandler>(handler: Arc<A>) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", CORE_PORT)).await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, address) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        connections.spawn(serve_connection(Arc::clone(&handler), stream, address));
    }
}

async fn serve_connection<A: RequestHandler>(handler: Arc<A>, stream: TcpStream, address: SocketAddr) {
    let peer = Arc::new(handler.peer(address));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (handler, peer) = (Arc::clone(&handler), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(handler.handle(&peer, request).await) }
    });
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    // As the server of every role does.
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    // A connection may break at any time.
    let _ended = http2.serve_connection(TokioIo::new(stream), service).await;
}

/// Sends attempts over connections of their own.
pub(super) struct Attempts;

#[async_trait]
impl Transport for Attempts {
    async fn post(&self, target: VettedTarget, headers: HeaderMap, body: Bytes) -> Result<reqwest::Response, Failure> {
        let address = *target.addresses.first().ok_or(Failure::Dns)?;
        let port = target.url.port_or_known_default().ok_or(Failure::Request)?;
        let stream = TcpStream::connect(SocketAddr::new(address, port)).await.map_err(|_| Failure::Connect)?;
        let connected = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.map_err(|_| Failure::Connect)?;
        tokio::spawn(connection);
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.url.path().parse().map_err(|_| Failure::Request)?;
        *request.headers_mut() = headers;
        let response = sender.send_request(request).await.map_err(|_| Failure::Response)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|_| Failure::Response)?.to_bytes();
        Ok(http::Response::from_parts(head, body).into())
    }
}

//! Connections between the nodes: calls of the cores, requests to the edges, and the attempts of the workers.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use delivery_worker::{Failure, Transport, VettedTarget};
use http::{HeaderMap, Method, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thesis_net::{
    channel::CoreChannel,
    clock::SharedClock,
    server::{Accepted, Listen},
    services,
    tls::Authorities,
};
use tonic::{
    async_trait,
    transport::{Channel, Endpoint},
};
use turmoil::net::{TcpListener, TcpStream};

use crate::{replicas::peers::Dial, tests::harness::SERVICE_TOKEN};

/// The ports of every core and of every edge.
pub(super) const CORE_PORT: u16 = 7_000;
pub(super) const EDGE_PORT: u16 = 8_081;

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

/// Accepts the connections of a node, at its port.
pub(super) struct Listener(TcpListener);

impl Listener {
    pub(super) async fn bind(port: u16) -> Self {
        Self(TcpListener::bind(("0.0.0.0", port)).await.unwrap())
    }
}

impl Listen for Listener {
    async fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        let (stream, address) = self.0.accept().await?;
        Ok((Accepted::Other(Box::new(stream)), address))
    }
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

//! Lets a tower service handle requests.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::sync::Semaphore;
use tonic::transport::server::TcpConnectInfo;
use tower::{Service, ServiceExt as _};

use super::{RequestHandler, Socket};

/// The permits for open calls on the connection of a request. Each request carries them as an extension.
#[derive(Clone, Debug)]
pub struct ConnectionCalls(pub Arc<Semaphore>);

/// A handler that calls a tower service. Requests carry the peer's address as tonic's own server adds it.
#[derive(Clone, Debug)]
pub struct ServiceHandler<S, R> {
    /// The service.
    pub service: S,
    /// Creates the response for a refused request.
    pub refusal: R,
    /// Permits of a connection in [`ConnectionCalls`]; the service decides which calls take one.
    pub calls: usize,
}

impl<S, R, B> RequestHandler for ServiceHandler<S, R>
where
    R: Fn() -> Response<B> + Send + Sync + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    type Peer = (SocketAddr, ConnectionCalls);
    type Body = B;
    type Io = Socket;

    fn peer(&self, address: SocketAddr) -> Self::Peer {
        (address, ConnectionCalls(Arc::new(Semaphore::new(self.calls))))
    }

    fn wrap(self: &Arc<Self>, stream: Socket) -> Self::Io {
        stream
    }

    async fn handle(&self, (address, calls): &Self::Peer, mut request: Request<Incoming>) -> Response<B> {
        request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr: Some(*address) });
        request.extensions_mut().insert(calls.clone());
        self.service.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
    }

    fn refusal(&self) -> Response<B> {
        (self.refusal)()
    }

    fn turned_away(&self) -> Bytes {
        Bytes::new()
    }
}

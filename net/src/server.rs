//! Accepts connections of a role, limits their cost, and drains them in the end. It serves REST, gRPC and the
//! operators' pages.
//!
//! When all connections are in use, the longest idle ones are closed for new ones. When unread responses fill the room,
//! slow connections are closed. So connections that send no request, drip or do not read cannot keep others out.
//! [`Limits`] bounds the other costs of a connection.
//!
//! The first byte, a head and a body have ten seconds each. A connection over HTTP/1 may rest for 75 s between two
//! requests, and a response over REST has two minutes. A peer that takes nothing for a minute is gone. A connection
//! ends when 16 MiB arrive without a request, or when it gives up far more requests than it lets end. New requests are
//! 503 with `Retry-After` while ready tasks wait over 300 ms for their turn for more than a second (`lag`).

mod bodies;
mod connection;
mod connections;
mod counted;
mod handler;
mod lag;
mod meter;
mod metered;
mod open_request;
mod takeover;
#[cfg(test)]
mod tests;
mod wire;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    bodies::{Bodies, BodyError},
    connections::Room,
    counted::{begin_refused, count_refused},
    handler::{ConnectionCalls, ServiceHandler},
    metered::Metered,
    open_request::{MeteredBody, ReadyResponse, RefusedRequest, UnattendedResponse},
    takeover::{Socket, Takeover},
    wire::{Accepted, OtherStream, Wire},
};
use self::{
    connection::{Protocols, ServerContext},
    connections::Connections,
    lag::Lag,
    open_request::ConnectionEntry,
};
use crate::tls::Acceptor;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The server's name in metrics.
    pub server: &'static str,
    /// Maximum open connections.
    pub connections: usize,
    /// Maximum open requests of one connection.
    pub requests: u32,
    /// Maximum bytes of a request's head.
    pub head: u32,
    /// Maximum requests that a connection may cancel beyond the completed ones.
    pub given_up: u32,
    /// Maximum bytes of unread responses, all connections together.
    pub untaken: usize,
    /// Maximum wait of a ready task. While tasks wait longer for over a second, new requests are refused.
    pub lag: Duration,
    /// Timeout for open requests once the server stops.
    pub drain: Duration,
}

/// The handler of a server's requests.
pub trait RequestHandler: Send + Sync + 'static {
    /// Facts about a connection.
    type Peer: Send + Sync + 'static;
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static;
    /// A connection as HTTP reads and writes it.
    type Io: AsyncRead + AsyncWrite + Into<Socket> + Send + Unpin + 'static;

    /// The facts about a new connection from this address.
    fn peer(&self, address: SocketAddr) -> Self::Peer;

    /// Wraps a connection.
    fn wrap(self: &Arc<Self>, stream: Socket) -> Self::Io;

    /// Responds to a request.
    fn handle(
        &self,
        peer: &Self::Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The response to a request that overload or a lack of room refuses.
    fn refusal(&self) -> Response<Self::Body>;

    /// The bytes sent to a connection that is closed because too many are open.
    fn turned_away(&self) -> Bytes;
}

/// Accepts connections.
pub trait Listen: Send + 'static {
    /// Waits for the next connection; returns it with the address of its peer.
    fn accept(&self) -> impl Future<Output = io::Result<(Accepted, SocketAddr)>> + Send;
}

impl Listen for TcpListener {
    async fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        let (stream, address) = Self::accept(self).await?;
        Ok((Accepted::Tcp(stream), address))
    }
}

/// Serves until `shutdown`, then finishes open requests and returns. With `tls`, every connection begins with a
/// handshake.
pub async fn serve<A: RequestHandler>(
    listener: impl Listen,
    tls: Option<Acceptor>,
    handler: Arc<A>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let open = Connections::new(limits.server, limits.untaken);
    let counted = Arc::downgrade(&open);
    counted::begin(limits.server, limits.connections, move || Some(counted.upgrade()?.open_and_untaken()));
    let lag = Arc::new(Lag::new(limits.lag));
    let watched = Arc::clone(&lag);
    let watching = tokio::spawn(async move { watched.watch().await });
    let protocols = Protocols::new(&limits);
    let served =
        Arc::new(ServerContext { name: limits.server, handler, tls, lag, protocols, shutdown: shutdown.clone() });
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely no file handle is left: others close soon.
                tracing::warn!(%error, "cannot accept a connection");
                open.close_idle();
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if connections.len() >= limits.connections && !open.close_idle() {
            counted::count_closed(limits.server, "turned_away", 1);
            if served.tls.is_none()
                && let Accepted::Tcp(stream) = &stream
            {
                // Best effort: the connection is closed either way.
                let _ = stream.try_write(&served.handler.turned_away());
            }
            continue;
        }
        let meter = open.add(limits.given_up, connections.len());
        let place = ConnectionEntry { meter, connections: Arc::clone(&open) };
        connections.spawn(connection::serve(Arc::clone(&served), place, stream, address));
    }
    drop(listener);
    let ending = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain, ending).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    watching.abort();
}

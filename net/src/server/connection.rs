//! One connection: HTTP/1.1 or HTTP/2 by its first bytes, closed when its peer sends no request or reads no response.

use std::{
    convert::Infallible,
    error::Error,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use http::{HeaderValue, Request, Response, StatusCode, Version, header::CONNECTION};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use parking_lot::Mutex;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    Accepted, Limits, Metered, MeteredBody, RequestHandler, Socket, Takeover, Wire, count_refused,
    lag::Lag,
    meter::{ACKNOWLEDGEMENT_TIMEOUT_MS, Meter},
    open_request::{ConnectionEntry, OpenRequest},
};
use crate::tls::Acceptor;

/// Maximum unread bytes in the system's buffer for a peer; Linux doubles the value, for its own use. A stream that has
/// left HTTP gets less.
const SEND_BUFFER: usize = 256 * 1024;
/// Interval between two checks for responses that a peer does not read.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// HTTP/2 window of one request body, and of a whole connection: bodies are small.
const WINDOWS: (u32, u32) = (256 * 1024, 1024 * 1024);
/// The first bytes of HTTP/2's preface. HTTP/1 reserves this method for it.
const PREFACE: &[u8; 4] = b"PRI ";

pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Protocols {
    pub(super) fn new(limits: &Limits) -> Self {
        let (mut http1, mut http2) = (http1::Builder::new(), http2::Builder::new(TokioExecutor::new()));
        let head = usize::try_from(limits.head).unwrap_or(usize::MAX);
        // hyper's time limit for heads counts idle time too; the meter tells the two apart.
        http1.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(head);
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10))
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_concurrent_streams(limits.requests)
            .max_header_list_size(limits.head);
        Self { http1, http2 }
    }
}

/// The parts that all connections of a server share.
pub(super) struct ServerContext<A> {
    /// The server's name in metrics.
    pub(super) name: &'static str,
    pub(super) handler: Arc<A>,
    pub(super) tls: Option<Acceptor>,
    pub(super) lag: Arc<Lag>,
    pub(super) protocols: Protocols,
    pub(super) shutdown: CancellationToken,
}

pub(super) async fn serve<A: RequestHandler>(
    served: Arc<ServerContext<A>>,
    place: ConnectionEntry,
    stream: Accepted,
    address: SocketAddr,
) {
    if let Accepted::Tcp(stream) = &stream
        && !prepare(stream)
    {
        return;
    }
    let meter = Arc::clone(&place.meter);
    let mut serving = pin!(async {
        // The box frees all memory of HTTP once the connection has left HTTP.
        let taken = Box::pin(http(served, place, stream, address)).await?;
        if let Some((takeover, socket)) = taken {
            takeover.serve(socket).await;
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    });
    let mut check_timer = pin!(sleep(Duration::ZERO));
    // Polled after each step of the connection, so that a time limit that has moved nearer is seen at once.
    let watching = poll_fn(|context| {
        loop {
            let at = meter.closes_at().unwrap_or_else(|| Instant::now() + POLL_INTERVAL);
            if at < check_timer.deadline() {
                check_timer.as_mut().reset(at);
            }
            ready!(check_timer.as_mut().poll(context));
            let now = Instant::now();
            let at = meter.closes_at();
            if meter.is_stuck() || at.is_some_and(|at| at <= now) {
                return Poll::Ready(());
            }
            check_timer.as_mut().reset(at.unwrap_or(now + POLL_INTERVAL));
        }
    });
    tokio::select! {
        biased;
        ended = serving.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        }
        () = meter.closed() => tracing::debug!(%address, "connection closed: it took too much or was idle"),
        () = watching => tracing::debug!(%address, "connection closed: it did not ask or take its answers"),
    }
}

/// Sets the options of a socket; returns false if it is gone.
fn prepare(stream: &TcpStream) -> bool {
    // A frame of a stream should leave at once. A vanished peer does not acknowledge sent bytes. Otherwise the system
    // keeps up to megabytes for a peer that reads slowly.
    stream.set_nodelay(true).is_ok()
        && set_tcp_user_timeout(stream, ACKNOWLEDGEMENT_TIMEOUT_MS).is_ok()
        && set_socket_send_buffer_size(stream, SEND_BUFFER).is_ok()
}

struct ConnectionRequests<A: RequestHandler> {
    served: Arc<ServerContext<A>>,
    peer: A::Peer,
    place: ConnectionEntry,
    /// The protocol after HTTP, once a response's head is written.
    takeover: Mutex<Option<Takeover>>,
}

impl<A: RequestHandler> ConnectionRequests<A> {
    /// Responds to a request that `begun` counts.
    async fn respond(
        self: Arc<Self>,
        begun: OpenRequest,
        request: Request<Incoming>,
    ) -> Response<MeteredBody<A::Body>> {
        let ServerContext { name, handler, lag, .. } = &*self.served;
        let version = request.version();
        let mut response = if lag.is_overload() {
            count_refused(name, "lag");
            handler.refusal()
        } else {
            // hyper keeps the room of this future as long as the connection.
            Box::pin(handler.handle(&self.peer, request)).await
        };
        if let Some(takeover) = response.extensions_mut().remove() {
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                // Otherwise hyper adds `keep-alive` for a client of HTTP/1.0 that wants it.
                *response.version_mut() = version;
            }
            *self.takeover.lock() = Some(takeover);
            // The head, which hyper writes next.
            self.place.meter.waits_for_flush();
        }
        begun.respond(response, || handler.refusal())
    }

    /// The protocol after HTTP, if all bytes of HTTP are written.
    fn taken(&self) -> Option<Takeover> {
        let mut takeover = self.takeover.lock();
        if takeover.is_some() && self.place.meter.is_flushed() { takeover.take() } else { None }
    }
}

/// Speaks HTTP until the connection ends or leaves HTTP.
async fn http<A: RequestHandler>(
    served: Arc<ServerContext<A>>,
    place: ConnectionEntry,
    stream: Accepted,
    address: SocketAddr,
) -> Result<Option<(Takeover, Socket)>, Box<dyn Error + Send + Sync>> {
    let ServerContext { name, handler, tls, lag, protocols, shutdown } = &*served;
    if tls.is_some() && lag.is_overload() {
        // The handshake would cost more than the request that is refused after it.
        count_refused(name, "lag");
        return Ok(None);
    }
    let opening = async {
        let mut wire = Wire::open(stream, tls.as_ref()).await?;
        let first = first_bytes(&mut wire, &place.meter).await?;
        io::Result::Ok((wire, first))
    };
    let (wire, first) = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(None),
        opened = opening => opened?,
    };
    let io = TokioIo::new(handler.wrap(Metered::new(wire, Arc::clone(&place.meter), &first)));
    let (served, peer) = (Arc::clone(&served), handler.peer(address));
    let asking = Arc::new(ConnectionRequests { served, peer, place, takeover: Mutex::default() });
    let service = service_fn(|request: Request<Incoming>| {
        let begun = asking.place.begin(request.version());
        let responding = Arc::clone(&asking).respond(begun, request);
        async { Ok::<_, Infallible>(responding.await) }
    });
    if first == PREFACE {
        drained(pin!(protocols.http2.serve_connection(io, service)), shutdown).await?;
        return Ok(None);
    }
    let mut connection = protocols.http1.serve_connection(io, service);
    let taken = {
        let mut ending = pin!(drained(Pin::new(&mut connection), shutdown));
        let step = poll_fn(|context| {
            let ended = ending.as_mut().poll(context);
            match asking.taken() {
                Some(takeover) => Poll::Ready(Ok(Some(takeover))),
                None => ended.map_ok(|()| None),
            }
        });
        step.await?
    };
    Ok(taken.map(|takeover| {
        let open = asking.place.begin(Version::HTTP_11).taken_over();
        let parts = connection.into_parts();
        let socket: Socket = parts.io.into_inner().into();
        (takeover, socket.taken_over(&parts.read_buf, open))
    }))
}

/// Reads the first bytes of a connection, until they show HTTP/2 or HTTP/1.
async fn first_bytes(wire: &mut Wire, meter: &Meter) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        let mut byte = [0];
        match wire.read(&mut byte).await? {
            0 => break,
            read => first.extend_from_slice(&byte[..read]),
        }
        meter.may_read(1);
    }
    Ok(first)
}

/// Lets a connection end, after its open requests once the server stops.
async fn drained<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    shutdown: &CancellationToken,
) -> Result<(), C::Error> {
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

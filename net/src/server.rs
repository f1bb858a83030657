//! Accepts connections of a role, limits their cost, and drains them in the end. It serves REST, gRPC and the
//! operators' pages.
//!
//! When all connections are in use, those that have been idle longest give way to new ones. When answers that nobody
//! takes leave no room, slow connections are closed. So connections that ask for nothing, drip or do not read cannot
//! keep others out. [`Limits`] bounds the other costs of a connection.

mod answering;
mod answers;
mod bodies;
mod connections;
mod lag;
mod meter;
mod metered;
#[cfg(test)]
mod tests;
mod upgrade;

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Version, header::UPGRADE};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use parking_lot::Mutex;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    answering::Metering,
    answers::ServiceAnswers,
    bodies::{Bodies, BodyError},
    metered::Metered,
    upgrade::{Socket, Upgrade},
};
use self::{answering::Place, connections::Connections, lag::Lag};

/// How often a connection is checked for answers that it does not take.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Longest time, in milliseconds, in which a peer may leave sent bytes without an acknowledgement.
const VANISHED_MS: u32 = 60_000;
/// HTTP/2 window of one request body, and of a whole connection: bodies are small.
const WINDOWS: (u32, u32) = (256 * 1024, 1024 * 1024);

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at once.
    pub connections: usize,
    /// Most requests that one connection may have open.
    pub requests: u32,
    /// Most bytes of a request's head.
    pub head: u32,
    /// Most requests that a connection may give up beyond those that it lets end.
    pub given_up: u32,
    /// Most bytes of answers that wait to be taken, all connections together.
    pub untaken: usize,
    /// Longest wait for a turn. While requests wait longer for more than a moment, new ones are refused.
    pub lag: Duration,
    /// Longest time for open requests to end once the server stops.
    pub drain: Duration,
}

/// Answers a server's requests.
pub trait Answers: Send + Sync + 'static {
    /// What is known of a connection.
    type Peer: Send + Sync + 'static;
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static;
    /// A connection as it is read and written.
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// A new connection from this address.
    fn peer(&self, address: SocketAddr) -> Self::Peer;

    /// Wraps a connection.
    fn wrap(self: &Arc<Self>, stream: Metered<TcpStream>) -> Self::Io;

    /// Answers a request.
    fn answer(
        &self,
        peer: &Self::Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The answer in place of one that overload or a lack of room prevents.
    fn refusal(&self) -> Response<Self::Body>;

    /// The bytes for a connection that is closed because there are too many.
    fn turned_away(&self) -> Bytes;
}

/// Serves until `shutdown`, then finishes requests and returns.
pub async fn serve<A: Answers>(listener: TcpListener, answers: Arc<A>, limits: Limits, shutdown: CancellationToken) {
    let open = Connections::new(limits.untaken);
    let protocol = protocol(&limits);
    let lag = Arc::new(Lag::new(limits.lag));
    let watched = Arc::clone(&lag);
    let watching = tokio::spawn(async move { watched.watch().await });
    let graceful = GracefulShutdown::new();
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
            // Best effort: the connection is closed either way.
            let _ = stream.try_write(&answers.turned_away());
            continue;
        }
        let meter = open.add(limits.given_up, connections.len());
        let place = Place { meter, connections: Arc::clone(&open) };
        let (answers, lag) = (Arc::clone(&answers), Arc::clone(&lag));
        let serving = Arc::new(Serving { answers, lag, place, upgrade: Mutex::default() });
        connections.spawn(connection(serving, protocol.clone(), graceful.watcher(), stream, address));
    }
    drop(listener);
    let ending = async {
        graceful.shutdown().await;
        // Connections that are no HTTP any more end by themselves.
        while connections.join_next().await.is_some() {}
    };
    if timeout(limits.drain, ending).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    watching.abort();
}

fn protocol(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let head = usize::try_from(limits.head).unwrap_or(usize::MAX);
    // hyper's time limit for heads counts idle time too; the meter tells the two apart.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_concurrent_streams(limits.requests)
        .max_header_list_size(limits.head);
    builder
}

/// The parts that serve a connection.
struct Serving<A> {
    answers: Arc<A>,
    lag: Arc<Lag>,
    place: Place,
    /// What the connection becomes, once it was answered 101.
    upgrade: Mutex<Option<(OnUpgrade, Upgrade)>>,
}

async fn connection<A: Answers>(
    serving: Arc<Serving<A>>,
    protocol: Builder<TokioExecutor>,
    watcher: Watcher,
    stream: TcpStream,
    address: SocketAddr,
) {
    let Serving { answers, place, .. } = &*serving;
    let meter = &place.meter;
    // A frame of a stream should leave at once. A peer that has vanished does not acknowledge what is sent.
    if stream.set_nodelay(true).is_err() || set_tcp_user_timeout(&stream, VANISHED_MS).is_err() {
        return;
    }
    let io = TokioIo::new(answers.wrap(Metered::new(stream, Arc::clone(meter))));
    let peer = Arc::new(answers.peer(address));
    let service = service_fn(|mut request: Request<Incoming>| {
        let (serving, peer, begun) = (Arc::clone(&serving), Arc::clone(&peer), place.begin(request.version()));
        async move {
            let Serving { answers, lag, upgrade, .. } = &*serving;
            let becoming = request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(&mut request));
            let mut answer = if lag.is_overload() {
                answers.refusal()
            } else {
                // hyper keeps the room of this future as long as the connection, which may be a stream for days.
                Box::pin(answers.answer(&peer, request)).await
            };
            if let Some((becoming, serve)) = becoming.zip(answer.extensions_mut().remove::<Upgrade>()) {
                *upgrade.lock() = Some((becoming, serve));
            }
            Ok::<_, Infallible>(begun.answered(answer, || answers.refusal()))
        }
    });
    // Apart from the task, so that nothing of it is left once the connection is no HTTP any more.
    let connection = Box::pin(watcher.watch(protocol.serve_connection_with_upgrades(io, service)));
    let mut connection = pin!(async {
        connection.await?;
        let upgrade = serving.upgrade.lock().take();
        if let Some((becoming, serve)) = upgrade {
            let _open = place.begin(Version::HTTP_11);
            serve.serve(becoming.await?).await;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    });
    let mut look = pin!(sleep(Duration::ZERO));
    // Polled after each step of the connection, so that a time limit that has moved nearer is seen at once.
    let watching = poll_fn(|context| {
        loop {
            let at = meter.closes_at().unwrap_or_else(|| Instant::now() + LOOK_EVERY);
            if at < look.deadline() {
                look.as_mut().reset(at);
            }
            ready!(look.as_mut().poll(context));
            let now = Instant::now();
            let at = meter.closes_at();
            if meter.is_stuck() || at.is_some_and(|at| at <= now) {
                return Poll::Ready(());
            }
            look.as_mut().reset(at.unwrap_or(now + LOOK_EVERY));
        }
    });
    tokio::select! {
        biased;
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        }
        () = meter.closed() => tracing::debug!(%address, "connection closed: it took too much or was idle"),
        () = watching => tracing::debug!(%address, "connection closed: it did not ask or take its answers"),
    }
}

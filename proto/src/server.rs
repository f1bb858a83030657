//! Accepts connections of a role, bounds what they may take, and drains them in the end. REST, gRPC and the operators'
//! pages are all served by it.
//!
//! When all connections are in use, those that have been idle longest give way to new ones, so that connections which ask
//! for nothing, or drip, cannot keep others out. What a connection may cost otherwise is bounded by [`Limits`].

mod answers;
mod bodies;
mod lag;
mod meter;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    answers::Called,
    bodies::{Bodies, BodyError},
    meter::{Metered, Metering},
};
use self::{lag::Lag, meter::Meter};

/// A request's head must have arrived within so long; an idle connection over HTTP/1 is closed after as long.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Of those that may give way, this share does at once.
const GIVE_WAY: usize = 64;
/// How often a connection is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Window of one request body, and of all of a connection: bodies are small.
const WINDOWS: (u32, u32) = (256 * 1024, 1024 * 1024);

/// What a server allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Requests that one connection may have open.
    pub requests: u32,
    /// Bytes of a request's head.
    pub head: u32,
    /// Requests that a connection may give up beyond those that it lets end.
    pub given_up: u32,
    /// Bytes of whole answers that wait to be taken, all connections together.
    pub untaken: usize,
    /// While requests wait longer than this for their turn, new ones are refused.
    pub lag: Duration,
    /// Open requests may take so long once the server stops.
    pub drain: Duration,
}

/// What answers requests.
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

    /// The answer in place of one for which there is no room.
    fn refusal(&self) -> Response<Self::Body>;

    /// What a connection is told before it is closed because there are too many.
    fn turned_away(&self) -> Bytes;
}

/// Serves until `shutdown`, then finishes requests and returns.
pub async fn serve<A: Answers>(listener: TcpListener, answers: Arc<A>, limits: Limits, shutdown: CancellationToken) {
    let untaken = Arc::new(Semaphore::new(limits.untaken.min(Semaphore::MAX_PERMITS)));
    let protocol = protocol(&limits);
    let lag = Arc::new(Lag::new());
    let watched = Arc::clone(&lag);
    let watching = tokio::spawn(async move { watched.watch().await });
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut meters: Vec<Weak<Meter>> = Vec::new();
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
                // Out of file handles, most likely: others close soon.
                tracing::warn!(%error, "cannot accept a connection");
                make_room(&mut meters);
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if connections.len() >= limits.connections && !make_room(&mut meters) {
            // Best effort: the connection is closed either way.
            let _ = stream.try_write(&answers.turned_away());
            continue;
        }
        if meters.len() > 2 * connections.len() + GIVE_WAY {
            meters.retain(|meter| meter.strong_count() > 0);
        }
        let meter = Arc::new(Meter::new(limits.given_up, Arc::clone(&untaken)));
        meters.push(Arc::downgrade(&meter));
        let serving =
            Arc::new(Serving { answers: Arc::clone(&answers), lag: Arc::clone(&lag), most: limits.lag, meter });
        connections.spawn(connection(serving, protocol.clone(), graceful.watcher(), stream, address));
    }
    drop(listener);
    if timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    watching.abort();
}

fn protocol(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let head = usize::try_from(limits.head).unwrap_or(usize::MAX);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(head);
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

/// Closes connections that have been idle longest; tells whether there were any.
fn make_room(meters: &mut [Weak<Meter>]) -> bool {
    let idle = |meter: &Weak<Meter>| meter.upgrade().and_then(|meter| Some((meter.idle_since()?, meter)));
    let mut idle: Vec<_> = meters.iter().filter_map(idle).collect();
    if idle.is_empty() {
        return false;
    }
    let share = idle.len() / GIVE_WAY;
    idle.select_nth_unstable_by_key(share, |(since, _)| *since);
    for (_, meter) in &idle[..=share] {
        meter.close();
    }
    true
}

/// What a connection is served with.
struct Serving<A> {
    answers: Arc<A>,
    lag: Arc<Lag>,
    most: Duration,
    meter: Arc<Meter>,
}

async fn connection<A: Answers>(
    serving: Arc<Serving<A>>,
    protocol: Builder<TokioExecutor>,
    watcher: Watcher,
    stream: TcpStream,
    address: SocketAddr,
) {
    let Serving { answers, meter, .. } = &*serving;
    // A frame of a stream should leave at once.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let io = TokioIo::new(answers.wrap(Metered::new(stream, Arc::clone(meter))));
    let peer = Arc::new(answers.peer(address));
    let service = service_fn(|request| {
        let (serving, peer, begun) = (Arc::clone(&serving), Arc::clone(&peer), meter.begin());
        async move {
            let Serving { answers, lag, most, .. } = &*serving;
            let answer = if lag.exceeds(*most) { answers.refusal() } else { answers.answer(&peer, request).await };
            Ok::<_, Infallible>(begun.answered(answer, || answers.refusal()))
        }
    });
    let mut connection = pin!(watcher.watch(protocol.serve_connection(io, service)));
    let watching = async {
        // Telling the protocols apart has no time limit of its own, so the first request has one here.
        sleep(HEAD_PATIENCE).await;
        if !meter.asked() {
            return;
        }
        let mut looks = interval(LOOK_EVERY);
        while !meter.is_stuck() {
            looks.tick().await;
        }
    };
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        }
        () = meter.closed() => tracing::debug!(%address, "connection closed: it took too much or was idle"),
        () = watching => tracing::debug!(%address, "connection closed: it did not ask or take its answers"),
    }
}

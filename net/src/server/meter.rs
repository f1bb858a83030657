//! Counts the requests, answers and bytes of a connection.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, Version};
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::connections::{Connections, SLOW};

/// Most bytes that may arrive within [`READ_WINDOW`] while no request begins: bodies, but no floods of control frames.
const MAX_READ: u64 = 16 * 1024 * 1024;
const READ_WINDOW: Duration = Duration::from_secs(60);
/// Longest time in which a connection takes none of its whole answers.
const TAKEN_WITHIN: Duration = Duration::from_secs(120);
/// Longest wait for a connection's first byte, and then for the rest of each head.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Longest that a connection over HTTP/1 may be idle between two requests. Proxies keep theirs for 60 seconds, and a
/// request that meets a closing connection is lost.
const IDLE_PATIENCE: Duration = Duration::from_secs(75);
/// Longest time in which a peer takes none of the bytes that wait for it. After that it has gone without a word or
/// reads no more, and everything that it holds, such as a stream's place, is freed.
const TAKES_NOTHING: Duration = Duration::from_secs(60);
/// The value of a time that has not come: no head has begun, no write waits.
const NEVER: u64 = u64::MAX;

/// The counts and times of one connection.
#[derive(Debug)]
pub(super) struct Meter {
    began: Instant,
    /// Requests whose answer is not yet taken, streams included.
    open: AtomicU32,
    /// Whole answers that are ready and not yet taken.
    untaken: AtomicU32,
    /// When the last request ended, or an answer was taken, in milliseconds since the connection began.
    last_ms: AtomicU64,
    /// When the first byte of an incomplete head came, in milliseconds since the connection began.
    head_ms: AtomicU64,
    /// Since when a write waits, in milliseconds since the connection began.
    blocked_ms: AtomicU64,
    asked: AtomicBool,
    /// Over HTTP/2 the bytes between two requests are no head, and pings find peers that are gone.
    is_http2: AtomicBool,
    /// Bytes since a request began, and when they last reached [`MAX_READ`].
    read: AtomicU64,
    read_ms: AtomicU64,
    given_up: AtomicU32,
    may_give_up: u32,
    holding: Mutex<Holding>,
    connections: Arc<Connections>,
    close: CancellationToken,
}

impl Meter {
    pub(super) fn new(may_give_up: u32, connections: Arc<Connections>) -> Self {
        Self {
            began: Instant::now(),
            open: AtomicU32::new(0),
            untaken: AtomicU32::new(0),
            last_ms: AtomicU64::new(0),
            head_ms: AtomicU64::new(NEVER),
            blocked_ms: AtomicU64::new(NEVER),
            is_http2: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            read: AtomicU64::new(0),
            read_ms: AtomicU64::new(0),
            given_up: AtomicU32::new(0),
            may_give_up,
            holding: Mutex::default(),
            connections,
            close: CancellationToken::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Since when the connection is idle; none while a request is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let idle = self.open.load(Relaxed) == 0 && !self.close.is_cancelled();
        idle.then(|| self.began + Duration::from_millis(self.last_ms.load(Relaxed)))
    }

    /// When the connection closes unless bytes come; none while a request is open, or over HTTP/2 after the first.
    pub(super) fn closes_at(&self) -> Option<Instant> {
        if self.open.load(Relaxed) > 0 || self.is_http2.load(Relaxed) {
            return None;
        }
        let (since_ms, patience) = match self.head_ms.load(Relaxed) {
            NEVER if self.asked.load(Relaxed) => (self.last_ms.load(Relaxed), IDLE_PATIENCE),
            NEVER => (0, HEAD_PATIENCE),
            head_ms => (head_ms, HEAD_PATIENCE),
        };
        Some(self.began + Duration::from_millis(since_ms) + patience)
    }

    /// Whether the peer takes no whole answer, or no bytes at all, for too long.
    pub(super) fn is_stuck(&self) -> bool {
        let since = |ms: &AtomicU64| Duration::from_millis(self.now_ms().saturating_sub(ms.load(Relaxed)));
        (self.untaken.load(Relaxed) > 0 && since(&self.last_ms) > TAKEN_WITHIN)
            || since(&self.blocked_ms) > TAKES_NOTHING
    }

    /// Notes how a write went.
    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        if written.is_ready() {
            self.blocked_ms.store(NEVER, Relaxed);
        } else if self.blocked_ms.load(Relaxed) == NEVER {
            self.blocked_ms.store(self.now_ms(), Relaxed);
        }
    }

    /// Bytes that wait to be taken, if taking as many takes longer than this.
    pub(super) fn held_longer_than(&self, time: Duration) -> Option<usize> {
        let holding = self.holding.lock();
        let since = self.now_ms().saturating_sub(holding.since_ms);
        (holding.bytes > 0 && Duration::from_millis(since) > time).then_some(holding.bytes)
    }

    /// Takes room for bytes of an answer, if there is any.
    fn hold(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let permit = self.connections.take(bytes)?;
        let mut holding = self.holding.lock();
        holding.bytes += bytes;
        if holding.left == 0 {
            holding.begin(self.now_ms());
        }
        drop(holding);
        Some(Room { meter: Arc::clone(self), bytes, _permit: permit })
    }

    pub(super) fn close(&self) {
        self.close.cancel();
    }

    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Counts a request, whose head is complete.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Begun {
        self.asked.store(true, Relaxed);
        self.is_http2.store(version == Version::HTTP_2, Relaxed);
        self.head_ms.store(NEVER, Relaxed);
        self.open.fetch_add(1, Relaxed);
        self.read.store(0, Relaxed);
        Begun(Some(Arc::clone(self)))
    }

    /// Counts bytes that have arrived; tells whether more may.
    fn may_read(&self, bytes: usize) -> bool {
        if bytes > 0 && self.open.load(Relaxed) == 0 && self.head_ms.load(Relaxed) == NEVER {
            self.head_ms.store(self.now_ms(), Relaxed);
        }
        let read = self.read.fetch_add(bytes as u64, Relaxed);
        if read < MAX_READ {
            return true;
        }
        let now_ms = self.now_ms();
        if now_ms - self.read_ms.swap(now_ms, Relaxed) < READ_WINDOW.as_millis() as u64 {
            return false;
        }
        self.read.store(0, Relaxed);
        true
    }

    fn ended(&self) {
        self.last_ms.store(self.now_ms(), Relaxed);
        self.open.fetch_sub(1, Relaxed);
    }
}

/// A request that is being answered; one that is dropped was given up.
pub(super) struct Begun(Option<Arc<Meter>>);

impl Begun {
    /// Takes the answer, or the refusal where waiting answers leave no room for it.
    pub(super) fn answered<B: Body>(
        mut self,
        answer: Response<B>,
        refusal: impl FnOnce() -> Response<B>,
    ) -> Response<Metering<B>> {
        let meter = self.0.take().expect("it is answered once");
        meter.given_up.store(meter.given_up.load(Relaxed).saturating_sub(1), Relaxed);
        let Some(size) = answer.body().size_hint().exact() else {
            return answer.map(|body| Metering { body, taking: Some(Taking { meter, whole: false, _room: None }) });
        };
        let room = meter.hold(usize::try_from(size).unwrap_or(usize::MAX));
        let answer = if room.is_some() { answer } else { refusal() };
        if meter.untaken.fetch_add(1, Relaxed) == 0 {
            meter.last_ms.store(meter.now_ms(), Relaxed);
        }
        answer.map(|body| Metering { body, taking: Some(Taking { meter, whole: true, _room: room }) })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some(meter) = self.0.take() else { return };
        meter.ended();
        if meter.given_up.fetch_add(1, Relaxed) >= meter.may_give_up {
            meter.close();
        }
    }
}

/// Room that bytes of an answer take until they are written.
struct Room {
    meter: Arc<Meter>,
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut holding = self.meter.holding.lock();
        holding.bytes -= self.bytes;
        holding.left = holding.left.saturating_sub(self.bytes);
        if holding.left == 0 {
            holding.begin(self.meter.now_ms());
        }
    }
}

/// Bytes that a connection has not yet taken, and how fast it takes them.
#[derive(Debug, Default)]
struct Holding {
    bytes: usize,
    /// Bytes still to be taken until as many are taken as waited at `since_ms`.
    left: usize,
    since_ms: u64,
}

impl Holding {
    fn begin(&mut self, now_ms: u64) {
        (self.left, self.since_ms) = (self.bytes, now_ms);
    }
}

/// An answer on its way.
struct Taking {
    meter: Arc<Meter>,
    /// It came whole, so its frames take no room of their own.
    whole: bool,
    _room: Option<Room>,
}

impl Drop for Taking {
    fn drop(&mut self) {
        if self.whole {
            self.meter.untaken.fetch_sub(1, Relaxed);
        }
        self.meter.ended();
    }
}

/// Bytes of an answer, which count until they are written.
struct Held {
    bytes: Bytes,
    _room: Option<Room>,
    _taking: Option<Taking>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that is counted until it is taken.
pub struct Metering<B> {
    body: B,
    taking: Option<Taking>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Metering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        let ends = this.body.is_end_stream();
        let hold = |bytes: Bytes| {
            let room = this.taking.as_ref().filter(|taking| !taking.whole).and_then(|Taking { meter, .. }| {
                let room = meter.hold(bytes.len());
                if room.is_none() && meter.held_longer_than(SLOW).is_some() {
                    // It has begun, so no refusal can replace it. A peer that takes its bytes may go on.
                    meter.close();
                }
                room
            });
            // The connection may drop the body long before it has written its last bytes.
            let taking = if ends { this.taking.take() } else { None };
            if room.is_none() && taking.is_none() {
                return bytes;
            }
            Bytes::from_owner(Held { bytes, _room: room, _taking: taking })
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose arriving bytes are counted.
#[derive(Debug)]
pub struct Metered<T> {
    stream: T,
    meter: Arc<Meter>,
}

impl<T> Metered<T> {
    pub(super) fn new(stream: T, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.meter.may_read(buffer.filled().len() - before) {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(io::Error::other("too much arrived without a request")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.meter.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.meter.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_gone_that_takes_nothing_for_a_minute() {
        let meter = Arc::new(Meter::new(0, Connections::new(0)));
        let (server, mut client) = duplex(8);
        let mut server = Metered::new(server, Arc::clone(&meter));
        let mut write =
            async || poll_fn(|context| Poll::Ready(Pin::new(&mut server).poll_write(context, b"12345678"))).await;
        assert!(write().await.is_ready() && write().await.is_pending());
        // A peer that takes a little now and then stays.
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(50)).await;
            assert!(write().await.is_pending() && !meter.is_stuck());
            client.read_exact(&mut [0; 3]).await.unwrap();
            assert!(write().await.is_ready() && write().await.is_pending());
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!meter.is_stuck());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(write().await.is_pending() && meter.is_stuck());
    }
}

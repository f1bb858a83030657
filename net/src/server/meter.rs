//! Counts the requests, responses and bytes of a connection.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

use http::Version;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum bytes that may arrive within [`READ_WINDOW`] while no request begins: bodies, but no floods of control
/// frames.
const MAX_READ: u64 = 16 * 1024 * 1024;
const READ_WINDOW: Duration = Duration::from_secs(60);
/// Timeout for the peer to read a whole response.
const RESPONSE_READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout for a connection's first byte, and then for the rest of each head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an idle HTTP/1 connection between two requests. Proxies keep theirs for 60 seconds, and a request that
/// meets a closing connection is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Timeout of a peer that reads none of its waiting bytes. After that it has vanished or stopped reading, and
/// everything that it holds, such as a stream's slot, is freed.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout, in milliseconds, of a stream's reader that reads no byte, once the stream has left HTTP. The stream itself
/// ends sooner when its reader is also far behind.
pub(super) const STREAM_READ_TIMEOUT_MS: u32 = 600_000;
/// Timeout, in milliseconds, for the acknowledgement of sent bytes.
pub(super) const ACKNOWLEDGEMENT_TIMEOUT_MS: u32 = 60_000;
/// Requests of one connection that a limit of the connection or of its network may refuse at once. After that, the
/// connection is read only as fast as one refusal in each interval.
const MAX_REFUSED: u64 = 1_000;
const REFUSAL_INTERVAL_MS: u64 = 5;
/// The value of a time that has not come: no head has begun, no write waits.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Meter {
    began: Instant,
    /// Requests whose response is not read yet, streams included.
    open: AtomicU32,
    /// Whole responses that are ready and not read yet.
    untaken: AtomicU32,
    /// Time of the last request's end or of the last response that the peer read, in milliseconds since the connection
    /// began.
    last_ms: AtomicU64,
    /// Time of the first byte of an incomplete head, in milliseconds since the connection began.
    head_ms: AtomicU64,
    /// Start of a waiting write, in milliseconds since the connection began.
    blocked_ms: AtomicU64,
    had_request: AtomicBool,
    /// True if no bytes wait to be written.
    flushed: AtomicBool,
    /// Over HTTP/2 the bytes between two requests are no head, and pings find peers that are gone.
    is_http2: AtomicBool,
    /// It has left HTTP.
    is_stream: AtomicBool,
    /// Bytes since a request began, and when they last reached [`MAX_READ`].
    read: AtomicU64,
    read_ms: AtomicU64,
    given_up: AtomicU32,
    may_give_up: u32,
    /// Time at which the rate limit has absorbed all refusals, in milliseconds since the connection began.
    refused_ms: AtomicU64,
    holding: Mutex<Holding>,
    close: CancellationToken,
}

impl Meter {
    pub(super) fn new(may_give_up: u32) -> Self {
        Self {
            began: Instant::now(),
            open: AtomicU32::new(0),
            untaken: AtomicU32::new(0),
            last_ms: AtomicU64::new(0),
            head_ms: AtomicU64::new(NEVER),
            blocked_ms: AtomicU64::new(NEVER),
            is_http2: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
            had_request: AtomicBool::new(false),
            flushed: AtomicBool::new(true),
            read: AtomicU64::new(0),
            read_ms: AtomicU64::new(0),
            given_up: AtomicU32::new(0),
            may_give_up,
            refused_ms: AtomicU64::new(0),
            holding: Mutex::default(),
            close: CancellationToken::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Time since which the connection is idle: no request is open, except requests whose response waits only for the
    /// peer.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let idle = self.open.load(Relaxed) <= self.untaken.load(Relaxed) && !self.close.is_cancelled();
        idle.then(|| self.began + Duration::from_millis(self.last_ms.load(Relaxed)))
    }

    /// Time at which the connection closes unless bytes arrive; `None` while a request is open, or over HTTP/2 after
    /// the first.
    pub(super) fn closes_at(&self) -> Option<Instant> {
        if self.open.load(Relaxed) > 0 || self.is_http2.load(Relaxed) {
            return None;
        }
        let (since_ms, timeout) = match self.head_ms.load(Relaxed) {
            NEVER if self.had_request.load(Relaxed) => (self.last_ms.load(Relaxed), IDLE_TIMEOUT),
            NEVER => (0, HEAD_TIMEOUT),
            head_ms => (head_ms, HEAD_TIMEOUT),
        };
        Some(self.began + Duration::from_millis(since_ms) + timeout)
    }

    /// True if the peer has read no whole response, or no bytes at all, for too long.
    pub(super) fn is_stuck(&self) -> bool {
        let read_timeout = if self.is_stream.load(Relaxed) {
            Duration::from_millis(STREAM_READ_TIMEOUT_MS.into())
        } else {
            READ_TIMEOUT
        };
        (self.untaken.load(Relaxed) > 0 && self.is_longer(&self.last_ms, RESPONSE_READ_TIMEOUT))
            || self.is_blocked_for(read_timeout)
    }

    pub(super) fn becomes_stream(&self) {
        self.is_stream.store(true, Relaxed);
    }

    /// Time since which a write has waited; `None` if none waits.
    pub(super) fn blocked_since(&self) -> Option<Instant> {
        let blocked_ms = self.blocked_ms.load(Relaxed);
        (blocked_ms != NEVER).then(|| self.began + Duration::from_millis(blocked_ms))
    }

    pub(super) fn is_blocked_for(&self, time: Duration) -> bool {
        self.is_longer(&self.blocked_ms, time)
    }

    fn is_longer(&self, since_ms: &AtomicU64, time: Duration) -> bool {
        Duration::from_millis(self.now_ms().saturating_sub(since_ms.load(Relaxed))) > time
    }

    /// True if no bytes wait to be written.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed.load(Relaxed)
    }

    pub(super) fn waits_for_flush(&self) {
        self.flushed.store(false, Relaxed);
    }

    /// Notes that everything was written. hyper flushes a connection only then, as it does not gather pipelined
    /// answers. Over TLS a flush may have to wait.
    pub(super) fn flushed(&self, flushed: &Poll<io::Result<()>>) {
        self.flushed.store(flushed.is_ready(), Relaxed);
        self.waits(flushed.is_pending());
    }

    /// Notes whether the peer has to take bytes before more can be written.
    pub(super) fn waits(&self, is_blocked: bool) {
        if !is_blocked {
            self.blocked_ms.store(NEVER, Relaxed);
        } else if self.blocked_ms.load(Relaxed) == NEVER {
            self.blocked_ms.store(self.now_ms(), Relaxed);
        }
    }

    /// The unread bytes, if reading them takes longer than this.
    pub(super) fn held_longer_than(&self, time: Duration) -> Option<usize> {
        let holding = self.holding.lock();
        let since = self.now_ms().saturating_sub(holding.since_ms);
        (holding.bytes > 0 && Duration::from_millis(since) > time).then_some(holding.bytes)
    }

    /// Counts bytes that wait for the peer.
    pub(super) fn holds(&self, bytes: usize) {
        let mut holding = self.holding.lock();
        holding.bytes += bytes;
        if holding.left == 0 {
            holding.begin(self.now_ms());
        }
    }

    /// Counts bytes that no longer wait.
    pub(super) fn took(&self, bytes: usize) {
        let mut holding = self.holding.lock();
        holding.bytes -= bytes;
        holding.left = holding.left.saturating_sub(bytes);
        if holding.left == 0 {
            holding.begin(self.now_ms());
        }
    }

    pub(super) fn close(&self) {
        self.close.cancel();
    }

    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Counts a request, whose head is complete.
    pub(super) fn begin(&self, version: Version) {
        self.had_request.store(true, Relaxed);
        self.is_http2.store(version == Version::HTTP_2, Relaxed);
        self.head_ms.store(NEVER, Relaxed);
        self.open.fetch_add(1, Relaxed);
        self.read.store(0, Relaxed);
    }

    /// Counts a request that was cancelled before its response was ready; a connection with too many of them is closed.
    pub(super) fn gave_up(&self) {
        self.ended();
        if self.given_up.fetch_add(1, Relaxed) >= self.may_give_up {
            self.close();
        }
    }

    pub(super) fn was_refused(&self) {
        let now_ms = self.now_ms();
        self.refused_ms.update(Relaxed, Relaxed, |paid_ms| paid_ms.max(now_ms) + REFUSAL_INTERVAL_MS);
    }

    /// The connection may be read again at this time; none if it may be read now.
    pub(super) fn reads_at(&self) -> Option<Instant> {
        let at_ms = self.refused_ms.load(Relaxed).saturating_sub(REFUSAL_INTERVAL_MS * MAX_REFUSED);
        (at_ms > self.now_ms()).then(|| self.began + Duration::from_millis(at_ms))
    }

    /// Counts a ready response, whole or as a stream.
    pub(super) fn is_ready(&self, whole: bool) {
        self.given_up.store(self.given_up.load(Relaxed).saturating_sub(1), Relaxed);
        if whole && self.untaken.fetch_add(1, Relaxed) == 0 {
            self.last_ms.store(self.now_ms(), Relaxed);
        }
    }

    /// Counts a response that was read, or whose connection ended.
    pub(super) fn was_taken(&self, whole: bool) {
        if whole {
            self.untaken.fetch_sub(1, Relaxed);
        }
        self.ended();
    }

    /// Counts bytes that have arrived; returns false if no more may arrive.
    pub(super) fn may_read(&self, bytes: usize) -> bool {
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

    pub(super) fn ended(&self) {
        self.last_ms.store(self.now_ms(), Relaxed);
        self.open.fetch_sub(1, Relaxed);
    }
}

/// Bytes that a peer has not read yet, and its reading speed.
#[derive(Debug, Default)]
struct Holding {
    bytes: usize,
    /// Bytes left to read of those that waited at `since_ms`.
    left: usize,
    since_ms: u64,
}

impl Holding {
    fn begin(&mut self, now_ms: u64) {
        (self.left, self.since_ms) = (self.bytes, now_ms);
    }
}

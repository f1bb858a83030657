//! One WebSocket: it receives messages and sends events and responses.

mod frames;
mod requests;

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use thesis_net::server::{self, Room};
use thesis_streams::{HEARTBEAT, OpenStream, Subscription};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, Sleep, sleep_until, timeout},
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tungstenite::Message;

use self::{frames::Frames, requests::CoreCall};
use super::{
    FAR_BEHIND, GOODBYE, SLOW_READER_TIMEOUT,
    client::Client,
    closing::Closing,
    message::{ServerMessage, event_message},
};

/// A client without a key must send its first message within this time.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// The client must send a frame within this time.
const PONG_TIMEOUT: Duration = Duration::from_secs(45);
/// Bytes that the edge still reads from a client that broke the protocol, so that the client can read the close frame.
const MAX_DISCARDED: usize = 1024 * 1024;
/// The socket writes events in pieces of about this size in bytes.
const PIECE: usize = 16 * 1024;

struct NamedSubscription {
    name: String,
    subscription: Subscription,
}

/// The next event of a socket.
enum SocketEvent {
    Received(Message),
    /// The client has closed the socket and got the close frame.
    Gone,
    Done(CoreCall),
    Heartbeat,
    Close(Closing),
    /// Subscriptions may have events.
    More,
}

pub(super) struct Socket {
    frames: Frames<server::Socket>,
    client: Client,
    /// None until the client is authenticated.
    stream: Option<Arc<OpenStream>>,
    subscriptions: Vec<NamedSubscription>,
    working: Option<(Option<String>, String, BoxFuture<'static, CoreCall>)>,
    /// Wakes the socket for the next heartbeat or the client's next deadline.
    timer: Pin<Box<Sleep>>,
    beat_at: Instant,
    opened_at: Instant,
    /// The time of the last received frame.
    received_at: Instant,
    /// The time since which the client reads nothing.
    blocked_at: Option<Instant>,
    /// The reserved memory for bytes that the client has not read yet.
    room: Option<Room>,
    beat_due: bool,
    /// True after the client broke the protocol.
    broken: bool,
    /// Index of the subscription that is read first.
    first: usize,
    /// Ready when the edge stops. Only a client without a key needs it: later the stream's end closes the socket.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Socket {
    /// Creates a socket. A client that authenticated in the request already has a stream.
    pub(super) fn new(socket: server::Socket, client: Client, stream: Option<OpenStream>) -> Self {
        let stopping = stream.is_none().then(|| Box::pin(client.hub.stopping().cancelled_owned()));
        let now = Instant::now();
        let beat_at = now + HEARTBEAT;
        Self {
            frames: Frames::new(socket),
            client,
            stream: stream.map(Arc::new),
            subscriptions: Vec::new(),
            working: None,
            timer: Box::pin(sleep_until(beat_at)),
            beat_at,
            opened_at: now,
            received_at: now,
            blocked_at: None,
            room: None,
            beat_due: false,
            broken: false,
            first: 0,
            stopping,
        }
    }

    pub(super) async fn run(mut self) {
        if self.stream.is_some() {
            self.send_welcome();
        }
        loop {
            let done = match poll_fn(|task| self.poll_event(task)).await {
                SocketEvent::Received(message) => self.handle_message(message),
                SocketEvent::Done(working) => self.handle_result(working),
                SocketEvent::Heartbeat => self.send_heartbeat(),
                SocketEvent::More => self.write_events(),
                SocketEvent::Close(closing) => Err(closing),
                // The boxes keep the future small: an open socket reserves no memory for its end.
                SocketEvent::Gone if self.broken => return Box::pin(self.linger()).await,
                SocketEvent::Gone => return,
            };
            if let Err(closing) = done {
                return Box::pin(self.close(closing)).await;
            }
        }
    }

    /// Waits for the next event. The stream's end and the deadlines come first. While the client does not read, the
    /// socket neither reads messages nor produces events.
    fn poll_event(&mut self, task: &mut Task<'_>) -> Poll<SocketEvent> {
        if let Some(stream) = &self.stream {
            stream.register(task);
            if let Some(end) = stream.ended() {
                return Poll::Ready(SocketEvent::Close(end.into()));
            }
        }
        if let Some(stopping) = &mut self.stopping
            && stopping.poll_unpin(task).is_ready()
        {
            return Poll::Ready(SocketEvent::Close(Closing::ShuttingDown));
        }
        if let Some(closing) = self.check_deadlines(task) {
            return Poll::Ready(SocketEvent::Close(closing));
        }
        match self.frames.poll_flush(task) {
            Poll::Ready(Ok(())) => {
                if self.blocked_at.take().is_some() {
                    self.room = None;
                    // The socket read nothing meanwhile, so it could not receive a frame.
                    self.received_at = Instant::now();
                }
            }
            Poll::Ready(Err(_)) => return Poll::Ready(SocketEvent::Gone),
            Poll::Pending => {
                // Every byte that the client reads is progress.
                self.blocked_at = self.frames.connection().blocked_since();
                if self.room.is_none() {
                    self.room = self.frames.connection().hold(PIECE);
                }
                return Poll::Pending;
            }
        }
        if std::mem::take(&mut self.beat_due) {
            return Poll::Ready(SocketEvent::Heartbeat);
        }
        if let Some((_, _, working)) = &mut self.working {
            if let Poll::Ready(done) = working.poll_unpin(task) {
                return Poll::Ready(SocketEvent::Done(done));
            }
        } else {
            // The socket handles one request at a time, so that responses keep the order.
            match self.frames.poll_next(task) {
                Poll::Ready(Ok(message)) => return Poll::Ready(SocketEvent::Received(message)),
                Poll::Ready(Err(error)) => {
                    let Some(closing) = Closing::of_error(error) else { return Poll::Ready(SocketEvent::Gone) };
                    self.broken = true;
                    return Poll::Ready(SocketEvent::Close(closing));
                }
                Poll::Pending => {}
            }
        }
        let mut more = Poll::Pending;
        for named in &mut self.subscriptions {
            match named.subscription.poll_more(task) {
                Poll::Ready(Ok(())) => more = Poll::Ready(SocketEvent::More),
                Poll::Ready(Err(_)) => return Poll::Ready(SocketEvent::Close(Closing::ShuttingDown)),
                Poll::Pending => {}
            }
        }
        more
    }

    /// Marks a due heartbeat and sets the timer. Returns the reason to close the socket if a deadline of the client has
    /// passed.
    fn check_deadlines(&mut self, task: &mut Task<'_>) -> Option<Closing> {
        let now = Instant::now();
        if now >= self.beat_at {
            (self.beat_due, self.beat_at) = (true, now + HEARTBEAT);
        }
        let mut wake_at = self.beat_at;
        if let Some((until, closing)) = self.next_deadline() {
            if until > now {
                wake_at = wake_at.min(until);
            } else if !matches!(closing, Closing::TooSlow) || self.is_far_behind() {
                return Some(closing);
            }
        }
        if self.timer.deadline() != wake_at {
            self.timer.as_mut().reset(wake_at);
        }
        // The timer is ready only if the deadline has just passed: then the task polls again.
        if self.timer.as_mut().poll(task).is_ready() {
            task.waker().wake_by_ref();
        }
        None
    }

    /// The client's next deadline, and the reason to close the socket then.
    fn next_deadline(&self) -> Option<(Instant, Closing)> {
        if self.stream.is_none() && self.working.is_none() {
            return Some((self.opened_at + AUTH_TIMEOUT, Closing::NoAuth));
        }
        match self.blocked_at {
            Some(since) => Some((since + SLOW_READER_TIMEOUT, Closing::TooSlow)),
            // The socket reads nothing while core works.
            None if self.working.is_some() => None,
            None => Some((self.received_at + PONG_TIMEOUT, Closing::NoPong)),
        }
    }

    fn is_far_behind(&self) -> bool {
        self.subscriptions.iter().map(|named| named.subscription.behind()).sum::<u64>() > FAR_BEHIND
    }

    fn send_welcome(&mut self) {
        let id = self.client.id.to_str().unwrap_or_default();
        let text = ServerMessage::Welcome { connection_id: id, heartbeat_s: HEARTBEAT.as_secs() }.text();
        self.frames.queue_text(&text);
    }

    fn send_heartbeat(&mut self) -> Result<(), Closing> {
        // Reading moves the positions past events that do not match.
        self.write_events()?;
        let cursor = Subscription::common_cursor(self.subscriptions.iter().map(|named| &named.subscription));
        if self.stream.is_some() {
            self.frames.queue_text(&ServerMessage::Heartbeat { cursor: cursor.as_deref() }.text());
        }
        // Browsers answer a ping automatically, which proves that the client is alive.
        self.frames.queue_ping();
        Ok(())
    }

    /// Queues a piece of the available events.
    fn write_events(&mut self) -> Result<(), Closing> {
        let Self { frames, subscriptions, .. } = self;
        let mut bytes = 0;
        // Another subscription is first each time, so that a busy one does not starve the others.
        self.first = (self.first + 1) % subscriptions.len().max(1);
        let (late, early) = subscriptions.split_at_mut(self.first);
        for NamedSubscription { name, subscription } in early.iter_mut().chain(late) {
            subscription.read(|cursor, entry| {
                let text = event_message(name, cursor, &entry.body);
                bytes += text.len();
                frames.queue_text(&text);
                bytes < PIECE
            });
        }
        subscriptions.retain(|NamedSubscription { name, subscription }| {
            let is_complete = subscription.is_complete();
            if is_complete {
                frames.queue_text(&ServerMessage::Ended { sub: name, cursor: &subscription.cursor() }.text());
            }
            !is_complete
        });
        Ok(())
    }

    /// Sends the close frame and waits a moment for the client's close frame.
    async fn close(mut self, closing: Closing) {
        // This frees the stream's slot at once, even if the client disconnects slowly.
        self.subscriptions.clear();
        if let (Some(stream), Some(why)) = (&self.stream, closing.metric_reason()) {
            stream.ends_for(why);
        }
        self.stream = None;
        self.working = None;
        self.frames.queue_close(closing.frame());
        let goodbye = async {
            poll_fn(|task| self.frames.poll_flush(task)).await?;
            // After an invalid frame the start of the next one is unknown.
            while !self.broken && poll_fn(|task| self.frames.poll_next(task)).await.is_ok() {}
            Ok::<_, io::Error>(())
        };
        // A client that reads nothing is disconnected.
        let _late = timeout(GOODBYE, goodbye).await;
        if self.broken {
            self.linger().await;
        }
    }

    /// Reads for a moment after the end. With unread bytes the operating system would reset the connection, and the
    /// client would lose the close frame.
    async fn linger(mut self) {
        let socket = self.frames.connection();
        let reading = async {
            socket.shutdown().await?;
            let (mut bytes, mut left) = (vec![0; 4_096], MAX_DISCARDED);
            while left > 0 {
                match socket.read(&mut bytes).await? {
                    0 => break,
                    read => left = left.saturating_sub(read),
                }
            }
            Ok::<_, io::Error>(())
        };
        let _late = timeout(GOODBYE, reading).await;
    }
}

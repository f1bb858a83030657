//! One WebSocket: messages in, events and answers out.

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
    message::{ServerMessage, event},
};

/// Longest time until the first message of a client that has not yet shown its key.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time without any frame of the client.
const PONG_TIMEOUT: Duration = Duration::from_secs(45);
/// Most bytes still read of a client that broke the protocol, so that it can read why the socket closes.
const MAX_DISCARDED: usize = 1024 * 1024;
/// Events are written in pieces of about this size.
const PIECE: usize = 16 * 1024;

struct NamedSubscription {
    name: String,
    subscription: Subscription,
}

/// What happens next on a socket.
enum SocketEvent {
    Received(Message),
    /// The client has closed the socket; it was told so.
    Gone,
    Done(CoreCall),
    Heartbeat,
    Close(Closing),
    /// There may be events to read.
    More,
}

/// One WebSocket.
pub(super) struct Socket {
    frames: Frames<server::Socket>,
    client: Client,
    /// None until the client has shown its key.
    stream: Option<Arc<OpenStream>>,
    subscriptions: Vec<NamedSubscription>,
    working: Option<(Option<String>, String, BoxFuture<'static, CoreCall>)>,
    /// Wakes the socket for the next heartbeat, or when the client has had its time.
    timer: Pin<Box<Sleep>>,
    beat_at: Instant,
    opened_at: Instant,
    /// When the last frame came.
    received_at: Instant,
    /// Since when the client takes nothing.
    blocked_at: Option<Instant>,
    /// Room for what the client does not take at once.
    room: Option<Room>,
    /// A heartbeat is due.
    beat_due: bool,
    /// The client broke the protocol.
    broken: bool,
    /// The place of the subscription that is served first.
    first: usize,
    /// Ends when the edge stops; only until the client has shown its key: then its stream ends.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Socket {
    /// A socket whose stream may be open already.
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

    /// Serves the socket until it closes.
    pub(super) async fn run(mut self) {
        if self.stream.is_some() {
            self.welcome();
        }
        loop {
            let done = match poll_fn(|task| self.poll_event(task)).await {
                SocketEvent::Received(message) => self.handle_message(message),
                SocketEvent::Done(working) => self.finish(working),
                SocketEvent::Heartbeat => self.beat(),
                SocketEvent::More => self.write_events(),
                SocketEvent::Close(closing) => Err(closing),
                // In boxes: an open socket keeps no room for its end.
                SocketEvent::Gone if self.broken => return Box::pin(self.linger()).await,
                SocketEvent::Gone => return,
            };
            if let Err(closing) = done {
                return Box::pin(self.close(closing)).await;
            }
        }
    }

    /// The next step. Its end and the clock come before everything; nothing is read or made while the client does not
    /// take what waits for it.
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
                    // It could not be heard while nothing was read.
                    self.received_at = Instant::now();
                }
            }
            Poll::Ready(Err(_)) => return Poll::Ready(SocketEvent::Gone),
            Poll::Pending => {
                // Every byte that the client takes is progress.
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
            // One request at a time, so that answers come in their order.
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

    /// Notes a heartbeat that is due, and has the socket woken for what time brings next. Tells why the client has had its
    /// time, if it has.
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
        // It is ready only if the time has come meanwhile: then at once again.
        if self.timer.as_mut().poll(task).is_ready() {
            task.waker().wake_by_ref();
        }
        None
    }

    /// Until when the client has time, and why it is closed then.
    fn next_deadline(&self) -> Option<(Instant, Closing)> {
        if self.stream.is_none() && self.working.is_none() {
            return Some((self.opened_at + AUTH_TIMEOUT, Closing::NoAuth));
        }
        match self.blocked_at {
            Some(since) => Some((since + SLOW_READER_TIMEOUT, Closing::TooSlow)),
            // Nothing is read while core works.
            None if self.working.is_some() => None,
            None => Some((self.received_at + PONG_TIMEOUT, Closing::NoPong)),
        }
    }

    fn is_far_behind(&self) -> bool {
        self.subscriptions.iter().map(|named| named.subscription.behind()).sum::<u64>() > FAR_BEHIND
    }

    fn welcome(&mut self) {
        let id = self.client.id.to_str().unwrap_or_default();
        let text = ServerMessage::Welcome { connection_id: id, heartbeat_s: HEARTBEAT.as_secs() }.text();
        self.frames.text(&text);
    }

    fn beat(&mut self) -> Result<(), Closing> {
        // The positions move over what does not match only when it is read.
        self.write_events()?;
        let cursor = Subscription::common_cursor(self.subscriptions.iter().map(|named| &named.subscription));
        if self.stream.is_some() {
            self.frames.text(&ServerMessage::Heartbeat { cursor: cursor.as_deref() }.text());
        }
        // Browsers answer it by themselves, and so show that they are there.
        self.frames.ping();
        Ok(())
    }

    /// Queues a piece of the events that are there.
    fn write_events(&mut self) -> Result<(), Closing> {
        let Self { frames, subscriptions, .. } = self;
        let mut bytes = 0;
        // Each time another is first, so that a busy one does not starve the others.
        self.first = (self.first + 1) % subscriptions.len().max(1);
        let (late, early) = subscriptions.split_at_mut(self.first);
        for NamedSubscription { name, subscription } in early.iter_mut().chain(late) {
            subscription.read(|cursor, entry| {
                let text = event(name, cursor, &entry.body);
                bytes += text.len();
                frames.text(&text);
                bytes < PIECE
            });
        }
        Ok(())
    }

    /// Tells the client why, waits a moment for its answer, and goes.
    async fn close(mut self, closing: Closing) {
        // The place is free at once, however slowly the client goes.
        self.subscriptions.clear();
        if let (Some(stream), Some(why)) = (&self.stream, closing.why()) {
            stream.ends_for(why);
        }
        self.stream = None;
        self.working = None;
        self.frames.close(closing.frame());
        let goodbye = async {
            poll_fn(|task| self.frames.poll_flush(task)).await?;
            // After a broken frame nobody knows where the next one begins.
            while !self.broken && poll_fn(|task| self.frames.poll_next(task)).await.is_ok() {}
            Ok::<_, io::Error>(())
        };
        // Best effort: a client that takes nothing is cut off.
        let _late = timeout(GOODBYE, goodbye).await;
        if self.broken {
            self.linger().await;
        }
    }

    /// Reads on for a moment after the end: bytes that nobody read would make the system withdraw what was written.
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

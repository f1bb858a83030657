//! One WebSocket: messages in, events and answers out.

use std::{
    future::poll_fn,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, Sink as _, SinkExt as _, Stream as _, StreamExt as _, future::BoxFuture};
use http::HeaderValue;
use thesis_net::{clock::SharedIdSource, server, services::Trusted};
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    filter::CompiledFilter,
    json::StreamGap,
    v1::{self, OpenKind},
};
use thesis_streams::{End, Hub, OpenStream, Opened, Subscription};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_websockets::{CloseCode, Error, Limits, Message, Payload, ServerBuilder, WebSocketStream};
use tonic::{Request as Asking, Status};

use super::message::{Asked, HEARTBEAT_SECONDS, Request, Told, event, failure};
use crate::{call::Call, context::Context};

const HEARTBEAT: Duration = Duration::from_secs(HEARTBEAT_SECONDS);
/// Longest time until the first message of a client that has not yet shown its key.
const AUTH_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time without any frame of the client.
const PONG_PATIENCE: Duration = Duration::from_secs(45);
/// Longest time in which a client that is far behind takes nothing.
const SLOW_PATIENCE: Duration = Duration::from_secs(55);
/// Number of events behind from which on a client may be too slow.
const FAR_BEHIND: u64 = 1_000;
/// Longest time to tell a client why its socket closes.
const GOODBYE: Duration = Duration::from_secs(5);
/// Most subscriptions of a socket.
const MOST_SUBSCRIPTIONS: usize = 16;
/// Most bytes of a message.
const MOST_BYTES: usize = 64 * 1024;
/// Events are written in pieces of about this size.
const PIECE: usize = 16 * 1024;

/// What a socket knows of its client and its edge.
pub(super) struct Client {
    hub: Arc<Hub>,
    ids: SharedIdSource,
    address: IpAddr,
    /// The id of the request that opened the socket, and of the connection.
    id: HeaderValue,
}

impl Client {
    pub(super) fn new(edge: &Context, call: &Call) -> Self {
        let (hub, ids) = (Arc::clone(&edge.hub), Arc::clone(&edge.ids));
        Self { hub, ids, address: call.origin.client_address, id: call.origin.request_id.clone() }
    }

    /// A request to core for this client, with an id of its own.
    fn request(&self, message: v1::OpenRequest) -> (Asking<v1::OpenRequest>, String) {
        let id = crate::context::request_id(self.ids.as_ref());
        let text = id.to_str().unwrap_or_default().to_owned();
        let mut request = Asking::new(message);
        let trusted = Trusted { client_address: Some(self.address), request_id: Some(id), malformed: false };
        request.extensions_mut().insert(trusted);
        (request, text)
    }

    fn request_id(&self) -> String {
        crate::context::request_id(self.ids.as_ref()).to_str().unwrap_or_default().to_owned()
    }
}

/// Why this side closes a socket, with the code that tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    ShuttingDown,
    TooSlow,
    NoPong,
    Revoked,
    NoObject,
    NoAuth,
    MissingScope,
    StreamLimit,
    Replaced,
    Binary,
    TooBig,
    TryLater,
}

impl Closing {
    fn code(self) -> (u16, &'static str) {
        match self {
            Self::ShuttingDown => (4001, "shutting down"),
            Self::TooSlow => (4008, "too slow"),
            Self::NoPong => (4012, "no pong"),
            Self::Revoked => (4500, "bad, revoked or expired key"),
            Self::NoObject => (4501, "not a JSON object, or not auth first"),
            Self::NoAuth => (4502, "no auth in time"),
            Self::MissingScope => (4503, "missing scope"),
            Self::StreamLimit => (4504, "stream limit reached"),
            Self::Replaced => (4505, "replaced by its ticket's new connection"),
            Self::Binary => (1003, "text only"),
            Self::TooBig => (1009, "64 KiB at most"),
            Self::TryLater => (1013, "try again later"),
        }
    }

    /// The closing for an authentication that failed.
    fn of_failure(code: ErrorCode) -> Self {
        match code {
            ErrorCode::InsufficientScope => Self::MissingScope,
            ErrorCode::StreamLimitReached => Self::StreamLimit,
            ErrorCode::ServiceUnavailable
            | ErrorCode::RateLimited
            | ErrorCode::QuotaExceeded
            | ErrorCode::InternalError => Self::TryLater,
            _ => Self::Revoked,
        }
    }
}

impl From<End> for Closing {
    fn from(end: End) -> Self {
        match end {
            End::Revoked => Self::Revoked,
            End::Reconnect => Self::ShuttingDown,
            End::Replaced => Self::Replaced,
        }
    }
}

/// A request of the client that core is working on.
enum Working {
    Auth(Result<OpenStream, Status>),
    Subscribe(Box<(Subscribing, Result<Opened, Status>)>),
}

struct Subscribing {
    sub: String,
    types: Vec<i32>,
    filters: Option<v1::EventFilters>,
    resumed: bool,
}

struct Named {
    name: String,
    subscription: Subscription,
}

/// What happens next on a socket.
enum Step {
    Heard(Message),
    /// The client has closed the socket or broken the protocol; it was told so.
    Gone,
    Done(Working),
    Heartbeat,
    Close(Closing),
    /// There may be events to read.
    More,
}

/// One WebSocket.
pub(super) struct Socket {
    socket: WebSocketStream<server::Socket>,
    client: Client,
    /// None until the client has shown its key.
    stream: Option<Arc<OpenStream>>,
    subscriptions: Vec<Named>,
    working: Option<(Option<String>, String, BoxFuture<'static, Working>)>,
    heartbeats: Interval,
    opened_at: Instant,
    /// When the last frame came.
    heard_at: Instant,
    /// Since when the client takes nothing.
    blocked_at: Option<Instant>,
}

impl Socket {
    /// A socket whose stream may be open already.
    pub(super) fn new(socket: server::Socket, client: Client, stream: Option<OpenStream>) -> Self {
        let limits = Limits::default().max_payload_len(Some(MOST_BYTES));
        let now = Instant::now();
        let first = if stream.is_some() { HEARTBEAT } else { AUTH_PATIENCE };
        let mut heartbeats = interval_at(now + first, HEARTBEAT);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            socket: ServerBuilder::new().limits(limits).serve(socket),
            client,
            stream: stream.map(Arc::new),
            subscriptions: Vec::new(),
            working: None,
            heartbeats,
            opened_at: now,
            heard_at: now,
            blocked_at: None,
        }
    }

    /// Serves the socket until it closes.
    pub(super) async fn run(mut self) {
        if self.stream.is_some() {
            self.welcome();
        }
        loop {
            let done = match poll_fn(|task| self.poll_step(task)).await {
                Step::Heard(message) => self.hear(&message),
                Step::Done(working) => self.finish(working),
                Step::Heartbeat => self.beat(),
                Step::More => self.write_events(),
                Step::Close(closing) => Err(closing),
                Step::Gone => return,
            };
            if let Err(closing) = done {
                return self.close(closing).await;
            }
        }
    }

    /// The next step. Its end and the clock come before everything; nothing is read or made while the client does not
    /// take what waits for it.
    fn poll_step(&mut self, task: &mut Task<'_>) -> Poll<Step> {
        if let Some(stream) = &self.stream {
            stream.register(task);
            if let Some(end) = stream.ended() {
                return Poll::Ready(Step::Close(end.into()));
            }
        }
        let beat = self.heartbeats.poll_tick(task).is_ready();
        if let Some(closing) = self.is_overdue() {
            return Poll::Ready(Step::Close(closing));
        }
        match Pin::new(&mut self.socket).poll_flush(task) {
            Poll::Ready(Ok(())) => {
                if self.blocked_at.take().is_some() {
                    // It could not be heard while nothing was read.
                    self.heard_at = Instant::now();
                }
            }
            Poll::Ready(Err(_)) => return Poll::Ready(Step::Gone),
            Poll::Pending => {
                self.blocked_at.get_or_insert_with(Instant::now);
                return Poll::Pending;
            }
        }
        if beat {
            return Poll::Ready(Step::Heartbeat);
        }
        if let Some((_, _, working)) = &mut self.working {
            if let Poll::Ready(done) = working.poll_unpin(task) {
                return Poll::Ready(Step::Done(done));
            }
        } else {
            // One request at a time, so that answers come in their order.
            match Pin::new(&mut self.socket).poll_next(task) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(Step::Heard(message)),
                Poll::Ready(Some(Err(Error::PayloadTooLong { .. }))) => {
                    return Poll::Ready(Step::Close(Closing::TooBig));
                }
                // The socket tells the client what else it did wrong before it ends.
                Poll::Ready(Some(Err(_))) => {
                    task.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(None) => return Poll::Ready(Step::Gone),
                Poll::Pending => {}
            }
        }
        for named in &mut self.subscriptions {
            match named.subscription.poll_more(task) {
                Poll::Ready(Ok(())) => return Poll::Ready(Step::More),
                Poll::Ready(Err(_)) => return Poll::Ready(Step::Close(Closing::ShuttingDown)),
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// Why the client has had its time, if it has.
    fn is_overdue(&self) -> Option<Closing> {
        if self.stream.is_none() && self.working.is_none() && self.opened_at.elapsed() >= AUTH_PATIENCE {
            return Some(Closing::NoAuth);
        }
        match self.blocked_at {
            Some(since) => {
                let behind = || self.subscriptions.iter().map(|named| named.subscription.behind()).sum::<u64>();
                (since.elapsed() >= SLOW_PATIENCE && behind() > FAR_BEHIND).then_some(Closing::TooSlow)
            }
            None => (self.heard_at.elapsed() >= PONG_PATIENCE).then_some(Closing::NoPong),
        }
    }

    /// Queues a text for the client.
    fn send(&mut self, text: Vec<u8>) {
        // A socket that is closing takes no more; its end is seen with the next step.
        let _closing = self.socket.start_send_unpin(Message::text(Payload::from(text)));
    }

    fn welcome(&mut self) {
        let id = self.client.id.to_str().unwrap_or_default();
        let text = Told::Welcome { connection_id: id, heartbeat_s: HEARTBEAT_SECONDS }.text();
        self.send(text);
    }

    fn beat(&mut self) -> Result<(), Closing> {
        let cursor = Subscription::common_cursor(self.subscriptions.iter().map(|named| &named.subscription));
        if self.stream.is_some() {
            self.send(Told::Heartbeat { cursor: cursor.as_deref() }.text());
        }
        // Browsers answer it by themselves, and so show that they are there.
        let _closing = self.socket.start_send_unpin(Message::ping(Bytes::new()));
        Ok(())
    }

    fn hear(&mut self, message: &Message) -> Result<(), Closing> {
        self.heard_at = Instant::now();
        if message.is_binary() {
            return Err(Closing::Binary);
        }
        if !message.is_text() {
            return Ok(());
        }
        let text = Bytes::from(message.as_payload().clone());
        let Some(Request { rid, asked }) = Request::read(&text) else { return Err(Closing::NoObject) };
        match (asked, self.stream.clone()) {
            (Ok(Asked::Auth { key }), None) => {
                self.authenticate(rid, &key);
                Ok(())
            }
            (_, None) => Err(Closing::NoObject),
            (Ok(asked), Some(stream)) => {
                if let Err(error) = self.answer(rid.clone(), asked, stream) {
                    self.refuse(rid.as_deref(), &error);
                }
                Ok(())
            }
            (Err(error), Some(_)) => {
                self.refuse(rid.as_deref(), &error);
                Ok(())
            }
        }
    }

    fn refuse(&mut self, rid: Option<&str>, error: &ApiError) {
        let text = failure(rid, error, &self.client.request_id());
        self.send(text);
    }

    fn authenticate(&mut self, rid: Option<String>, key: &str) {
        let mut message = v1::OpenRequest::default();
        message.set_kind(OpenKind::Place);
        let (mut request, id) = self.client.request(message);
        if let Ok(mut value) = format!("Bearer {key}").parse::<tonic::metadata::AsciiMetadataValue>() {
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        let hub = Arc::clone(&self.client.hub);
        let opening = async move { Working::Auth(hub.open(request).await.map(|(_, stream)| stream)) };
        self.working = Some((rid, id, opening.boxed()));
    }

    fn answer(&mut self, rid: Option<String>, asked: Asked, stream: Arc<OpenStream>) -> Result<(), ApiError> {
        let wrong = |param: &str, rule: &str| ApiError::validation(&[FieldError::new(param, rule)]);
        match asked {
            Asked::Auth { .. } => Err(wrong("op", "this connection is authenticated already")),
            Asked::Ping => {
                self.send(Told::Pong { rid: rid.as_deref() }.text());
                Ok(())
            }
            Asked::Unsubscribe { sub } => {
                let place = self.subscriptions.iter().position(|named| named.name == sub);
                let place = place.ok_or_else(|| wrong("sub", "there is no such subscription"))?;
                self.subscriptions.remove(place);
                self.send(Told::Unsubscribed { rid: rid.as_deref(), sub: &sub }.text());
                Ok(())
            }
            Asked::Subscribe { sub, types, filters, cursor } => {
                if self.subscriptions.iter().any(|named| named.name == sub) {
                    return Err(wrong("sub", "is in use on this connection"));
                }
                if self.subscriptions.len() >= MOST_SUBSCRIPTIONS {
                    return Err(wrong("sub", "a connection has 16 subscriptions at most"));
                }
                let resumed = cursor.is_some();
                let message =
                    v1::OpenRequest { types: types.clone(), filters: filters.clone(), cursor, ..Default::default() };
                let (request, id) = self.client.request(message);
                let subscribing = Subscribing { sub, types, filters, resumed };
                let hub = Arc::clone(&self.client.hub);
                let work =
                    async move { Working::Subscribe(Box::new((subscribing, hub.subscribe(&stream, request).await))) };
                self.working = Some((rid, id, work.boxed()));
                Ok(())
            }
        }
    }

    /// Tells how core's work ended.
    fn finish(&mut self, working: Working) -> Result<(), Closing> {
        let Some((rid, request_id, _)) = self.working.take() else { return Ok(()) };
        self.heard_at = Instant::now();
        match working {
            Working::Auth(Ok(stream)) => {
                self.stream = Some(Arc::new(stream));
                self.heartbeats.reset();
                self.welcome();
            }
            Working::Auth(Err(status)) => {
                let error = ApiError::from_status(&status);
                self.send(failure(rid.as_deref(), &error, &request_id));
                return Err(Closing::of_failure(error.code));
            }
            Working::Subscribe(done) => {
                let (asked, opened) = *done;
                let opened = opened.map_err(|status| ApiError::from_status(&status));
                if let Err(error) = opened.and_then(|opened| self.begin(rid.as_deref(), asked, &opened)) {
                    self.send(failure(rid.as_deref(), &error, &request_id));
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, rid: Option<&str>, asked: Subscribing, opened: &Opened) -> Result<(), ApiError> {
        let Subscribing { sub, types, filters, resumed } = asked;
        let named: Vec<_> = types.iter().map(|kind| v1::EventType::try_from(*kind).unwrap_or_default()).collect();
        // Core has accepted the same filter.
        let filter = CompiledFilter::new(&named, filters.as_ref()).map_err(|_| ApiError::internal())?;
        let stream = self.stream.as_ref().ok_or_else(ApiError::internal)?;
        let subscription = self.client.hub.follow(stream, &opened.begin, filter, &types, filters.as_ref());
        let gap = opened.begin.gap.as_ref();
        let cursor = gap.map_or_else(|| subscription.cursor(), |gap| gap.first_cursor.clone());
        let replayed = opened.begin.replayed;
        let told = Told::Subscribed { rid, sub: &sub, cursor: &cursor, resumed, replayed, gap: gap.is_some() }.text();
        self.send(told);
        if let Some(gap) = gap {
            self.send(Told::Gap { sub: &sub, gap: StreamGap::from(gap) }.text());
        }
        self.subscriptions.push(Named { name: sub, subscription });
        self.write_events().map_err(|_| ApiError::internal())
    }

    /// Queues a piece of the events that are there.
    fn write_events(&mut self) -> Result<(), Closing> {
        let Self { socket, subscriptions, .. } = self;
        let mut bytes = 0;
        for Named { name, subscription } in subscriptions {
            subscription.read(|cursor, entry| {
                let text = event(name, cursor, &entry.body);
                bytes += text.len();
                let _closing = socket.start_send_unpin(Message::text(Payload::from(text)));
                bytes < PIECE
            });
        }
        Ok(())
    }

    /// Tells the client why, waits a moment for its answer, and goes.
    async fn close(mut self, closing: Closing) {
        // The place is free at once, however slowly the client goes.
        self.subscriptions.clear();
        self.stream = None;
        self.working = None;
        let (code, reason) = closing.code();
        let Ok(code) = CloseCode::try_from(code) else { return };
        let goodbye = async {
            // It may have said so already.
            let _closing = self.socket.send(Message::close(Some(code), reason)).await;
            while self.socket.next().await.is_some() {}
        };
        // Best effort: a client that takes nothing is cut off.
        let _late = timeout(GOODBYE, goodbye).await;
    }
}

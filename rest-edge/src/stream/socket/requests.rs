//! What clients ask on a WebSocket, and its answers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use thesis_proto::{
    error::{ApiError, FieldError},
    json::StreamGap,
    v1::{self, OpenKind},
};
use thesis_streams::{HEARTBEAT, OpenStream, OpenedStream};
use tokio::time::{Instant, timeout};
use tonic::Status;
use tungstenite::{Message, protocol::frame::coding::CloseCode};

use super::{Named, Socket};
use crate::stream::{
    closing::Closing,
    message::{Asked, Request, Told, failure},
};

/// Most subscriptions of a socket.
const MAX_SUBSCRIPTIONS: usize = 16;
/// Most characters of a key: a longer one is none, and would not fit into a header.
const MAX_KEY: usize = 200;
/// Longest wait for core's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request of the client that core is working on.
pub(super) enum Working {
    Auth(Result<OpenStream, Status>),
    Subscribe(Box<(Subscribing, Result<OpenedStream, Status>)>),
}

pub(super) struct Subscribing {
    sub: String,
    types: Vec<i32>,
    filters: Option<v1::EventFilters>,
    resumed: bool,
}

impl Socket {
    pub(super) fn hear(&mut self, message: Message) -> Result<(), Closing> {
        self.received_at = Instant::now();
        let text = match message {
            Message::Text(text) => Bytes::from(text),
            Message::Binary(_) => return Err(Closing::Binary),
            Message::Close(reason) => {
                // The answer has this code too, also when the client's own is one that must not be sent.
                self.broken = reason.is_some_and(|reason| reason.code == CloseCode::Protocol);
                return Ok(());
            }
            _ => return Ok(()),
        };
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
        let text = failure(rid, self.client.errors.told(error, &self.client.request_id()));
        self.frames.text(&text);
    }

    fn authenticate(&mut self, rid: Option<String>, key: &str) {
        let mut message = v1::OpenRequest::default();
        message.set_kind(OpenKind::Place);
        let (mut request, id) = self.client.request(message);
        let value = format!("Bearer {key}").parse::<tonic::metadata::AsciiMetadataValue>();
        // Without the header core says and counts that the key is none.
        if let Some(mut value) = value.ok().filter(|_| key.len() <= MAX_KEY) {
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        let hub = Arc::clone(&self.client.hub);
        let opening = async move {
            let opened = timeout(PATIENCE, hub.open("websocket", request)).await.unwrap_or_else(|_| Err(late()));
            Working::Auth(opened.map(|(_, stream)| stream))
        };
        self.working = Some((rid, id, opening.boxed()));
    }

    fn answer(&mut self, rid: Option<String>, asked: Asked, stream: Arc<OpenStream>) -> Result<(), ApiError> {
        let wrong = |param: &str, rule: &str| ApiError::validation(&[FieldError::new(param, rule)]);
        match asked {
            Asked::Auth { .. } => {
                Err(wrong("op", "this connection is authenticated already; open another one for another key"))
            }
            Asked::Ping => {
                self.frames.text(&Told::Pong { rid: rid.as_deref() }.text());
                Ok(())
            }
            Asked::Unsubscribe { sub } => {
                let place = self.subscriptions.iter().position(|named| named.name == sub);
                let place =
                    place.ok_or_else(|| wrong("sub", "there is no such subscription; name one of this connection"))?;
                self.subscriptions.remove(place);
                self.frames.text(&Told::Unsubscribed { rid: rid.as_deref(), sub: &sub }.text());
                Ok(())
            }
            Asked::Subscribe { sub, types, filters, cursor } => {
                if self.subscriptions.iter().any(|named| named.name == sub) {
                    return Err(wrong("sub", "is in use on this connection; choose another name"));
                }
                if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
                    return Err(wrong(
                        "sub",
                        "a connection has 16 subscriptions at most; end one, or open another connection",
                    ));
                }
                let resumed = cursor.is_some();
                let message =
                    v1::OpenRequest { types: types.clone(), filters: filters.clone(), cursor, ..Default::default() };
                let (request, id) = self.client.request(message);
                let subscribing = Subscribing { sub, types, filters, resumed };
                let hub = Arc::clone(&self.client.hub);
                let work = async move {
                    let opened = timeout(PATIENCE, hub.subscribe(&stream, request)).await;
                    Working::Subscribe(Box::new((subscribing, opened.unwrap_or_else(|_| Err(late())))))
                };
                self.working = Some((rid, id, work.boxed()));
                Ok(())
            }
        }
    }

    /// Tells how core's work ended.
    pub(super) fn finish(&mut self, working: Working) -> Result<(), Closing> {
        let Some((rid, request_id, _)) = self.working.take() else { return Ok(()) };
        self.received_at = Instant::now();
        match working {
            Working::Auth(Ok(stream)) => {
                self.stream = Some(Arc::new(stream));
                self.beat_at = Instant::now() + HEARTBEAT;
                self.stopping = None;
                self.welcome();
            }
            Working::Auth(Err(status)) => {
                let error = ApiError::from_status(&status);
                self.frames.text(&failure(rid.as_deref(), self.client.errors.told(&error, &request_id)));
                return Err(Closing::of_failure(error.code));
            }
            Working::Subscribe(done) => {
                let (asked, opened) = *done;
                let opened = opened.map_err(|status| ApiError::from_status(&status));
                if let Err(error) = opened.and_then(|opened| self.begin(rid.as_deref(), asked, &opened)) {
                    self.frames.text(&failure(rid.as_deref(), self.client.errors.told(&error, &request_id)));
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, rid: Option<&str>, asked: Subscribing, opened: &OpenedStream) -> Result<(), ApiError> {
        let Subscribing { sub, types, filters, resumed } = asked;
        let stream = self.stream.as_ref().ok_or_else(ApiError::internal)?;
        let subscription = self.client.hub.follow(stream, &opened.begin, &types, filters.as_ref());
        // Core has accepted the same filter.
        let subscription = subscription.map_err(|_| ApiError::internal())?;
        let gap = opened.begin.gap.as_ref();
        let cursor = gap.map_or_else(|| subscription.cursor(), |gap| gap.first_cursor.clone());
        let replayed = opened.begin.replayed;
        let told = Told::Subscribed { rid, sub: &sub, cursor: &cursor, resumed, replayed, gap: gap.is_some() }.text();
        self.frames.text(&told);
        if let Some(gap) = gap {
            self.frames.text(&Told::Gap { sub: &sub, gap: StreamGap::from(gap) }.text());
        }
        self.subscriptions.push(Named { name: sub, subscription });
        self.write_events().map_err(|_| ApiError::internal())
    }
}

/// Core did not answer in time.
fn late() -> Status {
    Status::deadline_exceeded("core did not answer in time")
}

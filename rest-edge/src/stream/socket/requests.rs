//! The requests of a client on a WebSocket, and the responses.

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

use super::{NamedSubscription, Socket};
use crate::stream::{
    closing::Closing,
    message::{ClientRequest, Operation, ServerMessage, error_message},
};

const MAX_SUBSCRIPTIONS: usize = 16;
/// Limit for a key in characters. A longer text is no key and would not fit into a header.
const MAX_KEY: usize = 200;
const CORE_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a call that core makes for a client's request.
pub(super) enum CoreCall {
    Auth(Result<OpenStream, Status>),
    Subscribe(Box<(PendingSubscription, Result<OpenedStream, Status>)>),
}

pub(super) struct PendingSubscription {
    sub: String,
    types: Vec<i32>,
    filters: Option<v1::EventFilters>,
    resumed: bool,
}

impl Socket {
    pub(super) fn handle_message(&mut self, message: Message) -> Result<(), Closing> {
        self.received_at = Instant::now();
        let text = match message {
            Message::Text(text) => Bytes::from(text),
            Message::Binary(_) => return Err(Closing::Binary),
            Message::Close(reason) => {
                // tungstenite responds with this code if the client sent an invalid one.
                self.broken = reason.is_some_and(|reason| reason.code == CloseCode::Protocol);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let Some(ClientRequest { rid, operation }) = ClientRequest::read(&text) else { return Err(Closing::NoObject) };
        let applied = match (operation, self.stream.clone()) {
            (Ok(Operation::Auth { key }), None) => {
                self.authenticate(rid, &key);
                return Ok(());
            }
            (_, None) => return Err(Closing::NoObject),
            (operation, Some(stream)) => {
                operation.and_then(|operation| self.apply_operation(rid.clone(), operation, stream))
            }
        };
        if let Err(error) = applied {
            self.refuse(rid.as_deref(), &error, &self.client.request_id());
        }
        Ok(())
    }

    fn refuse(&mut self, rid: Option<&str>, error: &ApiError, request_id: &str) {
        let text = error_message(rid, self.client.errors.json_error(error, request_id));
        self.frames.queue_text(&text);
    }

    fn authenticate(&mut self, rid: Option<String>, key: &str) {
        let mut message = v1::OpenRequest::default();
        message.set_kind(OpenKind::Place);
        let (mut request, id) = self.client.request(message);
        let value = format!("Bearer {key}").parse::<tonic::metadata::AsciiMetadataValue>();
        // Without the header core refuses and counts the request.
        if let Some(mut value) = value.ok().filter(|_| key.len() <= MAX_KEY) {
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        let hub = Arc::clone(&self.client.hub);
        let opening = async move {
            let opened = timeout(CORE_CALL_TIMEOUT, hub.open("websocket", request))
                .await
                .unwrap_or_else(|_| Err(timeout_status()));
            CoreCall::Auth(opened.map(|(_, stream)| stream))
        };
        self.working = Some((rid, id, opening.boxed()));
    }

    fn apply_operation(
        &mut self,
        rid: Option<String>,
        operation: Operation,
        stream: Arc<OpenStream>,
    ) -> Result<(), ApiError> {
        let wrong = |param: &str, rule: &str| ApiError::validation(&[FieldError::new(param, rule)]);
        match operation {
            Operation::Auth { .. } => {
                Err(wrong("op", "this connection is authenticated already; open another one for another key"))
            }
            Operation::Ping => {
                self.frames.queue_text(&ServerMessage::Pong { rid: rid.as_deref() }.text());
                Ok(())
            }
            Operation::Unsubscribe { sub } => {
                let place = self.subscriptions.iter().position(|named| named.name == sub);
                let place =
                    place.ok_or_else(|| wrong("sub", "there is no such subscription; name one of this connection"))?;
                self.subscriptions.remove(place);
                self.frames.queue_text(&ServerMessage::Unsubscribed { rid: rid.as_deref(), sub: &sub }.text());
                Ok(())
            }
            Operation::Subscribe { sub, opening } => {
                if self.subscriptions.iter().any(|named| named.name == sub) {
                    return Err(wrong("sub", "is in use on this connection; choose another name"));
                }
                if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
                    return Err(wrong(
                        "sub",
                        "a connection has 16 subscriptions at most; end one, or open another connection",
                    ));
                }
                let (types, filters) = (opening.types.clone(), opening.filters.clone());
                let pending = PendingSubscription { sub, types, filters, resumed: opening.cursor.is_some() };
                let (request, id) = self.client.request(*opening);
                let hub = Arc::clone(&self.client.hub);
                let work = async move {
                    let opened = timeout(CORE_CALL_TIMEOUT, hub.subscribe(&stream, request)).await;
                    CoreCall::Subscribe(Box::new((pending, opened.unwrap_or_else(|_| Err(timeout_status())))))
                };
                self.working = Some((rid, id, work.boxed()));
                Ok(())
            }
        }
    }

    /// Sends the result of core's work to the client.
    pub(super) fn handle_result(&mut self, working: CoreCall) -> Result<(), Closing> {
        let Some((rid, request_id, _)) = self.working.take() else { return Ok(()) };
        self.received_at = Instant::now();
        match working {
            CoreCall::Auth(Ok(stream)) => {
                self.stream = Some(Arc::new(stream));
                self.beat_at = Instant::now() + HEARTBEAT;
                self.stopping = None;
                self.send_welcome();
            }
            CoreCall::Auth(Err(status)) => {
                let error = ApiError::from_status(&status);
                self.refuse(rid.as_deref(), &error, &request_id);
                return Err(Closing::of_failure(error.code));
            }
            CoreCall::Subscribe(done) => {
                let (pending, opened) = *done;
                let opened = opened.map_err(|status| ApiError::from_status(&status));
                if let Err(error) = opened.and_then(|opened| self.start_subscription(rid.as_deref(), pending, &opened))
                {
                    self.refuse(rid.as_deref(), &error, &request_id);
                }
            }
        }
        Ok(())
    }

    fn start_subscription(
        &mut self,
        rid: Option<&str>,
        pending: PendingSubscription,
        opened: &OpenedStream,
    ) -> Result<(), ApiError> {
        let PendingSubscription { sub, types, filters, resumed } = pending;
        let stream = self.stream.as_ref().ok_or_else(ApiError::internal)?;
        let subscription = self.client.hub.follow(stream, opened, &types, filters.as_ref());
        // Core has validated the same filter.
        let subscription = subscription.map_err(|_| ApiError::internal())?;
        let gap = opened.begin.gap.as_ref();
        let cursor = gap.map_or_else(|| subscription.cursor(), |gap| gap.first_cursor.clone());
        let replayed = opened.begin.replayed;
        let text =
            ServerMessage::Subscribed { rid, sub: &sub, cursor: &cursor, resumed, replayed, gap: gap.is_some() }.text();
        self.frames.queue_text(&text);
        if let Some(gap) = gap {
            self.frames.queue_text(&ServerMessage::Gap { sub: &sub, gap: StreamGap::from(gap) }.text());
        }
        self.subscriptions.push(NamedSubscription { name: sub, subscription });
        self.write_events().map_err(|_| ApiError::internal())
    }
}

fn timeout_status() -> Status {
    Status::deadline_exceeded("core did not answer in time")
}

//! `EventService.Subscribe`: events over gRPC, from the stream engine.

use std::{collections::VecDeque, future::poll_fn, sync::Arc};

use futures::{
    StreamExt as _,
    stream::{BoxStream, unfold},
};
use http::Extensions;
use prost::Message as _;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, subscribe_response::Message},
};
use thesis_streams::{EndReason, HEARTBEAT, Hub, OpenStream, StreamStep, Subscription};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::{Request, Response, Status};

use super::answer::{error_status, meta, trusted};
use crate::{access::gate::RequestMeta, service::Core};

/// Events are read in pieces of about this size.
const PIECE: usize = 16 * 1024;

/// Opens a subscription, which lasts as long as the call.
pub(super) async fn subscribe(
    core: &Arc<Core>,
    hub: &Arc<Hub>,
    request: Request<v1::SubscribeRequest>,
) -> Result<Response<BoxStream<'static, Result<v1::SubscribeResponse, Status>>>, Status> {
    let (meta, trusted) = (meta(core, &request), trusted(core, &request));
    let (metadata, _, message) = request.into_parts();
    let v1::SubscribeRequest { types, filters, cursor, from, to, speed } = message;
    let mut extensions = Extensions::new();
    let request_id = meta.request_id.parse().ok();
    // People need a ticket to follow events.
    extensions.insert(thesis_net::services::Trusted { request_id, member: None, ..trusted });
    let (request_types, request_filters) = (types.clone(), filters.clone());
    let opening = v1::OpenRequest {
        types: request_types,
        filters: request_filters,
        cursor,
        from,
        to,
        speed,
        ..v1::OpenRequest::default()
    };
    let (opened, stream) = hub.open("grpc", Request::from_parts(metadata, extensions, opening)).await?;
    let subscription = hub.follow(&stream, &opened, &types, filters.as_ref());
    // Core has accepted the same filter.
    let subscription = subscription.map_err(|_| error_status(&ApiError::internal(), &meta.request_id))?;
    let mut heartbeats = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let gap = opened.begin.gap;
    let cursor = gap.as_ref().map_or_else(|| subscription.cursor(), |gap| gap.first_cursor.clone());
    let waiting = VecDeque::from_iter(
        [Message::Heartbeat(v1::StreamHeartbeat { cursor })].into_iter().chain(gap.map(Message::Gap)),
    );
    let call = SubscribeCall {
        core: Arc::clone(core),
        meta,
        stream: Some(stream),
        subscription,
        waiting,
        heartbeats,
        is_last: false,
    };
    let messages = unfold(call, |mut call| async move {
        let message = call.next().await?;
        Some((message.map(|message| v1::SubscribeResponse { message: Some(message) }), call))
    });
    let mut response = Response::new(messages.boxed());
    *response.metadata_mut() = opened.metadata;
    Ok(response)
}

/// One open subscription.
struct SubscribeCall {
    core: Arc<Core>,
    meta: RequestMeta,
    /// None once it has ended.
    stream: Option<OpenStream>,
    subscription: Subscription,
    /// Messages that the caller has not received yet.
    waiting: VecDeque<Message>,
    heartbeats: Interval,
    /// True once `waiting` has all remaining events of a replay.
    is_last: bool,
}

impl SubscribeCall {
    /// Returns the next message. It first checks whether the stream must end, so that a slow reader does not delay the
    /// end.
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        loop {
            let stream = self.stream.as_ref()?;
            if let Some(end) = stream.ended() {
                return Some(Err(self.end(end)));
            }
            if let Some(message) = self.waiting.pop_front() {
                return Some(Ok(message));
            }
            if self.is_last {
                stream.ends_for("complete");
                self.stream = None;
                return None;
            }
            let Self { subscription, waiting, heartbeats, .. } = self;
            let mut bytes = 0;
            subscription.read(|cursor, entry| {
                bytes += entry.body.len();
                // The hub of this core encodes events.
                let event = v1::Event::decode(&*entry.body).ok();
                waiting.push_back(Message::Event(v1::StreamEvent { cursor: cursor.to_owned(), event }));
                bytes < PIECE
            });
            if subscription.is_complete() {
                waiting.push_back(Message::Heartbeat(v1::StreamHeartbeat { cursor: subscription.cursor() }));
                self.is_last = true;
            }
            if !waiting.is_empty() {
                continue;
            }
            match poll_fn(|context| stream.poll_step(subscription, heartbeats, context)).await {
                StreamStep::More => {}
                StreamStep::Heartbeat => {
                    let cursor = self.subscription.cursor();
                    return Some(Ok(Message::Heartbeat(v1::StreamHeartbeat { cursor })));
                }
                StreamStep::End(end) => return Some(Err(self.end(end))),
            }
        }
    }

    fn end(&mut self, end: EndReason) -> Status {
        self.stream = None;
        let error = match end {
            EndReason::Revoked => {
                let refused = self.core.gate.authenticate(&self.meta, self.core.shared.clock.now_ms()).err();
                refused.map_or_else(
                    || ApiError::new(ErrorCode::ApiKeyRevoked, "this API key has lost its rights; use another one"),
                    |error| *error.api,
                )
            }
            EndReason::Reconnect | EndReason::Replaced => ApiError::unavailable(),
        };
        error_status(&error, &self.meta.request_id)
    }
}

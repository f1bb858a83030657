//! `StreamService`: the calls that the edge makes its streams from.

use std::{sync::Arc, time::Duration};

use futures::stream::BoxStream;
use thesis_proto::v1::{self, open_response::Message, stream_service_server::StreamService};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{admit, failed, finish, meta, reached, service_only, status},
    event::compile,
    fields::Fields,
    thesis::CURSOR,
};
use crate::{
    access::gate::Call,
    domain::{dataset::Dataset, operation::Operation},
    error::{Error, Result as Outcome},
    log::forward::read_forward,
    operations::{
        Core,
        open_stream::{Opened, open_stream},
    },
    replicas::stream_slots::StreamSlot,
};

/// Longest time until an open stream's key is checked again: no change tells that a key has expired.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest time that an ended stream keeps its slot, for the edge to close it.
const CLOSING: Duration = Duration::from_secs(2);

/// The path of the list of the same events, under `/v1/events`.
fn history_path(message: &v1::OpenRequest) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let types: Vec<&str> = message.types().map(thesis_proto::names::event_type_name).collect();
    let filters = message.filters.clone().unwrap_or_default();
    for (name, values) in [
        ("types", types.join(",")),
        ("token", filters.token.join(",")),
        ("handle", filters.handle.join(",")),
        ("chain", filters.chain.join(",")),
    ] {
        if !values.is_empty() {
            query.append_pair(name, &values);
        }
    }
    let query = query.finish();
    if query.is_empty() { "/v1/events".to_owned() } else { format!("/v1/events?{query}") }
}

async fn open(core: &Core, call: &Call, message: &v1::OpenRequest) -> Outcome<Opened> {
    let mut fields = Fields::default();
    let filter = compile(&mut fields, &message.types, message.filters.as_ref(), "");
    fields.optional_length("from_cursor", message.cursor.as_deref(), CURSOR);
    fields.finish()?;
    call.charge().await?;
    open_stream(core, call, &filter, &history_path(message), message.cursor.as_deref()).await
}

fn end(reason: v1::StreamEndReason) -> v1::OpenResponse {
    v1::OpenResponse { message: Some(Message::End(v1::StreamEnd { reason: reason.into() })) }
}

/// Ends a stream when its key loses its rights, when this core cannot check that any more or has lost the slot, or when
/// this core stops. Holds the slot until the stream is closed.
async fn control(core: Arc<Core>, call: Call, slot: StreamSlot, sender: mpsc::Sender<v1::OpenResponse>) {
    let (mut changes, mut current) = (core.shared.control.changes(), core.shared.control.current());
    let mut outdated = std::pin::pin!(async { drop(current.wait_for(|current| !*current).await) });
    let expires_in = || {
        let expires_at = call.caller.key.expires_at?;
        Some(Duration::from_millis((expires_at - core.shared.clock.now_ms()).max(1).unsigned_abs()))
    };
    let reason = loop {
        tokio::select! {
            () = sender.closed() => return,
            () = core.stop.cancelled() => break v1::StreamEndReason::ShuttingDown,
            () = &mut outdated => break v1::StreamEndReason::ShuttingDown,
            () = slot.lost() => break v1::StreamEndReason::ShuttingDown,
            changed = changes.changed() => if changed.is_err() { break v1::StreamEndReason::ShuttingDown },
            () = tokio::time::sleep(expires_in().map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY))) => {}
        }
        if !core.gate.still_admits(&call.meta, Operation::Open) {
            break v1::StreamEndReason::Revoked;
        }
    };
    // If the receiver is gone, the stream has ended too.
    let _gone = sender.send(end(reason)).await;
    let _late = timeout(CLOSING, sender.closed()).await;
}

#[async_trait]
impl StreamService for Api {
    type OpenStream = BoxStream<'static, Result<v1::OpenResponse, Status>>;

    async fn open(&self, request: Request<v1::OpenRequest>) -> Result<Response<Self::OpenStream>, Status> {
        service_only(&self.core, &request)?;
        let call = admit(&self.core, Operation::Open, meta(&self.core, &request)).await?;
        let message = request.into_inner();
        let opened = reached(&self.core, open(&self.core, &call, &message)).await;
        let opened = opened.map_err(|error| failed(&call, &error, Operation::Open))?;
        let (sender, receiver) = mpsc::channel(1);
        let begin = v1::OpenResponse { message: Some(Message::Begin(opened.begin)) };
        let stream = tokio_stream::once(begin).chain(ReceiverStream::new(receiver)).map(Ok);
        let mut response = Response::new(Box::pin(stream) as Self::OpenStream);
        finish(&call, response.metadata_mut());
        tokio::spawn(control(Arc::clone(&self.core), call, opened.slot, sender));
        Ok(response)
    }

    type TailStream = BoxStream<'static, Result<v1::TailResponse, Status>>;

    async fn tail(&self, request: Request<v1::TailRequest>) -> Result<Response<Self::TailStream>, Status> {
        service_only(&self.core, &request)?;
        let message = request.into_inner();
        let dataset =
            Dataset::parse(&message.dataset).ok_or_else(|| Status::invalid_argument("dataset: is not a dataset"))?;
        let mut fields = Fields::default();
        let filter = compile(&mut fields, &message.types, message.filters.as_ref(), "");
        let core = Arc::clone(&self.core);
        let failed = |error: &Error, core: &Core| status(error, &core.gate.new_request_id(), "StreamService/Tail");
        fields.finish().map_err(|error| failed(&error, &core))?;
        let mut position = core.datasets.position(&dataset).await.map_err(|error| failed(&error, &core))?;
        let (sender, receiver) = mpsc::channel(2);
        tokio::spawn(async move {
            let mut after = message.after;
            loop {
                let upto = *position.borrow_and_update();
                if after < upto {
                    let read = read_forward(&core.shared, &dataset, &filter, after, upto).await;
                    let answer = read.map_err(|error| failed(&error, &core));
                    after = answer.as_ref().map_or(after, |batch| batch.position);
                    let failed = answer.is_err();
                    if sender.send(answer).await.is_err() || failed {
                        return;
                    }
                    continue;
                }
                tokio::select! {
                    () = sender.closed() => return,
                    () = core.stop.cancelled() => return,
                    changed = position.changed() => if changed.is_err() { return },
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

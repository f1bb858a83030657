//! `StreamService`: the calls of the stream engine.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    stream::{BoxStream, once, pending, select_all, unfold},
};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    metadata::REQUEST_ID,
    v1::{self, OpenKind, stream_service_server::StreamService},
};
use tokio::{sync::watch, time::sleep};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{admit, error_status, failed, finish, internal, meta, note_request, reached, service_only, status},
};
use crate::{
    domain::{dataset::Dataset, operation::Operation},
    error::Result as Outcome,
    log::{
        backward::{Backward, LogSlice},
        forward::read_forward,
        selection::Selection,
    },
    operations::{fields::Fields, open_stream::open_stream, stream_tickets::find_ticket},
    service::Core,
};

/// The first and the largest pause before the retry of a failed log read.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Ends in one message.
const MAX_ENDS: usize = 1_000;
/// Maximum number of events of the sandbox in one response, and of the entries that are read for them: some are no
/// events.
const MAX_SANDBOX_EVENTS: usize = 100;
const MAX_SANDBOX_ENTRIES: usize = 200;

/// Read state of one dataset in a call of `Tail`.
struct TailRead {
    core: Arc<Core>,
    dataset: Dataset,
    /// None before the first read.
    position: Option<watch::Receiver<u64>>,
    after: u64,
}

impl TailRead {
    /// Reads the next projected entries; none when this core stops.
    async fn next(&mut self) -> Outcome<Option<v1::TailResponse>> {
        let Self { core, dataset, position, after } = self;
        let position = match position {
            Some(position) => position,
            None => position.insert(core.datasets.position(dataset).await?),
        };
        let Ok(upto) = position.wait_for(|position| *position > *after).await.map(|upto| *upto) else {
            return Ok(None);
        };
        let read = read_forward(&core.shared, dataset, &CompiledFilter::default(), *after, upto).await?;
        let v1::ReadResponse { events, position } = read;
        // The read has found every entry of an erasure up to here.
        let erased = core.shared.log.newest_erasure(dataset.name());
        let begins_after = std::mem::replace(after, position);
        let dataset = core.shared.generation.log_name(dataset);
        Ok(Some(v1::TailResponse { dataset, events, position, after: begins_after, erased }))
    }
}

/// Streams the projected entries of one dataset. It retries a failed read, so that the other datasets of the call
/// continue.
fn tail(read: TailRead) -> BoxStream<'static, Result<v1::TailResponse, Status>> {
    unfold(read, |mut read| async move {
        let mut pause = PAUSES.0;
        loop {
            match read.next().await {
                Ok(page) => return Some((Ok(page?), read)),
                Err(error) => {
                    tracing::warn!(dataset = %read.dataset, %error, "reading a log for streams failed, trying again");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    })
    .boxed()
}

/// Words the refusal of a ticket or an open stream as one of a key: the caller knows nothing of the person behind it.
fn as_key(status: Status) -> Status {
    let error = ApiError::from_status(&status);
    if ![ErrorCode::SignInRequired, ErrorCode::ProjectNotFound].contains(&error.code) {
        return status;
    }
    let gone = ApiError::new(
        ErrorCode::ApiKeyRevoked,
        "who made this ticket has signed out, or left the project; open the stream with an API key",
    );
    let request_id = status.metadata().get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    error_status(&gone, request_id)
}

/// Reads the newest events of the sandbox.
async fn newest_of_sandbox(core: &Core, limit: usize) -> Outcome<v1::ReadSandboxResponse> {
    let projected = core.datasets.refresh(&Dataset::Sandbox).await?;
    let slice = LogSlice { dataset: Dataset::Sandbox, before: projected + 1, after: 0, projected, from: 0 };
    let mut entries = Backward::new(&core.shared, Selection::All, vec![slice], limit + 1);
    let mut events = Vec::new();
    for _ in 0..MAX_SANDBOX_ENTRIES {
        if events.len() == limit {
            break;
        }
        let Some((index, taken)) = entries.next().await? else { break };
        events.extend(entries.event(index, taken, &CompiledFilter::default())?);
    }
    Ok(v1::ReadSandboxResponse { events })
}

#[async_trait]
impl StreamService for Api {
    async fn open(&self, request: Request<v1::OpenRequest>) -> Result<Response<v1::OpenResponse>, Status> {
        service_only(&self.core, &request)?;
        let core = &self.core;
        let mut meta = meta(core, &request);
        let message = request.into_inner();
        if message.kind() != OpenKind::Check && !core.open_streams.knows(&message.session) {
            return Err(Status::unavailable("there is no such session of streams"));
        }
        if message.kind() == OpenKind::Subscription {
            let key = core.open_streams.key_of(&message.session, message.stream);
            let ended = || Status::unavailable("the stream has ended");
            meta.key_id = Some(key.ok_or_else(ended)?.to_string());
        }
        let mut ticket = None;
        if let Some(text) = &message.ticket {
            let found = reached(core, find_ticket(core, text)).await;
            ticket = found.map_err(|error| status(&error, &meta.request_id, Operation::Open.name()))?;
            // No key has this id: an unknown ticket is reported and counted like a wrong key.
            meta.key_id = Some(ticket.as_ref().map_or_else(String::new, |found| found.ticket.key_id.clone()));
        }
        let is_indirect = meta.key_id.is_some();
        let call = admit(core, Operation::Open, meta).await;
        let call = call.map_err(|status| if is_indirect { as_key(status) } else { status })?;
        let opened = reached(core, open_stream(core, &call, message, ticket)).await;
        let mut response = Response::new(opened.map_err(|error| failed(core, &call, &error, Operation::Open))?);
        note_request(core, &call, None);
        finish(&call, response.metadata_mut());
        Ok(response)
    }

    type EndingsStream = BoxStream<'static, Result<v1::EndingsResponse, Status>>;

    async fn endings(&self, request: Request<v1::EndingsRequest>) -> Result<Response<Self::EndingsStream>, Status> {
        service_only(&self.core, &request)?;
        let (guard, ends) = self.core.open_streams.begin(&request.get_ref().session);
        let ends = UnboundedReceiverStream::new(ends).ready_chunks(MAX_ENDS);
        let ends = ends.map(|ends| Ok(v1::EndingsResponse { ends }));
        let hello = once(async { Ok(v1::EndingsResponse::default()) });
        let stopped = self.core.stop.clone().cancelled_owned();
        // The session lasts as long as the call. A stopping core has already ended every stream.
        let session = hello.chain(ends).take_until(stopped).map(move |message| {
            let _session = &guard;
            message
        });
        Ok(Response::new(session.boxed()))
    }

    async fn close(&self, request: Request<v1::CloseRequest>) -> Result<Response<v1::CloseResponse>, Status> {
        service_only(&self.core, &request)?;
        let v1::CloseRequest { session, streams } = request.into_inner();
        self.core.open_streams.close(&session, &streams);
        Ok(Response::new(v1::CloseResponse {}))
    }

    type TailStream = BoxStream<'static, Result<v1::TailResponse, Status>>;

    async fn tail(&self, request: Request<v1::TailRequest>) -> Result<Response<Self::TailStream>, Status> {
        service_only(&self.core, &request)?;
        let mut tails = Vec::new();
        for from in request.into_inner().after {
            let core = Arc::clone(&self.core);
            tails.push(match core.shared.generation.dataset_of(&from.dataset) {
                Some(dataset) => tail(TailRead { core, dataset, position: None, after: from.position }),
                // An edge may outlive a restore. Nothing follows in a log of before, and the other logs are read on.
                None => pending().boxed(),
            });
        }
        Ok(Response::new(select_all(tails).take_until(self.core.stop.clone().cancelled_owned()).boxed()))
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Result<Response<v1::ReadResponse>, Status> {
        service_only(&self.core, &request)?;
        let v1::ReadRequest { dataset: name, after, types, filters } = request.into_inner();
        let dataset = self.core.shared.generation.dataset_of(&name);
        let dataset = dataset.ok_or_else(|| Status::unavailable("the store has no such generation of this log"))?;
        internal(&self.core, "StreamService/Read", async {
            let mut fields = Fields::default();
            let filter = fields.filter(&types, filters.as_ref(), "");
            fields.finish()?;
            let upto = self.core.datasets.refresh(&dataset).await?;
            read_forward(&self.core.shared, &dataset, &filter, after, upto).await
        })
        .await
    }

    async fn read_sandbox(
        &self,
        request: Request<v1::ReadSandboxRequest>,
    ) -> Result<Response<v1::ReadSandboxResponse>, Status> {
        service_only(&self.core, &request)?;
        let limit = usize::try_from(request.get_ref().limit).unwrap_or(usize::MAX).min(MAX_SANDBOX_EVENTS);
        internal(&self.core, "StreamService/ReadSandbox", newest_of_sandbox(&self.core, limit)).await
    }
}

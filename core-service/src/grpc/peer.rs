//! `PeerService`: requests of the other cores.

use std::{future::ready, mem::take, sync::Arc};

use futures::{StreamExt as _, stream};
use prost::Message as _;
use thesis_net::services::Stream;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, append_request::Command, append_response::Result as Answer, peer_service_server::PeerService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{credential_only, error_status, internal, service_only, status},
};
use crate::{
    domain::{dataset::Dataset, row::NewThesis},
    error::Result as Outcome,
    ingest::upstream::Upstream,
    log::fan_out::{MatchedEvent, create_deliveries},
    operations::ingest::ingest,
    search::{SearchError, months::search_here, send_shard},
    service::Core,
};

/// Runs a command at this core, whether or not it owns the log.
async fn write(core: &Core, dataset: &Dataset, command: Written) -> Outcome<Answer> {
    Ok(match command {
        Written::Thesis(new) => {
            let appended = core.datasets.create_here(dataset, *new).await?;
            Answer::Thesis(v1::LogEntry { seq: appended.seq, body: appended.entry.stored(appended.seq).into() })
        }
        Written::Observations(request) => Answer::Observations(ingest(core, request).await?),
        Written::ClosedTime(at) => {
            core.datasets.close_time_here(dataset, at).await?;
            Answer::IsClosed(true)
        }
    })
}

impl Api {
    /// Refuses a request for another core.
    fn check_core(&self, core: &str) -> Result<(), Status> {
        let is_meant = core == self.core.shared.replica;
        is_meant.then_some(()).ok_or_else(|| Status::failed_precondition("another core is meant"))
    }

    /// Returns the dataset of a request, if the request is for this core.
    fn meant(&self, core: &str, dataset: &str) -> Result<Dataset, Status> {
        self.check_core(core)?;
        Dataset::parse(dataset).ok_or_else(|| unreadable("dataset"))
    }

    /// Returns the upstream, if the request is for this core and it leads.
    fn led(&self, core: &str) -> Result<&Arc<Upstream>, Status> {
        let upstream = self.core.upstream.as_ref().filter(|upstream| upstream.leads());
        let upstream = upstream.filter(|_| core == self.core.shared.replica);
        upstream.ok_or_else(|| Status::failed_precondition("another core is meant"))
    }
}

fn unreadable(what: &str) -> Status {
    Status::invalid_argument(format!("{what}: cannot be read"))
}

/// Adds what only a core knows of itself to the report of its process.
async fn add_own_state(core: &Core, report: &mut v1::ReportProcessRequest) {
    let is_away = core.shared.backend.away().is_some_and(|away| *away.borrow());
    report.is_failing = is_away || !core.shared.control.is_current();
    if let Some(upstream) = core.upstream.as_ref().filter(|upstream| upstream.leads()) {
        let status = upstream.read_status().await;
        let is_up = status.state() == v1::IngestState::Up;
        let state = if is_up { v1::FeedState::Up } else { v1::FeedState::Down };
        report.feed = Some(v1::FeedSummary { state: state.into(), lag_ms: status.lag_ms });
    }
}

/// A parsed command.
enum Written {
    Thesis(Box<NewThesis>),
    Observations(v1::IngestRequest),
    ClosedTime(i64),
}

#[async_trait]
impl PeerService for Api {
    type AppendStream = Stream<v1::AppendResponse>;
    type CopyShardStream = Stream<v1::CopyShardResponse>;
    type NewsStream = Stream<v1::NewsResponse>;

    async fn append(&self, request: Request<v1::AppendRequest>) -> Result<Response<Self::AppendStream>, Status> {
        service_only(&self.core, &request)?;
        let v1::AppendRequest { core, dataset, command } = request.into_inner();
        let dataset = self.meant(&core, &dataset)?;
        let command = match command {
            Some(Command::Thesis(new)) => {
                Written::Thesis(Box::new(NewThesis::decode(new).map_err(|_| unreadable("thesis"))?))
            }
            Some(Command::Observations(request)) => Written::Observations(request),
            Some(Command::ClosedTime(at)) => Written::ClosedTime(at),
            None => return Err(unreadable("command")),
        };
        let core = Arc::clone(&self.core);
        let written = async move {
            let writer = Arc::clone(&core);
            let answer = core.run_to_end(async move { write(&writer, &dataset, command).await }).await;
            let answer = answer.map_err(|error| {
                let request_id = core.gate.new_request_id();
                status(&error, &request_id, "PeerService/Append")
            });
            Ok(v1::AppendResponse { result: Some(answer?) })
        };
        let received = stream::once(ready(Ok(v1::AppendResponse::default())));
        Ok(Response::new(received.chain(stream::once(written)).boxed()))
    }

    async fn look_up(&self, request: Request<v1::LookUpRequest>) -> Result<Response<v1::LookUpResponse>, Status> {
        service_only(&self.core, &request)?;
        let v1::LookUpRequest { core, thing } = request.into_inner();
        let upstream = self.led(&core)?;
        let thing = thing.ok_or_else(|| Status::invalid_argument("thing: is required"))?;
        Ok(Response::new(upstream.lookup_here(thing).await.into()))
    }

    async fn get_feed_status(
        &self,
        request: Request<v1::GetFeedStatusRequest>,
    ) -> Result<Response<v1::GetFeedStatusResponse>, Status> {
        service_only(&self.core, &request)?;
        let upstream = self.led(&request.get_ref().core)?;
        Ok(Response::new(v1::GetFeedStatusResponse { status: Some(upstream.read_status().await) }))
    }

    /// A core that may not serve takes reports too: the status says that it cannot.
    async fn report_process(
        &self,
        request: Request<v1::ReportProcessRequest>,
    ) -> Result<Response<v1::ReportProcessResponse>, Status> {
        credential_only(&self.core, &request)?;
        let mut report = request.into_inner();
        let relays = take(&mut report.relay);
        // A core's process sends its report to itself.
        if relays && report.roles().any(|role| role == v1::ProcessRole::Core) {
            add_own_state(&self.core, &mut report).await;
        }
        let relayed = relays.then(|| report.clone());
        self.core.processes.receive(report, self.core.shared.clock.now_ms());
        if let Some(report) = relayed {
            // The process waits for it, so that the other cores get its last report last, whichever core it calls.
            self.core.peers.relay(&report).await;
        }
        Ok(Response::new(v1::ReportProcessResponse {}))
    }

    async fn count_theses(
        &self,
        request: Request<v1::CountThesesRequest>,
    ) -> Result<Response<v1::CountThesesResponse>, Status> {
        service_only(&self.core, &request)?;
        let v1::CountThesesRequest { core, dataset, token, at } = request.into_inner();
        let dataset = self.meant(&core, &dataset)?;
        internal(&self.core, "PeerService/CountTheses", async {
            let counts = self.core.datasets.count_here(&dataset, &token, at).await?;
            Ok(v1::CountThesesResponse { counts: counts.map(|counts| counts.encode_to_vec().into()) })
        })
        .await
    }

    async fn create_deliveries(
        &self,
        request: Request<v1::CreateDeliveriesRequest>,
    ) -> Result<Response<v1::CreateDeliveriesResponse>, Status> {
        service_only(&self.core, &request)?;
        let v1::CreateDeliveriesRequest { core, dataset, events, may_be_repeated } = request.into_inner();
        let dataset = self.meant(&core, &dataset)?;
        let events: Result<Vec<_>, _> = events.into_iter().map(MatchedEvent::from_message).collect();
        let events = events.map_err(|_| unreadable("events"))?;
        internal(&self.core, "PeerService/CreateDeliveries", async {
            create_deliveries(&self.core.shared, &dataset, &events, may_be_repeated).await?;
            Ok(v1::CreateDeliveriesResponse {})
        })
        .await
    }

    async fn copy_shard(
        &self,
        request: Request<v1::CopyShardRequest>,
    ) -> Result<Response<Self::CopyShardStream>, Status> {
        service_only(&self.core, &request)?;
        let request = request.into_inner();
        self.check_core(&request.core)?;
        let pieces = send_shard(&self.core.search, request).await.map_err(|error| match error {
            SearchError::Busy => {
                let refused = ApiError::new(ErrorCode::RateLimited, error.to_string());
                error_status(&refused, &self.core.gate.new_request_id())
            }
            // Other cores may have the shard, so these are no failures that an operator should know.
            SearchError::NotWhole => Status::not_found(error.to_string()),
            SearchError::Version | SearchError::Generation => Status::failed_precondition(error.to_string()),
            _ => Status::unavailable(error.to_string()),
        })?;
        let pieces = pieces.map(|piece| piece.map_err(|error| Status::unavailable(error.to_string())));
        Ok(Response::new(pieces.take_until(self.core.stop.clone().cancelled_owned()).boxed()))
    }

    async fn search_months(
        &self,
        request: Request<v1::SearchMonthsRequest>,
    ) -> Result<Response<v1::SearchMonthsResponse>, Status> {
        service_only(&self.core, &request)?;
        let request = request.into_inner();
        self.check_core(&request.core)?;
        // The caller has another core to search, and logs its own failure.
        let found = search_here(&self.core.search, request).await;
        found.map(Response::new).map_err(|error| match error.api.code {
            // The caller passes it on.
            ErrorCode::RateLimited => error_status(&error.api, &self.core.gate.new_request_id()),
            _ => Status::unavailable(error.to_string()),
        })
    }

    async fn news(&self, request: Request<v1::NewsRequest>) -> Result<Response<Self::NewsStream>, Status> {
        service_only(&self.core, &request)?;
        let listener = self.core.shared.notifications.subscribe();
        // Notifications from before the subscription.
        let known = self.core.datasets.positions().into_iter().filter(|(_, position)| *position > 0);
        let logs = known.map(|(dataset, position)| v1::LogNews { dataset: dataset.to_string(), position }).collect();
        let core = self.core.shared.replica.clone();
        let first = stream::once(ready(v1::NewsResponse { core, logs, control: true, queues: Vec::new() }));
        let notifications = stream::unfold(listener, |listener| async {
            let next = listener.next().await;
            Some((next, listener))
        });
        let stopped = Arc::clone(&self.core);
        let stopped = async move { stopped.stop.cancelled().await };
        Ok(Response::new(first.chain(notifications).map(Ok).take_until(Box::pin(stopped)).boxed()))
    }
}

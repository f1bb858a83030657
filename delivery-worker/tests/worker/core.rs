//! A core that hands out what a test tells it to.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use delivery_worker::{WorkerConfig, WorkerError, run};
use thesis_net::{
    clock::{SystemClock, SystemIdSource},
    services::{Stream as Messages, Trusted},
};
use thesis_proto::v1::{
    AttemptReport, ClaimRequest, ClaimResponse, EventType, ReportRequest, ReportResponse, WebhookHeader,
    attempt_report::Outcome, delivery_service_server::DeliveryService,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

type Claims = mpsc::Sender<Result<ClaimResponse, Status>>;

struct FakeCore {
    streams: mpsc::UnboundedSender<Stream>,
    reports: mpsc::UnboundedSender<AttemptReport>,
    refuse_reports: Arc<AtomicUsize>,
}

/// One worker's open call; ends when dropped.
pub(crate) struct Stream {
    pub(crate) request: ClaimRequest,
    claims: Claims,
}

impl Stream {
    pub(crate) async fn hand_out(&self, claim: ClaimResponse) {
        self.claims.send(Ok(claim)).await.unwrap();
    }
}

/// A worker at work, and core's side of it.
pub(crate) struct Harness {
    streams: mpsc::UnboundedReceiver<Stream>,
    reports: mpsc::UnboundedReceiver<AttemptReport>,
    pub(crate) refuse_reports: Arc<AtomicUsize>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) worker: JoinHandle<Result<(), WorkerError>>,
}

impl Harness {
    pub(crate) fn start(config: WorkerConfig) -> Self {
        let (streams, streams_here) = mpsc::unbounded_channel();
        let (reports, reports_here) = mpsc::unbounded_channel();
        let refuse_reports = Arc::new(AtomicUsize::new(0));
        let shutdown = CancellationToken::new();
        let core = FakeCore { streams, reports, refuse_reports: Arc::clone(&refuse_reports) };
        let worker =
            run(vec![Arc::new(core)], config, Arc::new(SystemClock), Arc::new(SystemIdSource), shutdown.clone());
        let worker = tokio::spawn(worker);
        Self { streams: streams_here, reports: reports_here, refuse_reports, shutdown, worker }
    }

    pub(crate) async fn stream(&mut self) -> Stream {
        self.streams.recv().await.unwrap()
    }

    pub(crate) async fn report(&mut self) -> AttemptReport {
        self.reports.recv().await.unwrap()
    }

    /// What becomes of one claim.
    pub(crate) async fn outcome(&mut self, stream: &Stream, claim: ClaimResponse) -> Result<i32, String> {
        stream.hand_out(claim).await;
        match self.report().await.outcome.unwrap() {
            Outcome::Response(answer) => Ok(answer.status),
            Outcome::Failure(failure) => Err(failure.reason),
            Outcome::Released(_) => Err("released".into()),
        }
    }
}

pub(crate) fn claim(url: impl Into<String>) -> ClaimResponse {
    ClaimResponse {
        delivery_id: "del_1".into(),
        webhook_id: "wh_1".into(),
        url: url.into(),
        attempt: 1,
        event_id: "evt_1".into(),
        event_type: EventType::ThesisCreated.into(),
        body: r#"{"id":"evt_1","object":"event"}"#.into(),
        secrets: vec!["whsec_new".into(), "whsec_old".into()],
        livemode: false,
        is_test: false,
        replay_of: None,
        traceparent: String::new(),
        signing_key: vec![7; 32].into(),
        headers: vec![WebhookHeader { name: "X-Api-Key".into(), value: Some("of the customer".into()) }],
        event_created_at: None,
    }
}

#[tonic::async_trait]
impl DeliveryService for FakeCore {
    type ClaimStream = Messages<ClaimResponse>;

    async fn claim(&self, request: Request<ClaimRequest>) -> Result<Response<Self::ClaimStream>, Status> {
        check_trust(&request)?;
        let (claims, stream) = mpsc::channel(64);
        // The test may be over.
        let _ = self.streams.send(Stream { request: request.into_inner(), claims });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        check_trust(&request)?;
        if self.refuse_reports.load(Ordering::Relaxed) > 0 {
            self.refuse_reports.fetch_sub(1, Ordering::Relaxed);
            return Err(Status::unavailable("the store is away"));
        }
        for report in request.into_inner().reports {
            let _ = self.reports.send(report);
        }
        Ok(Response::new(ReportResponse {}))
    }
}

fn check_trust<T>(request: &Request<T>) -> Result<(), Status> {
    let is_trusted = request.extensions().get::<Trusted>().is_some();
    is_trusted.then_some(()).ok_or_else(|| Status::unauthenticated("not a worker's request"))
}

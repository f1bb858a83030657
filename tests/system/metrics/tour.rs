//! A tour of the service: requests and refusals, streams of each transport, deliveries that succeed and fail, and pushes.

use serde_json::json;
use thesis_proto::v1::{self, Environment, event_service_client::EventServiceClient, observation::Observed};
use tokio::time::timeout;
use tonic::Request;

use super::scrape::Scrape;
use crate::harness::{
    ALL_SCOPES, Key, Receiver, SERVICE_TOKEN, SOON, Service, fetch,
    ingest::{author, seen_at, thesis, token},
    now_ms, text,
};

/// Number of theses that are made while streams are open.
const THESES: u32 = 3;
/// Number of reads by id.
const READS: u32 = 7;

/// What a tour must have moved: a metric, labels, by how much, and whether exactly by that.
type Moved = (&'static str, Vec<(&'static str, &'static str)>, f64, bool);

/// A tour that was walked.
pub(super) struct Tour {
    moved: Vec<Moved>,
    /// Ids, secrets and words of the tour that no label may have.
    pub(super) names: Vec<String>,
}

impl Tour {
    /// Walks the tour.
    pub(super) async fn walk(service: &Service) -> Self {
        let project = service.project_on("huge").await;
        let key = project.key(Environment::Test, ALL_SCOPES).await;
        let mut tour = Self {
            moved: Vec::new(),
            names: vec![
                project.id.clone(),
                key.id.clone(),
                key.raw.clone(),
                SERVICE_TOKEN.to_owned(),
                "Tourist".into(),
            ],
        };
        tour.requests(&key).await;
        // Before there are webhooks, which would be told of it.
        tour.pushes(service, &project.dataset()).await;
        tour.streams_and_deliveries(service, &key).await;
        tour
    }

    fn exactly(&mut self, name: &'static str, labels: &[(&'static str, &'static str)], by: u32) {
        self.moved.push((name, labels.to_vec(), by.into(), true));
    }

    fn at_least(&mut self, name: &'static str, labels: &[(&'static str, &'static str)], by: u32) {
        self.moved.push((name, labels.to_vec(), by.into(), false));
    }

    /// What the tour moved and the metrics do not tell.
    pub(super) fn misses(&self, before: &Scrape, after: &Scrape) -> Vec<String> {
        let miss = |(name, labels, by, is_exact): &Moved| {
            let moved = after.sum(name, labels) - before.sum(name, labels);
            let holds = if *is_exact { (moved - by).abs() < 0.5 } else { moved >= *by };
            (!holds).then(|| format!("{name}{labels:?} moved by {moved}, not {by}"))
        };
        self.moved.iter().filter_map(miss).collect()
    }

    async fn requests(&mut self, key: &Key) {
        let client = &key.client;
        let (made, _) = client.thesis("Tourist", "TOUR", "the first").await;
        let id = text(&made, "id");
        self.names.push(id.to_owned());
        for _ in 0..READS {
            client.get(&format!("/v1/theses/{id}")).await.ok(200);
        }
        client.get("/v1/theses/th_nowhere").await.error(404, "THESIS_NOT_FOUND");
        client.get("/v1/theses?limit=0").await.invalid(&["limit"]);
        client.get("/v1/secret-path-of-nobody").await.error(404, "ROUTE_NOT_FOUND");
        client.with_key(None).get("/v1/me").await.error(401, "MISSING_API_KEY");
        // Pages are no JSON.
        for page in ["/docs", "/console/sign-in"] {
            fetch(format!("{}{page}", client.base())).await.unwrap().error_for_status().unwrap();
        }
        let read = [("route", "/v1/theses/{id}"), ("method", "GET")];
        self.exactly("http_requests_total", &[read[0], read[1], ("code", "200"), ("class", "standard")], READS);
        self.exactly("http_requests_total", &[read[0], ("code", "404")], 1);
        self.exactly("http_request_seconds_count", &read, READS + 1);
        self.exactly("http_requests_total", &[("route", "/v1/theses"), ("code", "422")], 1);
        self.exactly("http_requests_total", &[("route", "unknown"), ("code", "404"), ("class", "none")], 1);
        self.exactly("http_requests_total", &[("route", "/v1/me"), ("code", "401")], 1);
        self.at_least("http_requests_total", &[("route", "/docs")], 1);
        self.at_least("http_requests_total", &[("route", "/console")], 1);
        self.names.push("secret-path".to_owned());
    }

    async fn streams_and_deliveries(&mut self, service: &Service, key: &Key) {
        let client = &key.client;
        let (taking, gone) = (Receiver::start().await, Receiver::start().await);
        // More than the first may be under way when that disables the webhook.
        (0..THESES).for_each(|_| gone.answer(410));
        client.webhook(&taking.url, &["thesis.created"]).await;
        let failing = client.webhook(&gone.url, &["thesis.created"]).await;
        self.names.push(text(&failing, "id").to_owned());
        // Nobody listens there.
        client.webhook("http://127.0.0.1:19999/hook", &["thesis.created"]).await;

        let mut sse = client.stream("?types=thesis.created").await;
        sse.first_cursor().await;
        let mut socket = client.socket().await;
        socket.ask(&json!({"op": "subscribe", "sub": "s", "types": ["thesis.created"]})).await;
        let mut events = EventServiceClient::new(service.first_core());
        let asked = v1::SubscribeRequest { types: vec![v1::EventType::ThesisCreated.into()], ..Default::default() };
        let mut request = Request::new(asked);
        request.metadata_mut().insert("authorization", format!("Bearer {}", key.raw).parse().unwrap());
        let mut subscribed = events.subscribe(request).await.unwrap().into_inner();
        let mut last = json!(null);
        for number in 0..THESES {
            last = client.thesis("Tourist", "TOUR", &format!("number {number}")).await.1;
        }
        sse.take(THESES as usize).await;
        taking.delivery_of(&last).await;
        let mut heard = 0;
        while heard < THESES {
            let message = timeout(SOON, subscribed.message()).await.expect("a message in time").unwrap();
            let message = message.unwrap().message.unwrap();
            heard += u32::from(matches!(message, v1::subscribe_response::Message::Event(_)));
        }
        let mut seen = 0;
        while seen < THESES {
            seen += u32::from(socket.next().await["op"] == "event");
        }
        drop((sse, socket, subscribed));
        client.post("/v1/stream/tickets", &json!({})).await.ok(201);

        for transport in ["sse", "websocket", "grpc"] {
            self.exactly("streams_opened_total", &[("transport", transport)], 1);
            self.exactly("stream_events_total", &[("transport", transport)], THESES);
            self.exactly("streams_ended_total", &[("transport", transport), ("reason", "client")], 1);
            self.exactly("streams_open", &[("transport", transport)], 0);
        }
        self.exactly("stream_tickets_total", &[("step", "created")], 1);
        self.at_least("grpc_requests_total", &[("method", "EventService/Subscribe"), ("code", "Ok")], 1);
        self.exactly("webhook_attempts_total", &[("outcome", "delivered")], THESES);
        self.at_least("webhook_attempts_total", &[("outcome", "refused")], 1);
        self.at_least("webhook_attempts_total", &[("outcome", "failed")], 1);
        self.at_least("webhook_attempt_failures_total", &[("reason", "connect")], 1);
        self.exactly("webhook_deliveries_total", &[("outcome", "delivered")], THESES);
        self.at_least("webhook_deliveries_total", &[("outcome", "retrying")], 1);
        self.at_least("webhook_queue_seconds_count", &[], THESES);
        self.at_least("log_entries_appended_total", &[], THESES + 1);
        self.at_least("store_calls_total", &[("call", "transact"), ("outcome", "ok")], THESES);
        self.at_least("store_call_seconds_count", &[("call", "get")], 1);
    }

    async fn pushes(&mut self, service: &Service, dataset: &str) {
        let token = token("solana", "TourMint", "TOURED");
        let posted = thesis("u-tour", &author("u-tourist", "Tourist2"), &token, "pushed", now_ms() - 60_000);
        let seen = vec![seen_at(now_ms(), Observed::Thesis(posted))];
        service.ingest(dataset, seen.clone()).await;
        service.ingest(dataset, seen).await;
        self.at_least("ingest_observations_total", &[("outcome", "applied")], 1);
        self.at_least("ingest_observations_total", &[("outcome", "unchanged")], 1);
        self.names.push("TourMint".to_owned());
    }
}

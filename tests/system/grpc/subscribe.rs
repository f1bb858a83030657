//! `EventService.Subscribe`.

use serde_json::Value;
use thesis_proto::{
    json::event_json,
    v1::{self, event_service_client::EventServiceClient, subscribe_response::Message},
};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use super::with_key;
use crate::harness::{ALL_SCOPES, SOON, Service, ingest::token, text};

on_both_stores![
    events_arrive_as_over_rest,
    a_subscription_resumes_with_any_cursor_and_tells_gaps,
    lost_rights_and_limits_end_in_their_errors,
];

/// An open subscription.
struct Subscribed(Streaming<v1::SubscribeResponse>);

impl Subscribed {
    async fn open(service: &Service, key: &str, cursor: Option<&str>) -> Result<Self, Status> {
        let mut events = EventServiceClient::new(service.first_core());
        let types = vec![v1::EventType::ThesisCreated.into()];
        let cursor = cursor.map(str::to_owned);
        let request = v1::SubscribeRequest { types, cursor, ..v1::SubscribeRequest::default() };
        let response = events.subscribe(with_key(key, request)).await?;
        assert!(response.metadata().contains_key("x-ratelimit-limit"));
        Ok(Self(response.into_inner()))
    }

    async fn next(&mut self) -> Result<Message, Status> {
        let told = timeout(SOON, self.0.message()).await.expect("a message in time")?;
        Ok(told.expect("the stream goes on").message.unwrap())
    }

    /// The next event, with its cursor.
    async fn event(&mut self) -> (String, Value) {
        loop {
            if let Message::Event(told) = self.next().await.unwrap() {
                let json = event_json(&told.event.unwrap());
                return (told.cursor, serde_json::from_slice(&json).unwrap());
            }
        }
    }

    async fn heartbeat(&mut self) -> String {
        match self.next().await.unwrap() {
            Message::Heartbeat(heartbeat) => heartbeat.cursor,
            other => panic!("no heartbeat: {other:?}"),
        }
    }
}

async fn events_arrive_as_over_rest(service: &Service) {
    let key = service.project_on("huge").await.key(v1::Environment::Test, ALL_SCOPES).await;
    let mut stream = key.client.stream("?types=thesis.created").await;
    let mut subscribed = Subscribed::open(service, &key.raw, None).await.unwrap();
    assert!(!subscribed.heartbeat().await.is_empty());
    for number in 0..5 {
        let event = key.client.thesis("writer", "GRPC", &number.to_string()).await.1;
        let frame = stream.next().await;
        assert_eq!(subscribed.event().await, (frame.cursor().to_owned(), event));
    }
    // 15 seconds later at the latest.
    let cursor = subscribed.heartbeat().await;
    let event = key.client.thesis("writer", "GRPC", "more").await.1;
    assert_eq!(key.client.resume("?types=thesis.created", &cursor).await.next().await.data, event);
}

async fn a_subscription_resumes_with_any_cursor_and_tells_gaps(service: &Service) {
    let project = service.project_on("huge").await;
    let key = project.key(v1::Environment::Test, ALL_SCOPES).await;
    let mut stream = key.client.stream("?types=thesis.created").await;
    let (dataset, on) = (project.dataset(), token("sandbox", "gaps-address", "GAPS"));
    let said: Vec<String> = (0..1_004).map(|number| number.to_string()).collect();
    service.post_all(&dataset, &on, &said[..11]).await;
    let seen = stream.take(11).await;
    service.post_all(&dataset, &on, &said[11..]).await;
    let mut events = key.client.all("/v1/events?types=thesis.created&limit=100&token=GAPS").await;
    events.reverse();
    assert!(events.iter().map(|event| text(&event["data"], "text")).eq(&said));
    let mut resumed = Subscribed::open(service, &key.raw, Some(seen[10].cursor())).await.unwrap();
    for event in &events[11..] {
        assert_eq!(resumed.event().await.1, *event);
    }
    let mut late = Subscribed::open(service, &key.raw, Some(seen[0].cursor())).await.unwrap();
    assert_eq!(late.heartbeat().await, seen[0].cursor());
    let Message::Gap(gap) = late.next().await.unwrap() else { panic!("no gap") };
    assert_eq!((gap.first_cursor.as_str(), gap.skipped), (seen[0].cursor(), Some(3)));
    assert_eq!(late.event().await.1, events[4]);
    let refused = Subscribed::open(service, &key.raw, Some("never-issued")).await.err().unwrap();
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "INVALID_CURSOR");
}

async fn lost_rights_and_limits_end_in_their_errors(service: &Service) {
    let project = service.project_on("free").await;
    let key = project.key(v1::Environment::Test, ALL_SCOPES).await;
    let mut one = Subscribed::open(service, &key.raw, None).await.unwrap();
    let _stream = key.client.stream("").await;
    let full = Subscribed::open(service, &key.raw, None).await.err().unwrap();
    let reason = |status: &Status| status.get_error_details().error_info().unwrap().reason.clone();
    assert_eq!((full.code(), reason(&full).as_str()), (Code::ResourceExhausted, "STREAM_LIMIT_REACHED"));
    one.heartbeat().await;
    project.revoke(&key).await;
    let ended = one.next().await.unwrap_err();
    assert_eq!((ended.code(), reason(&ended).as_str()), (Code::Unauthenticated, "API_KEY_REVOKED"));
}

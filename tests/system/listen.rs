//! `trade-thesis listen`: the events of a stream, forwarded to an endpoint as a webhook's deliveries are.

use std::time::Duration;

use serde_json::Value;
use thesis_proto::v1::Environment;
use tokio::{net::TcpListener, sync::mpsc::UnboundedReceiver, time::timeout};

use crate::harness::{ALL_SCOPES, Key, Process, Receiver, SOON, Service, Setup, eventually, text, time};

on_both_stores![
    events_are_forwarded_signed,
    a_secret_may_be_given,
    an_endpoint_that_fails_is_told_and_the_next_event_goes_on,
    past_events_are_forwarded_up_to_a_time,
    a_refusal_ends_it,
];

/// A running `listen` with the lines of its output.
struct Listening {
    process: Process,
    lines: UnboundedReceiver<String>,
    /// The secret that it signs with.
    secret: String,
}

fn setup(service: &Service, key: &str, to: &str, arguments: &[&str]) -> Setup {
    let setup = Setup::new(service.dir.path()).set("SVC_KEY", key).set("SVC_API_URL", &service.http);
    setup.arguments(&[&["listen", "--forward-to", to], arguments].concat())
}

impl Listening {
    /// Starts it and waits until its stream is open.
    async fn start(service: &Service, key: &Key, to: &str, arguments: &[&str]) -> Self {
        let (process, mut lines) = setup(service, &key.raw, to, arguments).start_and_read_lines();
        let secret = timeout(SOON, lines.recv()).await.unwrap().expect("a first line");
        let listening = Self { process, lines, secret };
        listening.opened(1).await;
        listening
    }

    /// Waits until its stream was opened for the given number of times.
    async fn opened(&self, times: usize) {
        eventually("the stream is open", 3 * SOON, async || {
            (self.process.log().matches("listening at").count() >= times).then_some(())
        })
        .await;
    }

    /// The public key that it shows for the signatures `v1a`.
    fn public_key(&self) -> String {
        let log = self.process.log();
        let key = log.split_whitespace().find(|word| word.starts_with("whpk_"));
        key.expect("a public key").to_owned()
    }

    /// Its next line tells how the POST of an event ended.
    async fn told(&mut self, event: &Value, ended: &str) {
        let line = timeout(3 * SOON, self.lines.recv()).await.unwrap().expect("a line");
        let parts: Vec<&str> = line.split("  ").collect();
        let [at, kind, id, how, took] = parts[..] else { panic!("{line}") };
        time(&serde_json::json!({"at": at}), "at");
        assert_eq!((kind, id, how), (text(event, "type"), text(event, "id"), ended), "{line}");
        assert!(took.strip_suffix(" ms").is_some_and(|took| took.parse::<u32>().is_ok()), "{line}");
    }
}

async fn key(service: &Service) -> Key {
    service.project().await.key(Environment::Test, ALL_SCOPES).await
}

async fn events_are_forwarded_signed(service: &Service) {
    let (key, receiver) = (key(service).await, Receiver::start().await);
    let filters = ["--events", "thesis.created,profile.updated", "--token", "$HEARD,OTHER", "--handle", "writer"];
    let mut listening = Listening::start(service, &key, &receiver.url, &filters).await;
    assert!(listening.secret.starts_with("whsec_") && listening.secret.len() > 30, "{}", listening.secret);
    let mut events = Vec::new();
    for (handle, token) in [("writer", "HEARD"), ("writer", "UNHEARD"), ("another", "HEARD"), ("writer", "OTHER")] {
        let event = key.client.thesis(handle, token, "ünï and 🚀").await.1;
        if handle == "writer" && token != "UNHEARD" {
            events.push(event);
        }
    }
    for event in &events {
        listening.told(event, "200").await;
    }
    let (received, public_key) = (receiver.received(), listening.public_key());
    assert_eq!(received.len(), events.len());
    for (received, event) in received.iter().zip(&events) {
        received.verify(&listening.secret);
        assert_eq!(received.header("webhook-id"), text(event, "id"));
        received.verify_key(&public_key);
        let over_rest = key.client.get(&format!("/v1/events/{}", text(event, "id"))).await;
        assert_eq!(received.body, over_rest.text.as_bytes());
        received.is_first_attempt_of(event);
        assert_eq!(event["type"], "thesis.created");
    }
    assert_ne!(received[0].header("service-delivery-id"), received[1].header("service-delivery-id"));
    for signal in ["TERM", "INT"] {
        listening.process.signal(signal);
        assert_eq!(listening.process.exit(SOON).await.code(), Some(0), "{signal}");
        listening = Listening::start(service, &key, &receiver.url, &filters).await;
        assert_ne!(listening.public_key(), public_key, "each start has a key of its own");
    }
}

async fn a_secret_may_be_given(service: &Service) {
    let (key, receiver) = (key(service).await, Receiver::start().await);
    let given = ["--secret", "whsec_of_my_own", "--events", "thesis.created"];
    let mut listening = Listening::start(service, &key, &receiver.url, &given).await;
    assert_eq!(listening.secret, "whsec_of_my_own");
    let event = key.client.thesis("writer", "GIVEN", "x").await.1;
    listening.told(&event, "200").await;
    let received = receiver.received().remove(0);
    received.verify("whsec_of_my_own");
    // The secret is no key of Standard Webhooks, so only the other key signs.
    assert_eq!(received.header("webhook-signature").split(' ').count(), 1);
    received.verify_key(&listening.public_key());
}

async fn an_endpoint_that_fails_is_told_and_the_next_event_goes_on(service: &Service) {
    let (key, receiver) = (key(service).await, Receiver::start().await);
    let mut listening = Listening::start(service, &key, &receiver.url, &["--events", "thesis.created"]).await;
    // A redirect is not followed, and no failure is tried again.
    for status in [500, 410, 302] {
        receiver.answer(status);
        let event = key.client.thesis("writer", "FAILING", "x").await.1;
        listening.told(&event, &status.to_string()).await;
    }
    receiver.answer_after(200, Duration::from_secs(7));
    let event = key.client.thesis("writer", "FAILING", "late").await.1;
    listening.told(&event, "timeout").await;
    let event = key.client.thesis("writer", "FAILING", "good").await.1;
    listening.told(&event, "200").await;
    assert_eq!(receiver.received().len(), 5);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}/hook", listener.local_addr().unwrap());
    drop(listener);
    let mut listening = Listening::start(service, &key, &nobody, &["--events", "thesis.created"]).await;
    let event = key.client.thesis("writer", "FAILING", "nobody").await.1;
    listening.told(&event, "connection failed").await;
}

/// The time of an event.
fn at(event: &Value) -> &str {
    text(event, "created_at")
}

async fn past_events_are_forwarded_up_to_a_time(service: &Service) {
    let (key, receiver) = (key(service).await, Receiver::start().await);
    let mut events = Vec::new();
    for number in 0..4 {
        events.push(key.client.thesis("writer", "PAST", &number.to_string()).await.1);
    }
    let (from, to) = (at(&events[1]), at(&events[2]));
    let arguments = ["--events", "thesis.created", "--token", "PAST", "--from", from, "--to", to, "--speed", "1000"];
    let mut listening = Listening::start(service, &key, &receiver.url, &arguments).await;
    for event in events.iter().filter(|event| (from..=to).contains(&at(event))) {
        listening.told(event, "200").await;
    }
    assert_eq!(listening.process.exit(SOON).await.code(), Some(0));
}

async fn a_refusal_ends_it(service: &Service) {
    let key = key(service).await;
    let to = "http://127.0.0.1:19999/hook";
    let wrong = "svc_test_0000000000000000000000000000000000000000";
    for (key, arguments, code) in [
        (wrong, &["--events", "thesis.created"], "INVALID_API_KEY"),
        (key.raw.as_str(), &["--events", "thesis.eaten"], "VALIDATION_FAILED"),
        (key.raw.as_str(), &["--from", "2001-01-01"], "HISTORY_LIMIT"),
    ] {
        let (exit, stdout, stderr) = setup(service, key, to, arguments).run();
        assert_eq!((exit, stdout.lines().count()), (Some(1), 1), "{stdout} {stderr}");
        assert!(stderr.lines().last().is_some_and(|line| line.contains(code)) && !stderr.contains(key), "{stderr}");
    }
    // Rights that are lost later end it too.
    let project = service.project().await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let mut listening = Listening::start(service, &key, to, &[]).await;
    project.revoke(&key).await;
    assert_eq!(listening.process.exit(3 * SOON).await.code(), Some(1));
    assert!(listening.process.log().contains("API_KEY_REVOKED"), "{}", listening.process.log());
    // What cannot be read is told in one line.
    let (exit, stdout, stderr) = setup(service, &key.raw, "localhost:3000", &[]).run();
    assert_eq!((exit, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
}

/// Whatever happens to the service, every event is forwarded once, in order.
#[tokio::test]
async fn nothing_is_missed_or_doubled_when_the_service_is_killed() {
    let mut service = Service::embedded(|setup| setup);
    let (key, receiver) = (key(&service).await, Receiver::start().await);
    let mut listening = Listening::start(&service, &key, &receiver.url, &["--events", "thesis.created"]).await;
    let mut events = Vec::new();
    for round in 1..=3 {
        for number in 0..3 {
            events.push(key.client.thesis("writer", "KILLED", &format!("{round} {number}")).await.1);
        }
        for event in &events[events.len() - 3..] {
            listening.told(event, "200").await;
        }
        service.kill_and_start(0).await;
        // Missed while the stream was away, if it still is.
        let event = key.client.thesis("writer", "KILLED", &format!("{round} away")).await.1;
        listening.told(&event, "200").await;
        events.push(event);
        listening.opened(round + 1).await;
    }
    let arrived: Vec<String> =
        receiver.received().iter().map(|received| received.header("service-event-id").to_owned()).collect();
    assert_eq!(arrived, events.iter().map(|event| text(event, "id")).collect::<Vec<_>>());
    for received in receiver.received() {
        received.verify(&listening.secret);
    }
}

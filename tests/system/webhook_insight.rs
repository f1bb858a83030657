//! How a webhook's deliveries go, replays of many deliveries, and endpoints that must answer a test first.

use std::{collections::HashSet, fs};

use serde_json::{Value, json};
use thesis_proto::v1::observation::Observed;
use tokio::net::TcpListener;

use crate::harness::{
    Client, Receiver, SOON, Service, assert_fields, eventually, ids,
    ingest::{author, seen_at, thesis, token},
    iso, now_ms, text, time,
};

on_both_stores![
    insight_counts_what_the_log_has,
    what_waits_is_shown,
    deliveries_are_sent_again,
    only_one_replay_is_under_way,
    new_endpoints_answer_a_test_first,
];

fn path(webhook: &Value, rest: &str) -> String {
    format!("/v1/webhooks/{}{rest}", text(webhook, "id"))
}

async fn insight(client: &Client, webhook: &Value) -> Value {
    client.get(&path(webhook, "/insight")).await.ok(200)
}

/// Waits until a number of deliveries have a status; gives the log.
async fn logged(client: &Client, webhook: &Value, status: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} deliveries are {status}"), SOON, async || {
        let log = client.all(&path(webhook, "/deliveries")).await;
        (log.iter().filter(|row| row["status"] == status).count() == count).then_some(log)
    })
    .await
}

/// Checks the attempts of the last hour and day against the delivery log.
fn counts_are_those_of(log: &[Value], insight: &Value) {
    let attempts: i64 = log.iter().map(|row| row["attempt"].as_i64().unwrap()).sum();
    let successes = log.iter().filter(|row| row["status"] == "delivered").count();
    for span in ["last_hour", "last_day"] {
        let shown = &insight[span];
        assert_eq!((&shown["attempts"], &shown["successes"]), (&json!(attempts), &json!(successes)), "{insight}");
    }
}

async fn insight_counts_what_the_log_has(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    for number in 0..3 {
        client.thesis("writer", "INSIGHT", &number.to_string()).await;
    }
    client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    let log = logged(&client, &webhook, "delivered", 4).await;
    let shown = insight(&client, &webhook).await;
    let fields =
        ["object", "webhook_id", "last_hour", "last_day", "oldest_pending_at", "awaits_verification", "replay"];
    assert_fields(&shown, &[&fields[..], &["livemode", "computed_at"]].concat());
    counts_are_those_of(&log, &shown);
    let hour = &shown["last_hour"];
    let of_attempts = ["since", "attempts", "successes", "success_rate", "latency_p50_ms", "latency_p99_ms"];
    assert_fields(hour, &of_attempts);
    assert_eq!(hour["success_rate"].as_f64(), Some(1.0));
    let latencies = log.iter().map(|row| row["latency_ms"].as_i64().unwrap());
    let (slowest, p99) = (latencies.max().unwrap(), hour["latency_p99_ms"].as_i64().unwrap());
    assert!((p99 - slowest).abs() * 16 <= slowest, "{p99} of {slowest}");
    assert!(hour["latency_p50_ms"].as_i64().unwrap() <= p99);
    let age = time(&shown, "computed_at") - time(hour, "since");
    assert!((55 * 60_000..=60 * 60_000).contains(&age), "{age}");
    assert_eq!((&shown["oldest_pending_at"], &shown["replay"]), (&Value::Null, &Value::Null));
    assert_eq!((&shown["object"], &shown["webhook_id"]), (&json!("webhook_insight"), &webhook["id"]));
    // Nobody else sees it.
    let stranger = service.test_client().await;
    stranger.get(&path(&webhook, "/insight")).await.error(404, "WEBHOOK_NOT_FOUND");
    let none = insight(&client, &client.webhook(&receiver.url, &["profile.updated"]).await).await;
    assert_eq!((&none["last_day"]["attempts"], &none["last_day"]["success_rate"]), (&json!(0), &Value::Null));
}

async fn what_waits_is_shown(service: &Service) {
    let client = service.test_client().await;
    // Nobody listens there.
    let webhook = client.webhook("http://127.0.0.1:19996/", &["thesis.created"]).await;
    let event = client.thesis("writer", "WAITS", "x").await.1;
    let log = logged(&client, &webhook, "retrying", 1).await;
    let shown = insight(&client, &webhook).await;
    counts_are_those_of(&log, &shown);
    assert_eq!(shown["last_hour"]["success_rate"].as_f64(), Some(0.0));
    assert_eq!(shown["last_hour"]["latency_p50_ms"], Value::Null, "there was no response");
    assert_eq!(shown["oldest_pending_at"], event["created_at"]);
}

/// Waits until the last replay is done.
async fn done(client: &Client, webhook: &Value, replay: &Value) -> Value {
    eventually("the replay is done", SOON, async || {
        let shown = insight(client, webhook).await["replay"].clone();
        assert_eq!((&shown["id"], &shown["since"]), (&replay["id"], &replay["since"]));
        (shown["done"] == true).then_some(shown)
    })
    .await
}

async fn deliveries_are_sent_again(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let since = iso(now_ms() - 60_000);
    let mut events = Vec::new();
    for number in 0..3 {
        events.push(client.thesis("writer", "AGAIN", &number.to_string()).await.1);
    }
    let originals = logged(&client, &webhook, "delivered", 3).await;
    // The endpoint is gone, which ends a delivery at once and disables the webhook.
    receiver.answer(410);
    let failed = client.thesis("writer", "AGAIN", "failed").await.1;
    logged(&client, &webhook, "failed", 1).await;
    receiver.answer(200);
    let body = json!({ "since": since });
    let begun = client.post_once(&path(&webhook, "/replay"), &body, "again").await.ok(202);
    let fields = ["object", "id", "webhook_id", "since", "status", "examined", "replayed", "done", "created_at"];
    assert_fields(&begun, &[&fields[..], &["finished_at"]].concat());
    assert_eq!((&begun["status"], &begun["done"]), (&json!("failed"), &json!(false)));
    let ended = done(&client, &webhook, &begun).await;
    assert_eq!((&ended["replayed"], &ended["examined"]), (&json!(1), &json!(4)));
    assert!(time(&ended, "finished_at") >= time(&ended, "created_at"));
    // A repeated request begins no other.
    let repeated = client.post_once(&path(&webhook, "/replay"), &body, "again").await.ok(202);
    assert_eq!(repeated["id"], begun["id"]);
    logged(&client, &webhook, "delivered", 4).await;

    let again = json!({"since": since, "status": "delivered"});
    let begun = client.post(&path(&webhook, "/replay"), &again).await.ok(202);
    assert_eq!(done(&client, &webhook, &begun).await["replayed"], 3, "replays are not sent again");
    let log = logged(&client, &webhook, "delivered", 7).await;
    let replays: Vec<_> =
        receiver.received().into_iter().filter(|received| received.header("service-replay") == "true").collect();
    assert_eq!(replays.len(), 4);
    let sent: HashSet<String> = replays.iter().map(|replay| replay.header("service-replay-of").to_owned()).collect();
    assert!(ids(&originals).into_iter().all(|original| sent.contains(original)));
    let replayed: HashSet<String> = replays.iter().map(|replay| replay.header("service-event-id").to_owned()).collect();
    events.push(failed);
    assert_eq!(replayed, ids(&events).into_iter().map(str::to_owned).collect());
    assert_eq!(log.iter().filter(|row| row["is_replay"] == true).count(), 4);
}

async fn only_one_replay_is_under_way(service: &Service) {
    let client = service.test_client().await;
    let webhook = client.webhook("http://127.0.0.1:19996/", &["thesis.created"]).await;
    let replay = path(&webhook, "/replay");
    client.post(&replay, &json!({})).await.invalid(&["since"]);
    let wrong = json!({"since": iso(now_ms() + 3_600_000), "status": "pending"});
    client.post(&replay, &wrong).await.invalid(&["since", "status"]);
    let body = json!({"since": iso(now_ms() - 1_000)});
    client.post("/v1/webhooks/wh_unknown/replay", &body).await.error(404, "WEBHOOK_NOT_FOUND");
    // Ten a minute; more if the minute changes, or if cores have not yet told each other.
    let mut codes = Vec::new();
    while codes.len() < 60 && !codes.contains(&429) {
        let answer = client.post(&replay, &body).await;
        match answer.status {
            202 => {}
            409 => drop(answer.error(409, "DELIVERY_IN_PROGRESS")),
            _ => drop(answer.error(429, "RATE_LIMITED")),
        }
        codes.push(answer.status);
        if answer.status == 202 {
            done(&client, &webhook, &answer.ok(202)).await;
        }
    }
    assert!(codes.contains(&202) && codes.contains(&429), "{codes:?}");
}

async fn new_endpoints_answer_a_test_first(service: &Service) {
    let project = service.project_on("cautious").await;
    project.approve().await;
    let client = project.live().await;
    // Live webhooks speak TLS, and this endpoint hangs up: each attempt fails.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    let endpoint = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let on = format!("Cautious{}", project.id);
    let body = json!({"url": url, "events": ["thesis.created"], "filters": {"token": [on]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    assert_eq!(insight(&client, &webhook).await["awaits_verification"], true);
    let (by, on) = (author("u-cautious", "cautious"), token("solana", &on, "CAUTIOUS"));
    let seen = thesis(&format!("{}-1", on.address), &by, &on, "x", now_ms());
    service.ingest("live", vec![seen_at(now_ms(), Observed::Thesis(seen))]).await;
    logged(&client, &webhook, "pending", 1).await;
    client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    // The test goes out, and the event still waits.
    let log = logged(&client, &webhook, "retrying", 1).await;
    assert_eq!(log.len(), 2);
    for row in &log {
        assert_eq!(
            (row["status"] == "retrying", row["attempt"] == 1),
            (row["is_test"] == true, row["is_test"] == true)
        );
    }
    assert_eq!(insight(&client, &webhook).await["awaits_verification"], true);
    // A test webhook needs no test.
    let receiver = Receiver::start().await;
    let test = project.test().await;
    test.webhook(&receiver.url, &["thesis.created"]).await;
    receiver.delivery_of(&test.thesis("writer", "CAUTIOUS", "x").await.1).await;
    endpoint.abort();
}

/// Waits until a number of events are delivered, whatever becomes of tests: a failed one is retried after a minute.
async fn events_delivered(client: &Client, webhook: &Value, count: usize) {
    eventually(&format!("{count} events are delivered"), SOON, async || {
        let log = client.all(&path(webhook, "/deliveries")).await;
        let is_delivered = |row: &&Value| row["is_test"] != true && row["status"] == "delivered";
        (log.iter().filter(is_delivered).count() == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_waits_goes_out_once_the_endpoint_has_answered_a_test() {
    let dir = tempfile::tempdir().unwrap();
    let (receiver, root) = Receiver::start_tls().await;
    let file = dir.path().join("root.pem");
    fs::write(&file, root).unwrap();
    let service = Service::embedded(|setup| setup.set("SVC_WEBHOOK_CA_FILE", file.to_str().unwrap()));
    let project = service.project_on("cautious").await;
    project.approve().await;
    let client = project.live().await;
    let (by, on) = (author("u-patient", "patient"), token("solana", &format!("Patient{}", project.id), "PATIENT"));
    let body = json!({"url": receiver.url, "events": ["thesis.created"], "filters": {"token": [on.address]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    let post = async |number: i32| {
        let seen = thesis(&format!("{}-{number}", on.address), &by, &on, "x", now_ms());
        service.ingest("live", vec![seen_at(now_ms(), Observed::Thesis(seen))]).await;
    };
    post(1).await;
    post(2).await;
    let waiting = logged(&client, &webhook, "pending", 2).await;
    // Another response than 2xx verifies nothing.
    receiver.answer(500);
    client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    assert_eq!(logged(&client, &webhook, "retrying", 1).await.len(), 3);
    assert_eq!(insight(&client, &webhook).await["awaits_verification"], true);
    assert_eq!(receiver.received().len(), 1, "only the test has arrived");

    receiver.answer(204);
    client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    events_delivered(&client, &webhook, 2).await;
    assert_eq!(insight(&client, &webhook).await["awaits_verification"], false);
    let received = receiver.received();
    let are_tests: Vec<bool> = received.iter().map(|one| one.headers.contains_key("service-test")).collect();
    assert_eq!(are_tests[..2], [true, true]);
    received.iter().for_each(|one| one.verify(text(&webhook, "secret")));
    let sent: Vec<&str> = received
        .iter()
        .zip(&are_tests)
        .filter(|(_, is_test)| !**is_test)
        .map(|(one, _)| one.header("service-event-id"))
        .collect();
    let expected: HashSet<&str> = waiting.iter().map(|row| text(row, "event_id")).collect();
    assert_eq!((sent.len(), sent.into_iter().collect::<HashSet<_>>()), (expected.len(), expected));
    // From now on nothing waits.
    post(3).await;
    events_delivered(&client, &webhook, 3).await;
}

#[tokio::test]
async fn insight_is_that_of_the_log_after_crashes() {
    let mut service = Service::embedded(|setup| setup);
    let receiver = Receiver::start().await;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let mut posted = 0;
    for _ in 0..4 {
        for _ in 0..10 {
            client.thesis("writer", "CRASH", &posted.to_string()).await;
            posted += 1;
        }
        service.processes[0].signal("KILL");
        service.kill_and_start(0).await;
    }
    let log = logged(&client, &webhook, "delivered", posted).await;
    counts_are_those_of(&log, &insight(&client, &webhook).await);
}

//! The public status: who lives, and figures against a probe from outside.

use std::time::Duration;

use serde_json::{Value, json};
use thesis_proto::{
    json as canonical,
    v1::{self, status_service_client::StatusServiceClient},
};

use crate::harness::{
    Client, Receiver, SERVICE_TOKEN, SOON, Service, Setup, Store, assert_fields, eventually, now_ms, text, time,
};

on_stores_of_their_own![
    everybody_reads_the_state_of_each_role,
    a_stalled_edge_shows_within_ten_seconds,
    latencies_and_deliveries_are_those_of_a_probe,
];

/// Time within which a process that falls silent is shown so.
const STALLED_WITHIN: Duration = Duration::from_secs(10);
/// Time in which the endpoint answers: so long that 2 % of it are much more than the rest takes.
const ENDPOINT_MS: i64 = 3_000;
/// Number of measured events.
const EVENTS: usize = 9;

async fn status(client: &Client) -> Value {
    client.get("/v1/status").await.ok(200)
}

/// The state of each process of a role.
fn processes(status: &Value, role: &str) -> Vec<String> {
    let rows = status["roles"].as_array().unwrap();
    let rows = rows.iter().filter(|row| row["role"] == role).flat_map(|row| row["processes"].as_array().unwrap());
    rows.map(|process| text(process, "state").to_owned()).collect()
}

/// The latencies of a name, as a class has them if there is one; none before its role has reported.
fn latency<'a>(status: &'a Value, role: &str, name: &str, class: Option<&str>) -> Option<&'a Value> {
    let mut rows = status["latencies"].as_array().unwrap().iter();
    rows.find(|row| row["role"] == role && row["name"] == name && row["class"].as_str() == class)
}

async fn everybody_reads_the_state_of_each_role(store: Store) {
    let service = Service::on(&store, |setup| setup).await;
    let client = service.anonymous();
    let roles = ["edge", "core", "worker"];
    let all = eventually("all roles report", SOON, async || {
        let status = status(&client).await;
        roles.iter().all(|role| processes(&status, role) == ["ok"]).then_some(status)
    })
    .await;
    assert_fields(
        &all,
        &["object", "generated_at", "state", "window_seconds", "roles", "latencies", "deliveries", "feed"],
    );
    assert_eq!(
        (&all["object"], &all["state"], &all["window_seconds"]),
        (&json!("status"), &json!("ok"), &json!(1_800))
    );
    assert!((now_ms() - time(&all, "generated_at")).abs() < 10_000, "{all}");
    assert_eq!(all["feed"], Value::Null);
    for row in all["roles"].as_array().unwrap() {
        assert_eq!(row["state"], "ok");
        let process = &row["processes"][0];
        assert_fields(process, &["id", "state", "version", "last_seen_at"]);
        assert!(text(process, "id").starts_with("proc_") && text(process, "id").len() == 21, "{process}");
        assert_eq!(process["version"], env!("CARGO_PKG_VERSION"));
        assert!(time(process, "last_seen_at") <= time(&all, "generated_at"));
    }
    // Nobody learns where the processes are.
    assert!(!all.to_string().contains("127.0.0.1"), "{all}");

    let answer = client.get("/v1/status").await;
    assert_eq!(answer.headers["cache-control"], "public, max-age=1");
    let over_grpc = StatusServiceClient::new(service.channel()).get_status(v1::GetStatusRequest {}).await;
    let over_grpc = over_grpc.unwrap().into_inner().status.unwrap();
    let over_grpc = serde_json::to_value(canonical::ServiceStatus::from(&over_grpc)).unwrap();
    for role in roles {
        assert_eq!(processes(&over_grpc, role), ["ok"]);
    }
    let page = service.browser().get("/status").await.is(200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.html.contains("All parts of the service work."), "{page}");
    client.get("/v1/status?key=1").await.error(400, "INVALID_REQUEST");
}

async fn a_stalled_edge_shows_within_ten_seconds(store: Store) {
    let service = Service::on(&store, |setup| setup).await;
    let client = service.anonymous();
    let edges = async |state: &str, expected: &[&str]| {
        let status = status(&client).await;
        let mut found = processes(&status, "edge");
        found.sort_unstable();
        (status["state"] == state && found == expected).then_some(())
    };
    let edge = Setup::new(service.dir.path()).role("edge").set("SVC_CORE_URL", &service.grpc);
    let mut edge = edge.set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).start();
    eventually("the edge reports", SOON, async || edges("ok", &["ok", "ok"]).await).await;
    edge.signal("STOP");
    eventually("it is stalled", STALLED_WITHIN, async || edges("degraded", &["ok", "stalled"]).await).await;
    edge.signal("CONT");
    eventually("it reports again", SOON, async || edges("ok", &["ok", "ok"]).await).await;
    edge.signal("TERM");
    edge.exit(SOON).await;
    eventually("it has left", SOON, async || edges("ok", &["ok"]).await).await;
}

/// The value that a share of the measurements does not exceed.
fn quantile(measured: &mut [i64], hundredths: usize) -> f64 {
    measured.sort_unstable();
    measured[(measured.len() * hundredths).div_ceil(100) - 1] as f64
}

async fn latencies_and_deliveries_are_those_of_a_probe(store: Store) {
    let service = Service::on(&store, |setup| setup).await;
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    client.webhook(&receiver.url, &["thesis.created"]).await;
    let mut stream = client.stream("?types=thesis.created").await;
    stream.first_cursor().await;
    let (mut to_frame, delay) = (Vec::new(), Duration::from_millis(ENDPOINT_MS.unsigned_abs()));
    for _ in 0..EVENTS {
        receiver.answer_after(200, delay);
        client.thesis("writer", "PROBE", "x").await;
        let frame = stream.next().await;
        to_frame.push(now_ms() - time(&frame.data, "created_at"));
    }
    // Each role reports for itself.
    let status = eventually("all events are counted", SOON, async || {
        let status = status(&service.anonymous()).await;
        let has_all = |role, name| latency(&status, role, name, None).is_some_and(|row| row["count"] == EVENTS);
        let has_all = has_all("edge", "event_to_frame") && has_all("worker", "event_to_delivery");
        (has_all && status["deliveries"]["delivered"] == EVENTS).then_some(status)
    })
    .await;
    let deliveries = &status["deliveries"];
    assert_eq!((&deliveries["failed"], &deliveries["success_ratio"]), (&json!(0), &json!(1.0)), "{deliveries}");

    let received = receiver.received();
    let ended = received.iter().map(|sent| sent.at_ms + ENDPOINT_MS - time(&sent.event(), "created_at"));
    let mut ended: Vec<i64> = ended.collect();
    let measured = latency(&status, "worker", "event_to_delivery", None).unwrap();
    assert_eq!(ended.len(), EVENTS);
    for (name, hundredths) in [("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99)] {
        let (shown, probed) = (measured[name].as_f64().unwrap(), quantile(&mut ended, hundredths));
        assert!((shown - probed).abs() <= probed * 0.02, "{name}: {shown} for {probed}");
    }
    let attempts = latency(&status, "worker", "attempt", None).unwrap();
    assert!(attempts["p50_ms"].as_f64().unwrap() >= ENDPOINT_MS as f64 * 0.99, "{attempts}");

    // A frame arrives when it has been written, a moment later.
    let frames = latency(&status, "edge", "event_to_frame", None).unwrap();
    let (shown, probed) = (frames["p50_ms"].as_f64().unwrap(), quantile(&mut to_frame, 50));
    assert!(shown > 0.0 && shown <= (probed + 1.0) * 1.02, "{shown} for {probed}");
    let requests = latency(&status, "edge", "request", Some("standard")).unwrap();
    assert!(requests["count"].as_u64().unwrap() >= EVENTS as u64, "{requests}");
}

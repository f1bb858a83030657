//! The worker between a core and endpoints, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test may end where something is wrong")]

mod core;
mod dns;
mod endpoint;
mod hostile;
mod name_server;
mod receiver;

use std::{sync::atomic::Ordering, time::Duration};

use delivery_worker::WorkerConfig;
use thesis_proto::v1::{ClaimResponse, attempt_report::Outcome};

use crate::{
    core::{Harness, claim},
    endpoint::Endpoint,
    name_server::Reply,
    receiver::{Receiver, Script, Then},
};

const HOST: &str = "hooks.receiver.dev";

fn config() -> WorkerConfig {
    WorkerConfig { allow_networks: vec!["127.0.0.0/8".parse().unwrap()], ..WorkerConfig::default() }
}

fn hasty() -> WorkerConfig {
    WorkerConfig { timeout: Duration::from_millis(200), ..config() }
}

/// What becomes of one claim under this configuration.
async fn outcome(config: WorkerConfig, claim: ClaimResponse) -> Result<i32, String> {
    let mut harness = Harness::start(config);
    let stream = harness.stream().await;
    harness.outcome(&stream, claim).await
}

#[tokio::test]
async fn delivers_signed_and_reports() {
    let mut endpoint = Endpoint::start().await;
    let mut harness = Harness::start(config());
    let stream = harness.stream().await;
    assert_eq!(stream.request.capacity, 1024);
    stream.hand_out(claim(endpoint.url("/status/202"))).await;

    let (headers, body) = endpoint.received.recv().await.unwrap();
    assert_eq!(body, claim("").body);
    let sent = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(sent("service-event-id"), Some("evt_1"));
    assert_eq!(sent("webhook-id"), Some("evt_1"));
    assert_eq!(sent("x-api-key"), Some("of the customer"));
    assert_eq!(sent("service-event-type"), Some("thesis.created"));
    assert_eq!(sent("service-delivery-id"), Some("del_1"));
    assert_eq!(sent("service-delivery-attempt"), Some("1"));
    assert_eq!(sent("service-replay"), Some("false"));
    assert_eq!(sent("service-replay-of"), None);
    assert_eq!(sent("service-test"), None);
    assert_eq!(sent("user-agent"), Some("Service-Webhooks/1.0"));
    assert_eq!(sent("content-type"), Some("application/json"));
    assert_eq!(sent("host"), Some(endpoint.address.to_string().as_str()));

    let report = harness.report().await;
    assert_eq!((report.delivery_id.as_str(), report.attempt), ("del_1", 1));
    assert!(matches!(report.outcome, Some(Outcome::Response(answer)) if answer.status == 202));
    let started = report.started_at.unwrap().seconds;
    let parts: Vec<_> = sent("service-signature").unwrap().split(',').collect();
    assert_eq!(parts[0], format!("t={started}"));
    assert_eq!(sent("webhook-timestamp"), Some(started.to_string().as_str()));
    // The secret of this claim is no key of Standard Webhooks, because it is not base64.
    assert!(sent("webhook-signature").unwrap().starts_with("v1a,"));
    assert_eq!(parts[1..].iter().filter(|part| part.len() == "v1=".len() + 64).count(), 2);
}

#[tokio::test]
async fn marks_tests_and_replays() {
    let mut endpoint = Endpoint::start().await;
    let url = endpoint.url("/status/200");
    let replay = ClaimResponse { is_test: true, replay_of: Some("del_0".into()), ..claim(url) };
    assert_eq!(outcome(config(), replay).await, Ok(200));
    let (headers, _) = endpoint.received.recv().await.unwrap();
    assert_eq!(headers["service-replay"], "true");
    assert_eq!(headers["service-replay-of"], "del_0");
    assert_eq!(headers["service-test"], "true");
}

#[tokio::test]
async fn reports_whatever_status_and_follows_no_redirect() {
    let mut endpoint = Endpoint::start().await;
    for (path, status) in [("/status/410", 410), ("/status/503", 503), ("/nowhere", 404), ("/redirect", 308)] {
        assert_eq!(outcome(config(), claim(endpoint.url(path))).await, Ok(status));
    }
    let _two = (endpoint.received.recv().await, endpoint.received.recv().await);
    assert!(endpoint.received.is_empty());
}

#[tokio::test]
async fn reports_how_the_response_to_a_failed_attempt_begins() {
    let long = "x".repeat(3_000);
    let whole = format!("HTTP/1.1 500 Oops\r\nContent-Length: {}\r\n\r\n{long}", long.len());
    // The rest of this body does not arrive in time.
    let begun = "HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nbusy".to_owned();
    let fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned();
    // The endpoint echoes a header value, which nobody else may read.
    let echo = "HTTP/1.1 401 No\r\nContent-Length: 30\r\n\r\nx-api-key is: of the customer!".to_owned();
    let cases = [
        (whole, "x".repeat(1_024)),
        (begun, "busy".to_owned()),
        (fine, String::new()),
        (echo, "x-api-key is: [hidden]!".to_owned()),
    ];
    for (response, expected) in cases {
        let address = Receiver::start(Script::new(response.as_str(), Then::Wait)).address;
        let mut harness = Harness::start(config());
        let stream = harness.stream().await;
        stream.hand_out(claim(format!("http://{address}/"))).await;
        let Some(Outcome::Response(reported)) = harness.report().await.outcome else { panic!("no response") };
        assert_eq!(reported.body, expected.as_bytes(), "{response:.20}");
    }
}

#[tokio::test]
async fn refuses_what_the_rules_refuse() {
    let mut endpoint = Endpoint::start().await;
    let url = endpoint.url("/status/200");
    let refused = |why: &str| Err(format!("address refused: {why}"));
    assert_eq!(outcome(WorkerConfig::default(), claim(&url)).await, refused("loopback"));
    assert_eq!(outcome(config(), ClaimResponse { livemode: true, ..claim(&url) }).await, refused("scheme"));
    let malformed = url.replacen("//", "/\\", 1);
    assert_eq!(outcome(config(), claim(malformed)).await, refused("scheme"));
    assert_eq!(outcome(config(), claim(format!("{url} "))).await, refused("hostname"));
    assert!(endpoint.received.try_recv().is_err());
}

#[tokio::test]
async fn trusts_the_public_roots_and_the_given_one() {
    let (acceptor, root) = receiver::certificate(HOST);
    let address = Receiver::start_tls(Script::new("HTTP/1.1 204 No Content\r\n\r\n", Then::Wait), acceptor).address;
    let server = name_server::start(|_, _| {
        let hosts = [HOST, "another.receiver.dev"];
        Reply::Records(hosts.map(|host| (host, name_server::address("127.0.0.1"))).into())
    })
    .await;
    let trusting = WorkerConfig { dns_servers: vec![server], root_certificate: Some(root), ..config() };
    let wary = WorkerConfig { root_certificate: None, ..trusting.clone() };
    let live = |host: &str| ClaimResponse { livemode: true, ..claim(format!("https://{host}:{}/", address.port())) };

    assert_eq!(outcome(trusting.clone(), live(HOST)).await, Ok(204));
    assert_eq!(outcome(trusting, live("another.receiver.dev")).await, Err("tls failed".into()));
    assert_eq!(outcome(wary, live(HOST)).await, Err("tls failed".into()));
}

#[tokio::test]
async fn says_when_nobody_listens() {
    let endpoint = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = endpoint.local_addr().unwrap();
    drop(endpoint);
    assert_eq!(outcome(config(), claim(format!("http://{address}/"))).await, Err("connection refused".into()));
}

#[tokio::test]
async fn outlives_core() {
    let mut endpoint = Endpoint::start().await;
    let mut harness = Harness::start(config());
    let first = harness.stream().await;
    first.hand_out(claim(endpoint.url("/held"))).await;
    endpoint.received.recv().await.unwrap();

    // Core goes away while the attempt is under way, and comes back without its store.
    drop(first);
    let second = harness.stream().await;
    harness.refuse_reports.store(2, Ordering::Relaxed);
    endpoint.hold.add_permits(1);
    assert_eq!(harness.report().await.delivery_id, "del_1");
    assert_eq!(harness.refuse_reports.load(Ordering::Relaxed), 0);

    assert_eq!(harness.outcome(&second, claim(endpoint.url("/status/200"))).await, Ok(200));
}

#[tokio::test]
async fn finishes_what_it_began_and_releases_the_rest() {
    let mut endpoint = Endpoint::start().await;
    let mut harness = Harness::start(WorkerConfig { capacity: 1, ..config() });
    let stream = harness.stream().await;
    let claimed = |id: &str| ClaimResponse { delivery_id: id.into(), ..claim(endpoint.url("/held")) };
    let claims = ["del_1", "del_2", "del_3"].map(claimed);
    let [first, late, unstarted] = claims;
    // One has a place, and one has it while the other is late.
    for begun in [first, late] {
        stream.hand_out(begun).await;
        endpoint.received.recv().await.unwrap();
    }
    stream.hand_out(unstarted).await;

    harness.shutdown.cancel();
    let released = harness.report().await;
    assert_eq!(
        (released.delivery_id.as_str(), released.outcome),
        ("del_3", Some(Outcome::Released(Default::default())))
    );
    endpoint.hold.add_permits(2);
    let mut finished = [harness.report().await.delivery_id, harness.report().await.delivery_id];
    finished.sort();
    assert_eq!(finished, ["del_1", "del_2"]);
    harness.worker.await.unwrap().unwrap();
    assert!(endpoint.received.is_empty());
}

#[tokio::test]
async fn says_which_setting_is_wrong() {
    let config = WorkerConfig { root_certificate: Some(b"no PEM".to_vec()), ..config() };
    let error = Harness::start(config).worker.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("root certificate"), "{error}");
}

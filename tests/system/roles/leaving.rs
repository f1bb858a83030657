//! What a process says and serves after a signal.

use std::time::Duration;

use super::DRAINED;
use crate::harness::{Client, SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, fetch, now_ms};

#[tokio::test]
async fn a_role_is_not_ready_before_it_stops_answering() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(dir.path()).set("SVC_BOOTSTRAP_TEST_KEY", TEST_KEY);
    let core = setup.clone().set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).role("core").start();
    let edge = setup.set("SVC_CORE_URL", &core.address("grpc")).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).role("edge");
    // An empty setting is none.
    let mut edge = edge.set("SVC_DRAIN_SECONDS", "").start();
    let client = Client::new(&edge.address("http"), Some(TEST_KEY));
    let mut stream = client.stream("").await;
    let readyz = format!("{}/readyz", edge.address("ops"));
    let ready = async || Some(fetch(&readyz).await.ok()?.status().as_u16());
    assert_eq!(ready().await, Some(200));
    let signalled = now_ms();
    edge.signal("TERM");
    eventually("it says so", SOON, async || (ready().await == Some(503)).then_some(())).await;
    // Clients that have not noticed are served over old connections and new ones.
    client.get("/v1/me").await.ok(200);
    client.anew().get("/v1/me").await.ok(200);
    assert_eq!(ready().await, Some(503));
    stream.end(SOON).await;
    assert!(now_ms() - signalled >= 5_000);
    assert_eq!(edge.exit(DRAINED).await.code(), Some(0));
    assert!(client.request(reqwest::Method::GET, "/v1").send().await.is_err());
}

#[tokio::test]
async fn grpc_says_that_it_leaves_and_a_second_signal_ends_at_once() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let mut service = Service::embedded(|setup| setup.role("core").set("SVC_DRAIN_SECONDS", "300"));
    let edge = Setup::new(service.dir.path()).role("edge");
    let edge = edge.set("SVC_CORE_URL", &service.grpc).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).start();
    let mut client = HealthClient::new(service.channel());
    let mut serves = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        client.check(request).await.unwrap().into_inner().status().as_str_name() == "SERVING"
    };
    let all = ["", "thesis.v1.ThesisService", "thesis.v1.GateService"];
    for name in all {
        assert!(serves(name).await, "{name}");
    }
    service.processes[0].signal("INT");
    eventually("it says so", SOON, async || (!serves("").await).then_some(())).await;
    assert!(!serves("thesis.v1.ThesisService").await);
    // The services for the roles stay until it stops.
    assert!(serves("thesis.v1.GateService").await);
    let readyz = format!("{}/readyz", edge.address("ops"));
    assert_eq!(fetch(&readyz).await.unwrap().status().as_u16(), 200);
    Client::new(&edge.address("http"), Some(TEST_KEY)).get("/v1/me").await.ok(200);
    service.processes[0].signal("TERM");
    assert_ne!(service.processes[0].exit(Duration::from_secs(2)).await.code(), Some(0));
}

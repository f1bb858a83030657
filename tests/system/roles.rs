//! Processes: how they start, work together and stop; one process, or a role each.

mod health;
mod leaving;
mod starts;

use std::time::Duration;

use thesis_proto::v1::Environment;

use crate::harness::{
    ALL_SCOPES, Client, Receiver, SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, fetch, text,
};

/// Longest time from a signal to a process's end.
const DRAINED: Duration = Duration::from_secs(10);

#[tokio::test]
async fn roles_on_one_machine_share_the_data_folders_token() {
    let dir = tempfile::tempdir().unwrap();
    let core = Setup::new(dir.path()).set("SVC_BOOTSTRAP_TEST_KEY", TEST_KEY).role("core").start();
    assert_eq!(core.ready["role"], "core");
    assert!(core.ready.get("http").is_none());
    let role = |role: &str| Setup::new(dir.path()).set("SVC_CORE_URL", &core.address("grpc")).role(role).start();
    let (edges, mut worker) = ([role("edge"), role("edge")], role("worker"));
    assert!(worker.ready.get("http").is_none() && worker.ready.get("grpc").is_none());
    let clients = edges.each_ref().map(|edge| Client::new(&edge.address("http"), Some(TEST_KEY)));
    let receiver = Receiver::start().await;
    let webhook = clients[0].webhook(&receiver.url, &["thesis.created"]).await;
    let mut stream = clients[1].stream("?types=thesis.created").await;
    let event = clients[0].thesis("writer", "ROLES", "x").await.1;
    assert_eq!(stream.next().await.data, event);
    receiver.delivery_of(&event).await.verify(text(&webhook, "secret"));
    let list = ["admin", "organization", "list", "--json"];
    let operator = Setup::new(dir.path()).set("SVC_CORE_URL", &core.address("grpc")).arguments(&list);
    assert_eq!(operator.run().0, Some(0));

    // A dead worker leaves its work to the next.
    worker.signal("KILL");
    worker.exit(DRAINED).await;
    let event = clients[1].thesis("writer", "ROLES", "y").await.1;
    let _next = role("worker");
    receiver.delivery_of(&event).await;
    // Each role ends by itself.
    let [mut edge, _other] = edges;
    edge.signal("TERM");
    assert_eq!(edge.exit(DRAINED).await.code(), Some(0));
    clients[1].get("/v1/me").await.ok(200);
}

#[tokio::test]
async fn roles_work_by_the_internal_address_of_core() {
    let service = Service::embedded(|setup| setup.role("core").set("SVC_INTERNAL_ADDR", "127.0.0.1:0"));
    work_together(&service, &[], &service.cores[0]).await;
}

#[tokio::test]
async fn cores_reach_each_other_by_their_internal_addresses() {
    let Some(nodes) = crate::harness::nodes() else { return };
    let with_internal = |setup: Setup| setup.set("SVC_INTERNAL_ADDR", "127.0.0.1:0");
    let service = Service::of_replicas_with(2, &nodes, true, with_internal).await;
    work_together(&service, &service.edges, &service.cores[1]).await;
    for core in &service.processes[..2] {
        let metrics = fetch(format!("{}/metrics", core.address("ops"))).await.unwrap().text().await.unwrap();
        let parts = ["grpc_requests_total{", "method=\"PeerService/News\"", "code=\"Ok\""];
        let calls = metrics.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        assert!(calls.is_some_and(|line| !line.ends_with(" 0")), "{calls:?}");
    }
}

/// An edge and a worker that know one core by this address, beside the edges of a service, make one service.
async fn work_together(service: &Service, edges: &[String], core: &str) {
    let role = |role: &str| {
        let setup = Setup::new(service.dir.path()).role(role).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
        setup.set("SVC_CORE_URL", core).start()
    };
    let (edge, _worker) = (role("edge"), role("worker"));
    let there = Client::new(&edge.address("http"), Some(TEST_KEY));
    let receiver = Receiver::start().await;
    there.webhook(&receiver.url, &["thesis.created"]).await;
    let mut stream = there.stream("?types=thesis.created").await;
    let here = edges.first().map_or_else(|| there.clone(), |edge| there.moved_to(edge));
    let event = here.thesis("writer", "INTERNAL", "x").await.1;
    assert_eq!(stream.next().await.data, event);
    receiver.delivery_of(&event).await;
}

#[tokio::test]
async fn two_cores_on_one_keyspace_are_one_service() {
    const WRITTEN: usize = 60;
    let Some(service) = crate::harness::cluster().await else { return };
    // A second core, with an edge that knows only this one; the worker knows only the first.
    let mut core = service.another_core().start();
    let edge = Setup::new(service.dir.path()).role("edge").set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
    let edge = edge.set("SVC_CORE_URL", &core.address("grpc")).start();
    let project = service.project_on("huge").await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let here = project.test().await;
    let there = here.moved_to(&edge.address("http"));
    let doomed = key.client.moved_to(&edge.address("http"));
    eventually("the key is known there", SOON, async || (there.get("/v1/me").await.status == 200).then_some(())).await;

    let receiver = Receiver::start().await;
    here.webhook(&receiver.url, &["thesis.created"]).await;
    let mut streams = [here.stream("?handle=writer").await, there.stream("?handle=writer").await];
    let mut writing = tokio::task::JoinSet::new();
    for (number, client) in [&here, &there, &here, &there].into_iter().cloned().enumerate() {
        writing.spawn(async move {
            for count in 0..WRITTEN / 4 {
                client.thesis("writer", "TWO", &format!("{number} {count}")).await;
            }
        });
    }
    let mut seen = Vec::new();
    for (stream, client) in streams.iter_mut().zip([&there, &here]) {
        let frames = stream.take(WRITTEN).await;
        // A client that has an event can read its thesis, on the other core as well.
        for frame in &frames {
            client.get(&format!("/v1/theses/{}", text(&frame.data["data"], "thesis_id"))).await.ok(200);
        }
        seen.push(frames);
    }
    writing.join_all().await;
    assert_eq!(seen[0], seen[1]);
    let history = there.all("/v1/events?handle=writer&limit=100").await;
    assert!(seen[0].iter().rev().map(|frame| &frame.data).eq(&history));
    assert_eq!(
        here.all("/v1/theses?handle=writer&limit=100").await,
        there.all("/v1/theses?handle=writer&limit=100").await
    );
    let log = service.check_log(&project.dataset()).await;
    assert_eq!((log.gaps, log.duplicates, log.entries), (0, 0, log.head), "{log:?}");
    for event in &history {
        receiver.delivery_of(event).await;
    }

    // A revocation acts on both within a second.
    let mut stream = doomed.stream("").await;
    project.revoke(&key).await;
    stream.end(Duration::from_secs(1)).await;
    doomed.get("/v1/me").await.error(401, "API_KEY_REVOKED");
    core.signal("TERM");
    assert_eq!(core.exit(DRAINED).await.code(), Some(0));
    here.get("/v1/me").await.ok(200);
}

#[tokio::test]
async fn an_edge_without_core_says_so_and_recovers() {
    let mut service = Service::embedded(|setup| setup.role("core").set("SVC_GRPC_ADDR", "127.0.0.1:0"));
    let grpc = service.grpc.clone();
    let edge = Setup::new(service.dir.path()).role("edge");
    let edge = edge.set("SVC_CORE_URL", &grpc).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).start();
    let client = Client::new(&edge.address("http"), Some(TEST_KEY));
    let mut stream = client.stream("").await;
    client.get("/v1/me").await.ok(200);
    let readyz = format!("{}/readyz", edge.address("ops"));
    let ready = async || fetch(&readyz).await.unwrap().status().as_u16();
    assert_eq!(ready().await, 200);
    service.processes[0].signal("KILL");
    service.processes[0].exit(DRAINED).await;
    stream.end(Duration::from_secs(2)).await;
    client.get("/v1/me").await.error(503, "SERVICE_UNAVAILABLE");
    client.get("/v1/theses?limit=0").await.error(503, "SERVICE_UNAVAILABLE");
    client.get("/v1").await.ok(200);
    client.get("/v1/nothing").await.error(404, "ROUTE_NOT_FOUND");
    assert_eq!(ready().await, 503);
    let says = async |text: &str| eventually(text, SOON, async || edge.log().contains(text).then_some(())).await;
    says("no core serves; start core").await;
    let address = grpc.strip_prefix("http://").unwrap();
    let _core = service.setup.clone().set("SVC_GRPC_ADDR", address).start();
    eventually("the edge finds core again", SOON, async || (client.get("/v1/me").await.status == 200).then_some(()))
        .await;
    assert_eq!(ready().await, 200);
    says("a core serves again").await;
    assert_eq!(edge.log().matches("no core serves; start core").count(), 1);
}

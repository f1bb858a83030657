//! Every role apart, and TLS between them.

use std::fs;

use serde_json::json;
use thesis_proto::v1::{self, meta_service_client::MetaServiceClient};
use tonic::Request;

use super::{
    authority::{Authority, with_certificate},
    renewal::Listener,
};
use crate::harness::{
    Client, Process, Receiver, SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, fetch, text,
};

/// An edge, a worker or a command against a core at `https`, which must have a certificate of this authority.
fn role(service: &Service, authority: &Authority) -> Setup {
    let file = service.dir.path().join("root.pem");
    fs::write(&file, &authority.root).unwrap();
    Setup::new(service.dir.path())
        .set("SVC_CORE_URL", &service.grpc)
        .set("SVC_CORE_CA_FILE", file.to_str().unwrap())
        .set("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
        .set("SVC_TRUSTED_PROXIES", "127.0.0.0/8")
}

async fn is_ready(process: &Process) -> bool {
    let answer = fetch(format!("{}/readyz", process.address("ops"))).await;
    answer.is_ok_and(|answer| answer.status() == 200)
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_reach_core_and_clients_reach_both_by_tls() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.renew(dir.path());
    let service = Service::embedded(|setup| with_certificate(setup.role("core"), dir.path()));
    assert!(service.grpc.starts_with("https://"), "{}", service.grpc);
    let edge = with_certificate(role(&service, &authority).role("edge"), dir.path()).start();
    let worker = role(&service, &authority).role("worker").start();
    for process in [&service.processes[0], &edge, &worker] {
        assert!(process.address("ops").starts_with("http://"));
        eventually("it is ready", SOON, async || is_ready(process).await.then_some(())).await;
    }

    // REST, Server-Sent Events, WebSocket, webhooks.
    let client = Client::trusting(&edge.address("http"), TEST_KEY, &authority.root);
    let discovery = client.get("/v1").await.ok(200);
    assert!(discovery.to_string().contains("wss://"), "{discovery}");
    let receiver = Receiver::start().await;
    client.webhook(&receiver.url, &["thesis.created"]).await;
    let mut stream = client.stream("?types=thesis.created").await;
    let mut socket = Listener::open(&authority, &edge.address("http")).await;
    let event = client.thesis("writer", "TLS", "by TLS").await.1;
    assert_eq!(stream.next().await.data, event);
    assert_eq!(socket.next_event().await["event"], event);
    receiver.delivery_of(&event).await;
    // What else this host has at the usual port may be plain, so browsers are not told to take TLS alone.
    let console = client.request(reqwest::Method::GET, "/console/sign-in").send().await.unwrap();
    assert!(console.status() == 200 && !console.headers().contains_key("strict-transport-security"));

    // gRPC.
    let mut request = Request::new(v1::GetMeRequest {});
    request.metadata_mut().insert("authorization", format!("Bearer {TEST_KEY}").parse().unwrap());
    let me = MetaServiceClient::new(authority.channel(&service.grpc)).get_me(request).await.unwrap();
    assert!(me.into_inner().key.is_some());

    // The operators' commands.
    let list = ["admin", "--json", "organization", "list"];
    let (code, stdout, stderr) = role(&service, &authority).arguments(&list).run();
    assert_eq!(code, Some(0), "{stdout} {stderr}");
    let plain = service.grpc.replace("https://", "http://");
    let (code, stdout, _) = role(&service, &authority).set("SVC_CORE_URL", &plain).arguments(&list).run();
    assert!(code == Some(1) && stdout.contains("SERVICE_UNAVAILABLE") && stdout.contains("by https://"), "{stdout}");
    // An edge that calls it without TLS.
    let edge = role(&service, &authority).set("SVC_CORE_URL", &plain).role("edge").start();
    let told = async || edge.log().contains("https:// if core has TLS)").then_some(());
    eventually("the edge says what to do", SOON, told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_of_another_authority_is_refused() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.renew(dir.path());
    let service = Service::embedded(|setup| with_certificate(setup.role("core"), dir.path()));
    let other = Authority::new();
    let edge = role(&service, &other).role("edge").start();
    let reason = "invalid peer certificate";
    let told = async || {
        assert!(!is_ready(&edge).await);
        let log = edge.log();
        (log.contains("TLS with core failed") && log.contains(reason)).then_some(())
    };
    eventually("the edge says why", SOON, told).await;
    let (code, stdout, _) = role(&service, &other).arguments(&["doctor", "--role", "edge"]).run();
    assert!(code == Some(1) && stdout.contains("do: set SVC_CORE_CA_FILE"), "{stdout}");
    let list = ["admin", "--json", "organization", "list"];
    for setup in [role(&service, &other), role(&service, &other).set("SVC_CORE_CA_FILE", "")] {
        let (code, stdout, _) = setup.arguments(&list).run();
        let error: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &error["code"]), (Some(1), &json!("SERVICE_UNAVAILABLE")), "{error}");
        let message = text(&error, "message");
        assert!(message.contains(reason) && message.contains("set SVC_CORE_CA_FILE"), "{error}");
    }
}

//! Starts: the first, the next one on the same data, and those that settings stop.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::json;

use super::DRAINED;
use crate::harness::{Client, Receiver, SERVICE_TOKEN, Service, Setup, TEST_KEY, rows, text};

#[tokio::test]
async fn a_first_start_needs_nothing_and_makes_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Setup::new(dir.path()).start();
    assert_eq!(process.ready["role"], "all");
    for address in ["http", "grpc", "ops"] {
        let url = process.address(address);
        assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with(":0"), "{url}");
    }
    let file = process.ready["test_key_file"].as_str().unwrap().to_owned();
    assert!(file.starts_with('/') && file.starts_with(dir.path().to_str().unwrap()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(&file).unwrap();
    assert!(!process.log().contains(key.trim()));
    let client = Client::new(&process.address("http"), Some(key.trim()));
    let me = client.get("/v1/me").await.ok(200);
    assert_eq!((&me["environment"], &me["project"]["name"]), (&json!("test"), &json!("default")));
    assert!(me["scopes"].as_array().unwrap().contains(&json!("webhooks:write")));
    let thesis = client.thesis("writer", "FIRST", "kept").await.0;
    process.signal("TERM");
    assert_eq!(process.exit(DRAINED).await.code(), Some(0));
    drop(process);

    let process = Setup::new(dir.path()).start();
    assert!(process.ready.get("test_key_file").is_none());
    let client = client.moved_to(&process.address("http"));
    assert_eq!(rows(&client.get("/v1/theses?limit=1").await.ok(200))[..], [thesis]);
}

#[tokio::test]
async fn a_second_start_continues_where_the_first_stopped() {
    let mut service = Service::embedded(|setup| setup);
    let receiver = Receiver::start().await;
    let client = service.test_client().await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let mut stream = client.stream("?types=thesis.created").await;
    for number in 0..5 {
        client.thesis("writer", "KEPT", &number.to_string()).await;
    }
    let cursor = stream.take(5).await.pop().unwrap().cursor().to_owned();
    let theses = client.all("/v1/theses?limit=100").await;
    let created = "/v1/events?types=thesis.created&limit=100";
    let events = client.all(created).await;
    let body = json!({"handle": "writer", "token": "KEPT", "text": "once"});
    let once = client.post_once("/v1/test/theses", &body, "over the restart").await;
    let usage = client.get("/v1/me/usage").await.ok(200);
    // With a request's stream open, it still ends in time, and says that one may come again.
    service.processes[0].signal("TERM");
    let exit = service.processes[0].exit(DRAINED).await;
    assert_eq!(exit.code(), Some(0), "{}", service.processes[0].log());
    stream.end(Duration::from_secs(1)).await;
    service.processes = vec![service.setup.start()];
    service.http = service.processes[0].address("http");
    service.edges = vec![service.http.clone()];

    let client = client.moved_to(&service.http);
    assert_eq!(client.all("/v1/theses?limit=100").await[1..], theses[..]);
    assert_eq!(client.all(created).await[1..], events[..]);
    let again = client.post_once("/v1/test/theses", &body, "over the restart").await;
    assert_eq!((&again.text, again.header("idempotent-replayed")), (&once.text, "true"));
    assert_eq!(client.all("/v1/webhooks").await[0]["id"], webhook["id"]);
    let used = |usage: &serde_json::Value| usage["month"]["used"].as_i64().unwrap();
    assert!(used(&client.get("/v1/me/usage").await.ok(200)) > used(&usage));
    // The cursor is still valid, and so are key, secret and deliveries.
    let mut stream = client.resume("?types=thesis.created", &cursor).await;
    assert_eq!(stream.next().await.data, once.json()["event"]);
    let event = client.thesis("writer", "KEPT", "after").await.1;
    assert_eq!(stream.next().await.data, event);
    receiver.delivery_of(&event).await.verify(text(&webhook, "secret"));
    receiver.delivery_of(&once.json()["event"]).await;
    service.client(TEST_KEY).get("/v1/me").await.ok(200);
}

#[tokio::test]
async fn the_bootstrap_is_idempotent_and_follows_its_settings() {
    let mut service = Service::embedded(|setup| setup);
    let first = service.client(TEST_KEY).get("/v1/me").await.ok(200);
    let other_key = TEST_KEY.replace("System", "Second");
    let setup = service.setup.clone().set("SVC_BOOTSTRAP_PLAN", "pro").set("SVC_BOOTSTRAP_TEST_KEY", &other_key);
    service.processes.clear();
    service.processes.push(setup.start());
    let http = service.processes[0].address("http");
    let client = Client::new(&http, Some(TEST_KEY));
    let second = client.get("/v1/me").await.ok(200);
    assert_eq!((&second["id"], &second["project"]), (&first["id"], &first["project"]));
    assert_eq!(second["organization"]["plan"], "pro");
    let other = client.with_key(Some(&other_key)).get("/v1/me").await.ok(200);
    assert_eq!(other["project"], first["project"]);
    assert_ne!(other["id"], first["id"]);
}

#[tokio::test]
async fn a_bad_setting_stops_the_start_with_one_line_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let plans = dir.path().join("plans.toml");
    fs::write(&plans, "[plans.free]\nhistory_days = 7\n").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (name, value) in [
        ("SVC_HTTP_ADDR", "localhost"),
        ("SVC_HTTP_ADDR", &*taken),
        ("SVC_GRPC_ADDR", &taken),
        ("SVC_GRPC_ADDR", "0.0.0.0:0"),
        ("SVC_INTERNAL_ADDR", "core:50052"),
        ("SVC_INTERNAL_ADDR", &taken),
        ("SVC_OPS_ADDR", "127.0.0.1:99999"),
        ("SVC_PUBLIC_URL", "example.com"),
        ("SVC_PUBLIC_URL", "https://example.com/theses"),
        ("SVC_STORE", "postgres"),
        ("SVC_STORE", "scylla"),
        ("SVC_DATA_DIR", "/proc/nothing"),
        ("SVC_SECRET_KEY", "c2hvcnQ="),
        ("SVC_SERVICE_TOKEN", "short"),
        ("SVC_LOG_KEY", "c2hvcnQ="),
        ("SVC_BOOTSTRAP_TEST_KEY", "svc_test_short"),
        ("SVC_BOOTSTRAP_LIVE_KEY", TEST_KEY),
        ("SVC_BOOTSTRAP_PLAN", "gold"),
        ("SVC_PLANS_FILE", "/nothing/plans.toml"),
        ("SVC_PLANS_FILE", plans.to_str().unwrap()),
        ("SVC_TRUSTED_PROXIES", "10.0.0.0/33"),
        ("SVC_WEBHOOK_ALLOW_NETWORKS", "loopback"),
        ("SVC_WEBHOOK_CA_FILE", "/nothing/ca.pem"),
        ("SVC_DNS_SERVERS", "dns.example.com"),
        ("SVC_SANDBOX_TICK_SECONDS", "-1"),
        ("SVC_DRAIN_SECONDS", "301"),
        ("SVC_UPSTREAM_URL", "upstream.example.com"),
        ("SVC_UPSTREAM_TOKEN", "a token without an address"),
        ("SVC_UPSTREAM_TIMEOUT_MS", "50"),
        ("SVC_UPSTREAM_RPS", "0"),
        ("SVC_UPSTREAM_BACKFILL", "yesterday"),
        ("SVC_UPSTREAM_REFRESH_SECONDS", "0"),
        ("THESES_API_ENABLED", "yes"),
        ("SEMANTIC_SEARCH_ENABLED", "true"),
    ] {
        let (code, stdout, stderr) = Setup::new(dir.path()).set(name, value).run();
        assert!(code.is_some_and(|code| code != 0), "{name}={value}: {code:?}");
        assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{name}={value}: {stderr}");
        // With `scylla`, the error names a missing setting.
        let named = if value == "scylla" { "SVC_S" } else { name };
        assert!(stderr.contains(named), "{name}={value}: {stderr}");
    }
    let (code, stdout, _) = Setup::new(dir.path()).arguments(&["--help"]).run();
    assert_eq!(code, Some(0));
    for name in ["SVC_HTTP_ADDR", "SVC_SCYLLA_CA_FILE", "SVC_BOOTSTRAP_PLAN", "SVC_DNS_SERVERS", "WALLETS_API_ENABLED"]
    {
        assert!(stdout.contains(name), "{name}");
    }
}

#[tokio::test]
async fn a_keyspace_of_more_copies_than_nodes_is_told_as_that() {
    let Some(nodes) = crate::harness::nodes() else { return };
    let dir = tempfile::tempdir().unwrap();
    let known = nodes.split(',').count();
    let core = Setup::new(dir.path())
        .role("core")
        .set("SVC_SECRET_KEY", "c3lzdGVtLXRlc3RzLXNlY3JldC1rZXktMDEyMzQ1Njc=")
        .set("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
        .set("SVC_STORE", "scylla")
        .set("SVC_SCYLLA_NODES", &nodes)
        .set("SVC_SCYLLA_KEYSPACE", "never_made")
        .set("SVC_SCYLLA_REPLICATION_FACTOR", &(known + 2).to_string());
    let (code, stdout, stderr) = core.run();
    let nodes = if known == 1 { "node" } else { "nodes" };
    let told = format!(
        "trade-thesis: SVC_SCYLLA_REPLICATION_FACTOR: {} copies of each row, but {known} {nodes} in the data centre; \
         set it to {known} or fewer, add nodes, or name the right SVC_SCYLLA_DATACENTER\n",
        known + 2
    );
    assert_eq!((code, stdout.as_str(), stderr), (Some(1), "", told));
}

#[tokio::test]
async fn a_core_does_not_start_in_the_folder_of_another() {
    let Some(service) = crate::harness::cluster().await else { return };
    let (code, stdout, stderr) = service.core_in_taken_folder().run();
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let told = stderr.starts_with("trade-thesis: SVC_DATA_DIR: ") && stderr.contains("stop the process that uses it");
    assert!(told && stderr.lines().count() == 1, "{stderr}");
}

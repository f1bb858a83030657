//! Starting, stopping and starting again: one process, or a role each.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::json;
use thesis_proto::v1::Environment;

use crate::harness::{
    ALL_SCOPES, Client, Receiver, SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, ids, now_ms, rows, text,
};

/// Longest time from a signal to a process's end.
const DRAINED: Duration = Duration::from_secs(10);

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
async fn health_tells_by_its_exit_code_whether_a_process_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let health = |ops: &str| {
        let setup = Setup::new(dir.path()).set("SVC_OPS_ADDR", ops.trim_start_matches("http://"));
        // The address is asked itself, whatever proxy the machine has.
        setup.set("http_proxy", "http://127.0.0.1:9").arguments(&["health"]).run()
    };
    let mut core = Setup::new(dir.path()).role("core").start();
    let ops = core.address("ops");
    assert_eq!(health(&ops), (Some(0), String::new(), String::new()));
    assert_eq!(health(&ops.replace("127.0.0.1", "0.0.0.0")).0, Some(0));
    // It lives, but has no core.
    let token = fs::read_to_string(dir.path().join("data/service_token")).unwrap();
    let alone = Setup::new(dir.path()).set("SVC_SERVICE_TOKEN", &token).set("SVC_CORE_URL", "http://127.0.0.1:9");
    let edge = alone.role("edge").start();
    let (code, _, told) = health(&edge.address("ops"));
    assert!(code == Some(1) && told.contains("not ready") && told.contains("503"), "{told}");
    core.signal("TERM");
    core.exit(DRAINED).await;
    for (address, hint) in [(ops.as_str(), "does the process run?"), ("127.0.0.1:0", "name the process's port")] {
        let (code, _, told) = health(address);
        assert!(code == Some(1) && told.contains("SVC_OPS_ADDR: ") && told.contains(hint), "{told}");
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
async fn two_cores_on_one_keyspace_are_one_service() {
    const WRITTEN: usize = 60;
    let Some(service) = crate::harness::cluster().await else { return };
    // A second core, with an edge that knows only this one; the worker knows only the first.
    let mut core = service.setup.start();
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
    let ready = async || reqwest::get(&readyz).await.unwrap().status().as_u16();
    assert_eq!(ready().await, 200);
    service.processes[0].signal("KILL");
    service.processes[0].exit(DRAINED).await;
    stream.end(Duration::from_secs(2)).await;
    client.get("/v1/me").await.error(503, "SERVICE_UNAVAILABLE");
    client.get("/v1/theses?limit=0").await.error(503, "SERVICE_UNAVAILABLE");
    client.get("/v1").await.ok(200);
    client.get("/v1/nothing").await.error(404, "ROUTE_NOT_FOUND");
    assert_eq!(ready().await, 503);
    let address = grpc.strip_prefix("http://").unwrap();
    let _core = service.setup.clone().set("SVC_GRPC_ADDR", address).start();
    eventually("the edge finds core again", SOON, async || (client.get("/v1/me").await.status == 200).then_some(()))
        .await;
    assert_eq!(ready().await, 200);
}

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
    let ready = async || Some(reqwest::get(&readyz).await.ok()?.status().as_u16());
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
    assert_eq!(reqwest::get(&readyz).await.unwrap().status().as_u16(), 200);
    Client::new(&edge.address("http"), Some(TEST_KEY)).get("/v1/me").await.ok(200);
    service.processes[0].signal("TERM");
    assert_ne!(service.processes[0].exit(Duration::from_secs(2)).await.code(), Some(0));
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
        ("SVC_OPS_ADDR", "127.0.0.1:99999"),
        ("SVC_PUBLIC_URL", "example.com"),
        ("SVC_PUBLIC_URL", "https://example.com/theses"),
        ("SVC_STORE", "postgres"),
        ("SVC_STORE", "scylla"),
        ("SVC_DATA_DIR", "/proc/nothing"),
        ("SVC_SECRET_KEY", "c2hvcnQ="),
        ("SVC_SERVICE_TOKEN", "short"),
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
async fn the_ticker_posts_in_the_sandbox() {
    let service = Service::embedded(|setup| setup.set("SVC_SANDBOX_TICK_SECONDS", "1"));
    let (one, other) = (service.test_client().await, service.test_client().await);
    let mut streams = [one.stream("").await, other.stream("").await];
    let receiver = Receiver::start().await;
    one.webhook(&receiver.url, &["thesis.created", "token.activity", "token.thesis_velocity"]).await;
    let mut first = Vec::new();
    for stream in &mut streams {
        let created = stream.next_of("thesis.created").await;
        assert_eq!((&created.data["source"], created.data.get("test")), (&json!("sandbox"), None));
        let handle = text(&created.data["data"]["profile"], "handle");
        assert!(handle.starts_with("@sbx_"), "{handle}");
        for derived in ["token.activity", "token.thesis_velocity"] {
            assert_eq!(stream.next_of(derived).await.data["source"], "sandbox");
        }
        first.push(created);
    }
    let id = text(&first[0].data["data"], "thesis_id");
    let thesis = one.get(&format!("/v1/theses/{id}")).await.ok(200);
    assert!(thesis["likes"].is_u64());
    assert!(ids(&other.all("/v1/theses?since=1h&limit=100").await).contains(&id));
    let next = streams[0].next_of("thesis.created").await;
    receiver.delivery_of(&next.data).await;
    // Live keys do not get these events.
    let live = service.project().await.live().await;
    assert!(live.all("/v1/events").await.is_empty());
}

#[tokio::test]
async fn every_process_tells_its_health_and_figures() {
    let service = crate::harness::embedded().await;
    service.is_ready().await;
    service.client(TEST_KEY).get("/v1/me").await.ok(200);
    let ops = service.processes[0].address("ops");
    let get = async |path: &str| reqwest::get(format!("{ops}{path}")).await.unwrap();
    let healthy = get("/healthz").await;
    assert_eq!(healthy.status().as_u16(), 200);
    // The same version and commit everywhere.
    let (_, told, _) = Setup::new(service.dir.path()).arguments(&["--version"]).run();
    let both = told.strip_prefix("trade-thesis ").and_then(|both| both.trim_end().strip_suffix(')'));
    let (version, commit) = both.and_then(|both| both.split_once(" (commit ")).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(commit, env!("SVC_BUILD_COMMIT"));
    assert_eq!(healthy.text().await.unwrap(), format!("ok {version} ({commit})\n"));
    let metrics = get("/metrics").await.text().await.unwrap();
    assert!(metrics.lines().any(|line| line.starts_with("log_entries_appended_total ")), "{metrics}");
    let is_build = |line: &str| {
        let labels = line.strip_prefix("build_info{").and_then(|line| line.strip_suffix("} 1")).unwrap_or_default();
        [("version", version), ("commit", commit)]
            .iter()
            .all(|(name, value)| labels.contains(&format!("{name}=\"{value}\"")))
    };
    assert!(metrics.lines().any(is_build), "{metrics}");
    let log = service.processes[0].log();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let start = lines.find(|line| line["message"] == "starting").expect("a line about the start");
    assert_eq!((&start["version"], &start["commit"]), (&json!(version), &json!(commit)), "{start}");
    // Nothing secret is ever logged.
    assert!(!log.contains("svc_test_") && !log.contains("svc_live_") && !log.contains(SERVICE_TOKEN));
    assert!(!log.contains("whsec_"));
}

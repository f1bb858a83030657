//! Two cores of a cluster that reach each other by TLS, an edge before each, and a worker.

use std::{fs, time::Duration};

use tempfile::TempDir;
use tokio::time::Instant;

use super::authority::{Authority, with_certificate};
use crate::harness::{
    Client, Process, Receiver, SERVICE_TOKEN, SOON, Setup, Sse, TEST_KEY, eventually, fetch, nodes, now_ms,
};

/// 32 bytes.
const SECRET_KEY: &str = "c3lzdGVtLXRlc3RzLXNlY3JldC1rZXktMDEyMzQ1Njc=";
/// Theses that follow each other, each posted when the one before it was heard.
const FOLLOWING: u32 = 4;
/// Longest time for all of them to be heard, less than by looks: those come a second apart.
const BY_NEWS: Duration = Duration::from_millis(2_500);

/// What runs. Everything shows the same certificate.
struct Cluster {
    authority: Authority,
    cores: [Process; 2],
    edges: [Process; 2],
    _worker: Process,
    _dir: TempDir,
}

impl Cluster {
    /// Starts all. The second core trusts the certificates of another authority if one is given.
    fn start(nodes: &str, other: Option<&Authority>) -> Self {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        authority.renew(dir.path());
        let put = |name: &str, root: &str| {
            fs::write(dir.path().join(name), root).unwrap();
            dir.path().join(name).display().to_string()
        };
        let root = put("root.pem", &authority.root);
        let of_second = other.map_or_else(|| root.clone(), |other| put("other.pem", &other.root));
        let role = |role: &str, root: &str| {
            with_certificate(Setup::new(dir.path()).role(role), dir.path())
                .set("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
                .set("SVC_CORE_CA_FILE", root)
                .set("SVC_TRUSTED_PROXIES", "127.0.0.0/8")
        };
        let keyspace = format!("system_tls_{}_{}_{}", std::process::id(), now_ms(), u8::from(other.is_some()));
        let cores = [("core-1", &root), ("core-2", &of_second)].map(|(name, root)| {
            let core = role("core", root).set("SVC_SECRET_KEY", SECRET_KEY).set("SVC_BOOTSTRAP_TEST_KEY", TEST_KEY);
            let core = core.set("SVC_STORE", "scylla").set("SVC_SCYLLA_NODES", nodes);
            let core = core.set("SVC_INTERNAL_ADDR", "127.0.0.1:0");
            let core = core.set("SVC_DATA_DIR", dir.path().join(name).to_str().unwrap());
            core.set("SVC_SCYLLA_KEYSPACE", &keyspace).set("SVC_SCYLLA_REPLICATION_FACTOR", "1").start()
        });
        let addresses = cores.each_ref().map(|core| core.address("internal"));
        assert!(addresses.iter().all(|address| address.starts_with("https://")), "{addresses:?}");
        let edges = addresses.each_ref().map(|core| role("edge", &root).set("SVC_CORE_URL", core).start());
        let worker = role("worker", &root).set("SVC_CORE_URL", &addresses.join(",")).start();
        Self { authority, cores, edges, _worker: worker, _dir: dir }
    }

    /// A customer at each edge.
    fn clients(&self) -> [Client; 2] {
        self.edges.each_ref().map(|edge| Client::trusting(&edge.address("http"), TEST_KEY, &self.authority.root))
    }
}

/// Calls for its news that a core has answered.
async fn told(core: &Process) -> u64 {
    let metrics = fetch(format!("{}/metrics", core.address("ops"))).await.unwrap().text().await.unwrap();
    let calls = metrics.lines().find(|line| {
        ["grpc_requests_total{", "method=\"PeerService/News\"", "code=\"Ok\""].iter().all(|part| line.contains(part))
    });
    calls.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
}

async fn is_heard(core: &Process) {
    eventually("a core's news are heard", SOON, async || (told(core).await > 0).then_some(())).await;
}

/// Posts at one edge what a stream at the other must hear next.
async fn post(client: &Client, stream: &mut Sse, said: &str) {
    let event = client.thesis("writer", "CORES", said).await.1;
    assert_eq!(stream.next().await.data, event);
}

#[tokio::test(flavor = "multi_thread")]
async fn cores_tell_each_other_news_by_tls() {
    let Some(nodes) = nodes() else { return };
    let cluster = Cluster::start(&nodes, None);
    for core in &cluster.cores {
        is_heard(core).await;
    }
    let clients = cluster.clients();
    for (here, there) in [(&clients[0], &clients[1]), (&clients[1], &clients[0])] {
        let mut stream = there.stream("?types=thesis.created").await;
        let mut times = 0;
        eventually("theses are heard at the other core sooner than by looks", SOON, async || {
            times += 1;
            let began = Instant::now();
            for number in 0..FOLLOWING {
                post(here, &mut stream, &format!("{times}, {number}")).await;
            }
            (began.elapsed() < BY_NEWS).then_some(())
        })
        .await;
    }
    // The worker has a way to both cores, whichever hands out the webhook's attempts.
    let receiver = Receiver::start().await;
    clients[0].webhook(&receiver.url, &["thesis.created"]).await;
    for client in &clients {
        let event = client.thesis("writer", "CORES", "to a webhook").await.1;
        receiver.delivery_of(&event).await;
    }
    for core in &cluster.cores {
        assert!(!core.log().contains("TLS with core failed"), "{}", core.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_trusts_another_authority_looks_for_what_others_do() {
    let Some(nodes) = nodes() else { return };
    let cluster = Cluster::start(&nodes, Some(&Authority::new()));
    let [first, second] = &cluster.cores;
    let address = first.address("internal");
    let says = async |what: &str, parts: &[&str]| {
        let line = |line: &str| line.contains(&address) && parts.iter().all(|part| line.contains(part));
        eventually(what, SOON, async || second.log().lines().any(line).then_some(())).await;
    };
    says("the second core says why", &["TLS with core failed", "invalid peer certificate"]).await;
    is_heard(second).await;
    let clients = cluster.clients();
    let mut streams =
        [clients[0].stream("?types=thesis.created").await, clients[1].stream("?types=thesis.created").await];
    for round in 0..4 {
        let event = clients[round % 2].thesis("writer", "CORES", &format!("round {round}")).await.1;
        for stream in &mut streams {
            assert_eq!(stream.next().await.data, event);
        }
    }
    says("it says what follows", &["a core that beats is not reached", "invalid peer certificate"]).await;
    assert_eq!(told(first).await, 0);
    assert!(!first.log().contains("is not reached"), "{}", first.log());
}

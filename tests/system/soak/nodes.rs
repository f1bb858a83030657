//! Three Cassandra nodes with three copies of everything: one is killed and returned, then another, under steady load.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};

use super::{customer::Customer, load::Load, setting};
use crate::harness::{Service, nodes};

/// Writes and reads a second, unless `SOAK_WRITES` and `SOAK_READS` say otherwise.
const WRITES: u32 = 50;
const READS: u32 = 200;
const STREAMS: usize = 4;
/// Least time with all nodes before one is killed: nodes that have just started are several times slower.
const WHOLE: Duration = Duration::from_secs(60);
const AWAY: Duration = Duration::from_secs(20);

/// The nodes that `tests/soak` started.
struct Nodes {
    folder: PathBuf,
    count: usize,
}

impl Nodes {
    fn kill(&self, node: usize) {
        let process = fs::read_to_string(self.folder.join(format!("node{node}/pid"))).unwrap();
        assert!(Command::new("kill").args(["-9", process.trim()]).status().unwrap().success());
    }

    /// Starts the nodes that do not run; ends when all see each other.
    fn start(&self) -> JoinHandle<()> {
        let mut starting = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cassandra"));
        starting.arg("start").arg("--dir").arg(&self.folder).stdout(std::process::Stdio::null());
        spawn_blocking(move || assert!(starting.status().unwrap().success()))
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn requests_are_answered_while_nodes_die() {
    let contacts = nodes().expect("TEST_SCYLLA_NODES");
    let folder = std::env::var("SOAK_CASSANDRA").expect("SOAK_CASSANDRA, the folder of the nodes").into();
    let nodes = Nodes { folder, count: contacts.split(',').count() };
    let service = Service::of_replicas(2, &contacts, false).await;
    let rates = (setting("SOAK_WRITES", WRITES), setting("SOAK_READS", READS));
    println!("{} writes and {} reads a second", rates.0, rates.1);
    let customer = Customer::start(&service, rates, WHOLE, STREAMS, u64::MAX).await;
    let started = Instant::now();
    pass(&customer.load, "all nodes", AWAY).await;
    for node in (1..=nodes.count).cycle() {
        nodes.kill(node);
        pass(&customer.load, &format!("node {node} dead"), AWAY).await;
        let returning = nodes.start();
        returning.await.unwrap();
        customer.load.tally.say(&format!("node {node} returning"));
        pass(&customer.load, &format!("node {node} returned"), WHOLE).await;
        if started.elapsed() > super::time() {
            break;
        }
    }
    customer.judge_answers(&service).await;
}

/// Lets time pass, printing the results of requests every ten seconds.
async fn pass(load: &Load, when: &str, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        sleep(Duration::from_secs(10).min(end - Instant::now())).await;
        load.tally.say(when);
    }
}

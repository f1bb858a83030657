//! Processes of every role killed with -9 at random moments under load, and started again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::customer::Customer;
use crate::harness::{Dice, Service, nodes};

/// Least number of processes killed.
const KILLS: usize = 25;
/// Requests a second.
const WRITES: u32 = 30;
const READS: u32 = 30;
const STREAMS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn nothing_is_lost_in_one_process_on_the_embedded_store() {
    nothing_is_lost(Service::embedded(|setup| setup)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn nothing_is_lost_in_two_of_each_role_on_a_cluster() {
    nothing_is_lost(Service::of_replicas(2, &nodes().expect("TEST_SCYLLA_NODES"), false).await).await;
}

async fn nothing_is_lost(mut service: Service) {
    let mut dice = Dice::new();
    let customer = Customer::start(&service, (WRITES, READS), Duration::ZERO, STREAMS, 2).await;
    let started = Instant::now();
    for kill in 1.. {
        sleep(Duration::from_millis(300 + dice.roll(3_000))).await;
        let index = usize::try_from(dice.roll(service.processes.len() as u64)).unwrap();
        let role = service.processes[index].ready["role"].as_str().unwrap().to_owned();
        service.kill_and_start(index).await;
        customer.load.tally.say(&format!("kill {kill}, {role}"));
        if kill >= KILLS && started.elapsed() > super::time() {
            break;
        }
    }
    customer.judge(&service).await;
}

//! A new version taken under load: processes of an older program (`SOAK_OLD`) become this one (or `SOAK_NEW`), one after the
//! other, on one store, and on a cluster back again.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::customer::Customer;
use crate::harness::{Dice, Service, nodes, text};

/// Requests a second.
const WRITES: u32 = 20;
const READS: u32 = 20;
const STREAMS: usize = 2;
/// Shortest time that old and new run side by side after each step.
const BESIDE: Duration = Duration::from_secs(4);

/// The two programs.
struct Programs {
    old: PathBuf,
    new: PathBuf,
}

impl Programs {
    fn find() -> Self {
        let old = std::env::var("SOAK_OLD").expect("SOAK_OLD, the path of an older program");
        let new = super::setting("SOAK_NEW", env!("CARGO_BIN_EXE_trade-thesis").to_owned());
        let programs = Self { old: old.into(), new: new.into() };
        for program in [&programs.old, &programs.new] {
            let told = Command::new(program).arg("--version").output().unwrap();
            print!("{}: {}", program.display(), String::from_utf8(told.stdout).unwrap());
        }
        assert_ne!(std::fs::read(&programs.old).unwrap(), std::fs::read(&programs.new).unwrap(), "one program twice");
        programs
    }

    fn name(&self, program: &Path) -> &'static str {
        if program == self.new { "new" } else { "old" }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn a_newer_program_goes_on_with_the_embedded_store_of_an_older_one() {
    let programs = Programs::find();
    let mut service = Service::embedded(|setup| setup.program(&programs.old));
    let customer = Customer::start(&service, (WRITES, READS), Duration::ZERO, STREAMS, 2).await;
    sleep(super::time() / 3).await;
    customer.load.tally.say("old");
    // The harder case: the newer one finds what the older one left unfinished.
    service.replace(0, "KILL", &programs.new).await;
    sleep(super::time() / 3).await;
    customer.load.tally.say("new, after kill -9");
    service.end(0, "TERM").await;
    service.start_again(0).await;
    sleep(super::time() / 3).await;
    customer.load.tally.say("new, started again");
    customer.judge(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn old_and_new_processes_share_a_cluster_and_lose_nothing() {
    let programs = Programs::find();
    let nodes = nodes().expect("TEST_SCYLLA_NODES");
    let old = |setup: crate::harness::Setup| setup.program(&programs.old);
    let mut service = Service::of_replicas_with(2, &nodes, false, old).await;
    let customer = Customer::start(&service, (WRITES, READS), Duration::ZERO, STREAMS, 2).await;
    sleep(BESIDE).await;
    customer.load.tally.say("all old");
    let mut steps = Steps { programs, dice: Dice::new(), customer };
    let started = Instant::now();
    // The first core goes back, and an old one starts on what the new one left.
    for program in [steps.programs.new.clone(), steps.programs.old.clone()] {
        steps.replace(&mut service, 0, &program).await;
    }
    let all = 0..service.processes.len();
    loop {
        // In the order of the guide "Deploy and upgrade": cores, edges, workers; and the way back the other way round.
        for index in all.clone() {
            steps.replace(&mut service, index, &steps.programs.new.clone()).await;
        }
        if started.elapsed() > super::time() {
            break;
        }
        for index in all.clone().rev() {
            steps.replace(&mut service, index, &steps.programs.old.clone()).await;
        }
    }
    steps.customer.judge_answers(&service).await;
}

/// What every step of a roll-out needs.
struct Steps {
    programs: Programs,
    dice: Dice,
    customer: Customer,
}

impl Steps {
    /// Ends a process as an operator does, starts it as another program, waits until all are ready, and lets time pass.
    async fn replace(&mut self, service: &mut Service, index: usize, program: &Path) {
        service.replace(index, "TERM", program).await;
        service.is_ready().await;
        sleep(BESIDE + Duration::from_millis(self.dice.roll(4_000))).await;
        let role = text(&service.processes[index].ready, "role");
        self.customer.load.tally.say(&format!("{role} {index} is {}", self.programs.name(program)));
    }
}

//! The whole service in simulated time on a simulated network: cores on one store, edges, workers, clients, followers
//! of events and endpoints of webhooks. One seed decides the order of everything, and what goes wrong: messages,
//! processes, clocks, the store and endpoints. Afterwards the history of the run and the rows that it left are checked.
//!
//! `docs/simulation.md` says what is checked, and how to read a seed that fails. A run with the same seed has the same
//! trace. So nothing here may read the machine's clock or randomness, or depend on threads.

mod campaign;
mod checks;
mod clients;
mod cluster;
mod history;
mod linearizability;
mod network;
mod receivers;
mod run;
mod schedule;
mod shrink;
mod store;
mod subscribers;

use std::{
    env, panic,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use thesis_net::blocking;
use tokio::runtime;

use self::{
    campaign::{Campaign, FAULTS, SEED, TRACE, numbers},
    run::run,
    schedule::{PlannedFault, faults_of},
};

/// Runs a seed in this process, and fails with any task that panics.
fn run_here(trace: PathBuf) {
    let seed: u64 = env::var(SEED).unwrap().parse().unwrap();
    let planned = faults_of(seed);
    let kept: Vec<PlannedFault> =
        numbers(&env::var(FAULTS).unwrap()).into_iter().map(|number| planned[number]).collect();
    blocking::run_inline();
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, usual) = (Arc::clone(&panics), panic::take_hook());
    panic::set_hook(Box::new(move |panicked| {
        counted.fetch_add(1, Ordering::Relaxed);
        usual(panicked);
    }));
    // The hash maps of a new thread begin with the seed.
    thread::spawn(move || run(seed, &kept, &trace)).join().unwrap();
    assert_eq!(panics.load(Ordering::Relaxed), 0, "a task panicked");
}

fn runtime_of_processes() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn every_history_holds() {
    match env::var_os(TRACE) {
        Some(trace) => run_here(trace.into()),
        None => runtime_of_processes().block_on(Campaign::new().run_seeds()),
    }
}

#[test]
fn a_seed_has_the_same_trace_each_time() {
    let (seed, campaign) = (4, Campaign::new());
    let faults: Vec<usize> = (0..faults_of(seed).len()).collect();
    runtime_of_processes().block_on(async {
        let (one, two) = tokio::join!(campaign.run(seed, &faults), campaign.run(seed, &faults));
        let (one, two) = (one.unwrap_or_else(|failure| panic!("{failure}")), two.unwrap());
        let other = one.lines().zip(two.lines()).find(|(one, two)| one != two);
        assert_eq!(other, None, "the first difference");
        assert_eq!(one.len(), two.len());
        assert!(one.lines().count() > 500, "something happens: {one}");
    });
}

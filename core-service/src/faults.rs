//! Every use case that writes, with each fault at each of its store calls: the client asks again as clients do, and at
//! the end all rows are compared with a naive recount. Then several use cases at once, with random faults.
//!
//! A case takes some 20 ms, so only one in `TEST_SHARE` of them is run, chosen by `TEST_SEED`; 1 runs them all.
//! `TEST_FAULT` is a part of the names of cases to run; each name is printed before its case. `TEST_SEED` also repeats
//! one mixture, and `TEST_ROUNDS` is the number of mixtures.

mod accounts;
mod cases;
mod clients;
mod full_disk;
mod links;
mod mixture;
mod observations;
mod place;
mod recount;
mod requests;
mod rest;
mod stored;
mod worker;
mod world;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use thesis_net::clock::{IdSource as _, SystemIdSource};

use self::{
    cases::{ALL, UseCase},
    links::Links,
    place::{Dice, Store, Trouble},
    world::{Plan, World},
};
use crate::store::faulty::StoreCall;

/// Settles everything, writes a little more, settles that and compares all.
async fn judge(world: &mut World) {
    world.settle().await;
    world.probe().await;
    world.settle_written().await;
    recount::recount(world).await;
}

/// Runs one case; gives the calls counted.
async fn run(case: &UseCase, base: &World, plan: Option<Plan>) -> Vec<StoreCall> {
    let mut world = if case.from_nothing { base.empty() } else { base.copy() };
    if let Some(plan) = plan {
        world.plan(plan);
    }
    world.tick_seconds = case.tick_seconds;
    world.first_fails = case.first_fails;
    (case.run)(&mut world).await;
    world.idle().await;
    let calls = world.process.calls();
    world.process.rest();
    judge(&mut world).await;
    world.stop();
    calls
}

/// One case in this number is run.
const SHARE: u64 = 8;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    SystemIdSource.fill(&mut bytes);
    setting("TEST_SEED").unwrap_or(u64::from_le_bytes(bytes) >> 1)
}

async fn run_all(store: Store) {
    let wanted = std::env::var("TEST_FAULT").ok();
    let share = if wanted.is_some() { 1 } else { setting("TEST_SHARE").unwrap_or(SHARE) };
    let wanted = wanted.unwrap_or_default();
    let seed = seed();
    println!("TEST_SEED={seed} TEST_SHARE={share}");
    let mut dice = Dice(seed);
    let base = World::base(store).await;
    let exclusive = store != Store::Shared;
    let mut count = 0;
    for case in ALL {
        let calls = run(case, &base, None).await;
        for (number, called) in calls.iter().enumerate() {
            for fault in called.faults(exclusive) {
                let name = format!("{}, {store:?}, {fault:?} at {number} of {}: {called:?}", case.name, calls.len());
                if name.contains(&wanted) && dice.roll(usize::try_from(share).unwrap()) == 0 {
                    println!("{name}");
                    run(case, &base, Some(Plan { number, fault })).await;
                    count += 1;
                }
            }
        }
    }
    println!("{count} cases");
}

#[tokio::test(start_paused = true)]
async fn each_fault_at_each_call_of_many_writers() {
    run_all(Store::Shared).await;
}

#[tokio::test(start_paused = true)]
async fn each_fault_at_each_call_of_one_writer() {
    run_all(Store::Exclusive).await;
}

fn trouble(seed: u64) -> Trouble {
    Trouble(Arc::new(Mutex::new(Dice(seed))))
}

/// How two cores know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    /// By the store alone.
    No,
    /// Each forwards commands to the owner of a log, and hears the other's news.
    Yes,
}

/// Runs rounds of a mixture on a store, with one core or two; gives how many commands were forwarded.
async fn mixed(store: Store, linked: Linked, rounds: u64, steps: usize) -> usize {
    let mut forwarded = 0;
    let first = seed();
    let rounds = setting("TEST_ROUNDS").unwrap_or(if setting("TEST_SEED").is_some() { 1 } else { rounds });
    let base = World::base(store).await;
    for seed in first..first + rounds {
        println!("{store:?}, linked: {linked:?}: TEST_SEED={seed}");
        let mut one = base.copy();
        let mut two = one.beside();
        let links = Links::new(Dice(seed.rotate_left(32)));
        if linked == Linked::Yes {
            one.link(&links, "http://one:1").await;
            two.link(&links, "http://two:1").await;
            // They have seen each other's beats before the first process ends.
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        one.suffer(trouble(seed));
        two.suffer(trouble(!seed));
        let alone = mixture::live(&mut one, Dice(!seed), "one", steps);
        if store == Store::Shared {
            tokio::join!(alone, mixture::live(&mut two, Dice(seed.reverse_bits()), "two", steps));
            links.calm();
            two.calm().await;
            two.stop();
            one.acknowledged.entries.append(&mut two.acknowledged.entries);
            one.acknowledged.gone.append(&mut two.acknowledged.gone);
            one.acknowledged.webhooks.append(&mut two.acknowledged.webhooks);
        } else {
            alone.await;
        }
        one.calm().await;
        if linked == Linked::Yes {
            // What the other told last, and what it did not live to tell, is found.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        judge(&mut one).await;
        one.stop();
        forwarded += links.forwarded();
    }
    forwarded
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_of_one_writer() {
    mixed(Store::Exclusive, Linked::No, 8, 20).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_on_the_embedded_store() {
    mixed(Store::Embedded, Linked::No, 2, 12).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_of_two_cores() {
    mixed(Store::Shared, Linked::No, 6, 15).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_of_two_linked_cores() {
    let forwarded = mixed(Store::Shared, Linked::Yes, 6, 15).await;
    // One round alone may have had none.
    assert!(
        forwarded > 0 || setting("TEST_SEED").is_some() || setting("TEST_ROUNDS") == Some(1),
        "no core has carried out another's command"
    );
}

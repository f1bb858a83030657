//! Runs every use case that writes, with each fault at each of its store calls. The client retries as clients do. At
//! the end all rows are compared with a naive recount. Then it runs several use cases at once, with random faults.
//!
//! A case takes some 20 ms, so only one in `TEST_SHARE` of them is run, chosen by `TEST_SEED`; 1 runs them all.
//! `TEST_FAULT` is a part of the names of cases to run; each name is printed before its case. `TEST_SEED` also repeats
//! one mixture, and `TEST_ROUNDS` is the number of mixtures.

mod accounts;
mod alerts;
mod cases;
mod clients;
mod full_disk;
mod links;
mod lost_rows;
mod mixture;
mod observations;
mod recount;
mod requests;
mod rest;
mod stored;
mod worker;
mod world;
mod world_store;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use thesis_net::clock::{IdSource as _, SystemIdSource};

pub(super) use self::{
    cases::random as random_observation,
    stored::{deliveries, entries, logs},
    world::Acknowledged,
    world_store::Dice,
};
use self::{
    cases::{ALL, UseCase},
    links::Links,
    recount::Delays,
    world::{Plan, World},
    world_store::{RandomFaults, StoreKind},
};
use crate::{
    store::schema,
    tests::{
        faulty::{MemoryStore, StoreCall},
        harness::{LIVE_KEY, TEST_KEY},
        rows,
    },
};

/// Settles everything, writes a little more, settles that and compares all.
async fn judge(world: &mut World) {
    world.settle().await;
    world.probe().await;
    world.settle_written().await;
    recount::recount(world).await;
}

/// Lets a core finish the work that other processes have left in a store, and compares all rows with a recount.
pub(super) async fn judge_rows(rows: Arc<MemoryStore>, at: i64, acknowledged: Acknowledged) {
    let mut world = World::after(rows, at, acknowledged);
    world.settle().await;
    recount::recount(&world).await;
    world.stop();
}

/// Runs one case; returns its calls, and the tables to which it wrote rows that expire.
async fn run(case: &UseCase, base: &World, plan: Option<Plan>) -> (Vec<StoreCall>, BTreeSet<&'static str>) {
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
    let expiring = world.process.expiring();
    world.stop();
    (calls, expiring)
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

async fn run_all(store: StoreKind) {
    let wanted = std::env::var("TEST_FAULT").ok();
    let share = if wanted.is_some() { 1 } else { setting("TEST_SHARE").unwrap_or(SHARE) };
    let wanted = wanted.unwrap_or_default();
    let seed = seed();
    println!("TEST_SEED={seed} TEST_SHARE={share}");
    let mut dice = Dice(seed);
    let base = World::base(store).await;
    let exclusive = store != StoreKind::Shared;
    let (mut count, mut expiring) = (0, BTreeSet::new());
    for case in ALL {
        let (calls, expiring_here) = run(case, &base, None).await;
        expiring.extend(expiring_here);
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
    for table in [&schema::DELIVERY, &schema::IDEMPOTENCY, &schema::ACCOUNT] {
        assert!(expiring.contains(table.name), "no row of {} expires", table.name);
    }
    let for_good: Vec<_> = expiring.into_iter().filter(|table| !rows::may_expire(table)).collect();
    assert!(for_good.is_empty(), "rows of {for_good:?} expire; the page says that they live for good");
}

#[tokio::test(start_paused = true)]
async fn each_fault_at_each_call_of_many_writers() {
    run_all(StoreKind::Shared).await;
}

#[tokio::test(start_paused = true)]
async fn each_fault_at_each_call_of_one_writer() {
    run_all(StoreKind::Exclusive).await;
}

fn random_faults(seed: u64) -> RandomFaults {
    RandomFaults(Arc::new(Mutex::new(Dice(seed))))
}

/// Links between two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    /// They share only the store.
    No,
    /// Each forwards commands to the owner of a log, and receives the other's notifications.
    Yes,
}

/// Runs rounds of a mixture on a store, with one core or two; returns the number of forwarded commands.
async fn mixed(store: StoreKind, linked: Linked, rounds: u64, steps: usize) -> usize {
    let mut forwarded = 0;
    let first = seed();
    let rounds = setting("TEST_ROUNDS").unwrap_or(if setting("TEST_SEED").is_some() { 1 } else { rounds });
    let mut base = World::base(store).await;
    alerts::create_alerts(&mut base).await;
    base.rest().await;
    for seed in first..first + rounds {
        println!("{store:?}, linked: {linked:?}: TEST_SEED={seed}");
        let mut one = base.copy();
        let mut two = one.beside();
        one.delays = if store == StoreKind::Shared { Delays::OF_CORES } else { Delays::OF_MIXTURE };
        let links = Links::new(Dice(seed.rotate_left(32)));
        if linked == Linked::Yes {
            one.link(&links, "http://one:1").await;
            two.link(&links, "http://two:1").await;
            // They have read each other's heartbeats before the first process ends.
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        one.set_random_faults(random_faults(seed));
        two.set_random_faults(random_faults(!seed));
        // Each core's client has the alerts of one environment, since an environment may have only three.
        let keys = if seed % 2 == 0 { [TEST_KEY, LIVE_KEY] } else { [LIVE_KEY, TEST_KEY] };
        let alone = mixture::live(&mut one, Dice(!seed), ("one", keys[0]), steps);
        if store == StoreKind::Shared {
            tokio::join!(alone, mixture::live(&mut two, Dice(seed.reverse_bits()), ("two", keys[1]), steps));
            links.calm();
            two.calm().await;
            two.stop();
            one.acknowledged.entries.append(&mut two.acknowledged.entries);
            one.acknowledged.gone.append(&mut two.acknowledged.gone);
            one.acknowledged.webhooks.append(&mut two.acknowledged.webhooks);
            one.acknowledged.alerts.append(&mut two.acknowledged.alerts);
        } else {
            alone.await;
        }
        one.calm().await;
        if linked == Linked::Yes {
            // The core finds the last notifications of the other one, and entries without a notification.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        // The recount demands that rules of this age are judged.
        tokio::time::sleep(Duration::from_secs(61)).await;
        judge(&mut one).await;
        one.stop();
        forwarded += links.forwarded();
    }
    forwarded
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_of_one_writer() {
    mixed(StoreKind::Exclusive, Linked::No, 8, 20).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_on_the_embedded_store() {
    mixed(StoreKind::Embedded, Linked::No, 2, 12).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_of_two_cores() {
    mixed(StoreKind::Shared, Linked::No, 6, 15).await;
}

#[tokio::test(start_paused = true)]
async fn random_faults_in_a_mixture_of_two_linked_cores() {
    let forwarded = mixed(StoreKind::Shared, Linked::Yes, 6, 15).await;
    // One round alone may have had none.
    assert!(
        forwarded > 0 || setting("TEST_SEED").is_some() || setting("TEST_ROUNDS") == Some(1),
        "no core has carried out another's command"
    );
}

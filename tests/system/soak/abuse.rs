//! One client does its worst for ten seconds while another customer reads, follows a stream and signs in. Each kind of
//! exhaustion has its attacks: memory, processor time, connections, calls, disk, and places of queues; by a stranger, a
//! test key or an account.
//!
//! Client and service share the machine. An attack therefore runs on one thread of the lowest priority, which takes no
//! processor time that the service or the customer needs. The key that searches has a plan with high rates: otherwise the
//! rate alone would end the attack, and the other bounds would not be tried. The key that writes has the rate of a free
//! plan.

mod accounts;
mod attacks;
mod target;
mod victim;

use std::{thread, time::Duration};

use futures::future::LocalBoxFuture;
use rustix::process::setpriority_process;
use tokio_util::sync::CancellationToken;

use self::{
    target::Target,
    victim::{ACTIVITIES, Measurement, Victim},
};
use super::overload::allow_connections;
use crate::harness::Service;

/// Time of a measurement, and so of an attack.
const WINDOW: Duration = Duration::from_secs(10);
/// Time in which a new customer opens connections, before anything is measured.
const WARM_UP: Duration = Duration::from_secs(3);
/// Measurements after an attack. The last one ends a minute later, and must be as before.
const MAX_WINDOWS_AFTER: usize = 6;
/// Time that the p99 of reads may grow beside the half: one turn of the scheduler. Where an attack keeps the processors
/// busy, a request waits for such a turn, and a p99 of two milliseconds would double by it.
const READ_ALLOWANCE: Duration = Duration::from_millis(5);
/// Time that the p99 of events may grow beside the half. An event waits for two commits to the disk: the one under way,
/// and its own, which takes the attack's writes along.
const EVENT_ALLOWANCE: Duration = Duration::from_millis(25);
/// Time that the p99 of sign-ins may grow beside the half. It is the slowest of ten: without an attack it is 20 to 75 ms on
/// two processors. One password takes 18 ms of that.
const SIGN_IN_ALLOWANCE: Duration = Duration::from_millis(50);
/// Growth of the resident memory that is allowed during an attack.
const MEMORY_DURING_MIB: u64 = 150;
/// Growth that is allowed a minute later: caches and the allocator keep some.
const MEMORY_AFTER_MIB: u64 = 50;
/// Connections of the attack that opens many.
const CONNECTIONS: u64 = 4_000;
/// The lowest priority of a thread.
const LOWEST_PRIORITY: i32 = 19;

/// One way to harm others.
struct Attack {
    name: &'static str,
    run: fn(Target) -> LocalBoxFuture<'static, ()>,
}

const ATTACKS: [Attack; 11] = [
    Attack { name: "broad searches", run: |target| Box::pin(attacks::broad_searches(target)) },
    Attack { name: "large test theses", run: |target| Box::pin(attacks::large_theses(target)) },
    Attack { name: "wrong keys", run: |target| Box::pin(attacks::wrong_keys(target)) },
    Attack { name: "idle and slow connections", run: |target| Box::pin(attacks::connections(target)) },
    Attack { name: "watches of health", run: |target| Box::pin(attacks::watches(target)) },
    Attack { name: "unfinished calls", run: |target| Box::pin(attacks::unfinished_calls(target)) },
    Attack { name: "wrong passwords, one account", run: |target| Box::pin(accounts::wrong_passwords(target)) },
    Attack {
        name: "wrong passwords, many accounts",
        run: |target| Box::pin(accounts::wrong_passwords_of_many(target)),
    },
    Attack { name: "right password, again and again", run: |target| Box::pin(accounts::right_password(target)) },
    Attack { name: "links for a new password", run: |target| Box::pin(accounts::password_links(target)) },
    Attack { name: "sign-ups", run: |target| Box::pin(accounts::sign_ups(target)) },
];

/// The excesses of a measurement over one before the attack, beside the half and the allowances.
fn excesses(before: &Measurement, later: &Measurement, memory_mib: u64) -> Vec<String> {
    let allowances = [READ_ALLOWANCE, EVENT_ALLOWANCE, SIGN_IN_ALLOWANCE];
    let mut excesses = Vec::new();
    for (index, activity) in ACTIVITIES.iter().enumerate() {
        let (p99, limit) = (later.p99[index], before.p99[index] * 3 / 2 + allowances[index]);
        if p99 > limit {
            excesses.push(format!("{activity}: a p99 of {p99:.1?} is above {limit:.1?}"));
        }
    }
    let limit = before.memory_mib + memory_mib;
    if later.memory_mib > limit {
        excesses.push(format!("memory: {} MiB are above {limit} MiB", later.memory_mib));
    }
    excesses
}

/// Starts a thread that runs an attack until it is stopped.
fn start(attack: &Attack, target: Target, stop: CancellationToken) -> thread::JoinHandle<()> {
    let run = attack.run;
    thread::spawn(move || {
        // On Linux this is the thread's own priority.
        setpriority_process(None, LOWEST_PRIORITY).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(stop.run_until_cancelled(run(target)));
    })
}

fn print_row(name: &str, measurements: [&Measurement; 3]) {
    let mut row = format!("{name:<32}");
    for index in 0..ACTIVITIES.len() {
        let [before, during, after] = measurements.map(|measurement| measurement.p99[index].as_secs_f64() * 1_000.0);
        row += &format!(" | {before:>6.1} {during:>7.1} {after:>6.1}");
    }
    let [before, during, after] = measurements.map(|measurement| measurement.memory_mib);
    println!("{row} | {before:>5} {during:>6} {after:>5}");
}

/// Measures one attack; gives the limits that it broke.
async fn measure(service: &Service, attack: &Attack, target: &Target) -> Vec<String> {
    let mut victim = Victim::start(service).await;
    victim.measure(service, WARM_UP).await;
    let before = victim.measure(service, WINDOW).await;
    let (target, stop) = (target.on(&victim.account), CancellationToken::new());
    let attacking = start(attack, target.clone(), stop.clone());
    let during = victim.measure(service, WINDOW).await;
    let ended_early = attacking.is_finished();
    stop.cancel();
    attacking.join().unwrap();
    assert!(!ended_early, "the attack ended by itself");

    let mut after = victim.measure(service, WINDOW).await;
    for _ in 1..MAX_WINDOWS_AFTER {
        if excesses(&before, &after, MEMORY_AFTER_MIB).is_empty() {
            break;
        }
        after = victim.measure(service, WINDOW).await;
    }
    print_row(attack.name, [&before, &during, &after]);
    println!("  the attack: {}", target.outcomes);
    assert!(!target.outcomes.is_empty(), "the attack did nothing");

    let during = excesses(&before, &during, MEMORY_DURING_MIB);
    let during = during.into_iter().map(|excess| format!("during it, {excess}"));
    let after = excesses(&before, &after, MEMORY_AFTER_MIB);
    let after = after.into_iter().map(|excess| format!("a minute later, {excess}"));
    let failures = victim.end();
    let count = failures.len();
    let failed = failures.first().map(|first| format!("{count} requests of the customer failed, the first: {first}"));
    during.chain(after).chain(failed).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "run by tests/soak"]
async fn one_client_at_its_worst_harms_no_other() {
    let connections = allow_connections(CONNECTIONS);
    let service = Service::embedded(|setup| setup.set("SVC_LOG", "error"));
    let target = Target::prepare(&service, connections).await;
    println!("p99 in milliseconds and most resident memory in MiB: before an attack, during it, and after it");
    let [read, event, sign_in] = ACTIVITIES;
    println!("{:<32} | {read:<21} | {event:<21} | {sign_in:<21} | memory", "attack");
    let mut broken = Vec::new();
    for attack in &ATTACKS {
        for limit in measure(&service, attack, &target).await {
            println!("  {limit}");
            broken.push(format!("{}: {limit}", attack.name));
        }
    }
    service.say_troubles();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

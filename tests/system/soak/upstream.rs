//! A service follows an upstream that does everything wrong, while the core that follows it is killed with -9 again and
//! again: at the end store, search, counts, events and upstream agree, row by row.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::watch::Watch;
use crate::harness::{Dice, Following, Setup, Store, Upstream, World, nodes, text};

const BEGINNING: World = World { profiles: 200, tokens: 40, theses: 0 };
/// Theses a second, with all that happens beside them.
const RATE: f64 = 20.0;
const STREAMS: usize = 2;
/// Seconds between two kills, between two changes of the faults, and of a feed that is silent: it is dead after 30.
const KILL: [u64; 2] = [5, 10];
const CHANGE: [u64; 2] = [2, 6];
const SILENCE: [u64; 2] = [33, 38];
/// One in this number of changes makes the feed silent.
const SILENT: u64 = 20;
/// Longest wait at the end for all that is owed.
const REST: Duration = Duration::from_secs(180);
/// How long the ordinary tests run it.
const SHORT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn for_a_short_time_on_the_embedded_store() {
    let live = start(&Store::Embedded).await;
    the_truth_is_kept(live, SHORT, false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn the_truth_is_kept_in_one_process_on_the_embedded_store() {
    let live = start(&Store::Embedded).await;
    the_truth_is_kept(live, super::time(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn the_truth_is_kept_in_two_of_each_role_on_a_cluster() {
    let nodes = nodes().expect("TEST_SCYLLA_NODES");
    let live = Following::of_replicas(&nodes, Upstream::start(BEGINNING).await, false, settings).await;
    the_truth_is_kept(live, super::time(), true).await;
}

fn settings(setup: Setup) -> Setup {
    setup.set("SVC_UPSTREAM_REFRESH_SECONDS", "1")
}

async fn start(store: &Store) -> Following {
    Following::start(store, Upstream::start(BEGINNING).await, settings).await
}

/// Faults for the next few seconds: each one in a third of all cases, and of any strength.
fn faults(dice: &mut Dice) -> Value {
    let mut share = |most: f64| {
        let parts = dice.roll(300);
        // Above 100 there is none.
        if parts <= 100 { most * f64::from(u32::try_from(parts).unwrap()) / 100.0 } else { 0.0 }
    };
    json!({
        "latency_ms": if share(1.0) > 0.5 { 300 } else { 0 },
        "error_share": share(1.0),
        "error_status": if share(1.0) > 0.0 { 429 } else { 503 },
        "retry_after_s": if share(1.0) > 0.0 { json!(2) } else { Value::Null },
        "cut_share": share(0.5),
        "disconnect_share": share(0.1),
        "duplicate_share": share(0.5),
        "disorder_share": share(0.5),
        "garbage_share": share(0.5),
        "omit_share": share(0.2),
        "gap_share": share(0.05),
        "lose_positions": share(1.0) > 0.0,
        "refuse_feed": share(1.0) > 0.5,
        "silent": false,
    })
}

/// A time within these seconds.
fn within(dice: &mut Dice, [least, most]: [u64; 2]) -> Duration {
    Duration::from_millis(least * 1_000 + dice.roll((most - least) * 1_000))
}

/// The processes that hold a core.
fn cores(live: &Following) -> Vec<usize> {
    let processes = live.service.processes.iter().enumerate();
    let cores = processes.filter(|(_, process)| matches!(text(&process.ready, "role"), "all" | "core"));
    cores.map(|(index, _)| index).collect()
}

async fn the_truth_is_kept(mut live: Following, time: Duration, may_be_silent: bool) {
    let mut dice = Dice::new();
    let mut watches = Vec::new();
    for _ in 0..STREAMS {
        watches.push(Watch::start(&live.client).await);
    }
    live.post(&json!({"text": "the first of all"})).await;
    for watch in &watches {
        watch.first().await;
    }
    live.upstream.rate(RATE).await;
    let cores = cores(&live);
    let (started, mut kills, mut changes) = (Instant::now(), 0, 0);
    let (mut kill_at, mut change_at) = (started + within(&mut dice, KILL), started);
    while started.elapsed() < time {
        if Instant::now() >= change_at {
            changes += 1;
            let is_silent = may_be_silent && dice.roll(SILENT) == 0;
            let faults = if is_silent { json!({"silent": true}) } else { faults(&mut dice) };
            live.upstream.faults(&faults).await;
            change_at = Instant::now() + within(&mut dice, if is_silent { SILENCE } else { CHANGE });
        }
        if Instant::now() >= kill_at {
            kills += 1;
            let index = cores[dice.below(cores.len())];
            live.service.kill_and_start(index).await;
            say(&live, started, &format!("kill {kills}, process {index}")).await;
            kill_at = Instant::now() + within(&mut dice, KILL);
        }
        sleep(Duration::from_millis(50)).await;
    }
    live.upstream.calm().await;
    // What was omitted is told by nothing else.
    live.upstream.tell_a_gap_of_everything().await;
    live.service.is_ready().await;
    live.service.say_troubles();
    say(&live, started, &format!("{changes} changes of the faults, {kills} kills; calm")).await;
    let calm = Instant::now();
    live.agrees(REST).await;
    let searched = live.finds_all().await;
    println!("all agrees {:?} after the calm; {searched} theses were searched for", calm.elapsed());
    let history = live.client.all("/v1/events?types=thesis.created&limit=100").await;
    let events: Vec<String> = history.iter().rev().map(|event| text(event, "id").to_owned()).collect();
    for watch in watches {
        watch.saw(&events, REST).await;
    }
    live.is_up().await;
    assert!(kills > 0 && changes > 0, "{kills} kills, {changes} changes");
    live.has_one_connection().await;
}

async fn say(live: &Following, started: Instant, what: &str) {
    let state = live.upstream.state().await;
    let [theses, deleted, frames, opened] = ["theses", "deleted", "frames", "feed_opened"].map(|name| &state[name]);
    println!(
        "{:>4} s: {what}; {theses} theses, {deleted} deleted, {frames} frames, the feed opened {opened} times",
        started.elapsed().as_secs()
    );
}

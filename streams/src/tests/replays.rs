//! Tests of replays: their events, pace and end, and that they continue live without a gap.

use std::{sync::atomic::Ordering, time::Duration};

use proptest::prelude::*;
use thesis_proto::{time::from_millis, v1};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Client, FakeCore, time_of};
use crate::Hub;

/// Opens a replay of the entries from `from` to `to`.
async fn replay(hub: &Hub, from: u64, to: Option<u64>, speed: Option<f64>, tokens: &[&str]) -> Client {
    let time = |position| from_millis(time_of(position));
    let (from, to) = (Some(time(from)), to.map(time));
    Client::request(hub, v1::OpenRequest { from, to, speed, ..v1::OpenRequest::default() }, tokens).await
}

impl Client {
    /// Reads a replay to its end. Returns each event with the time since the beginning.
    async fn read_to_end(&mut self) -> Vec<(u64, Duration)> {
        let (began, mut times) = (Instant::now(), Vec::new());
        while !self.subscription.is_complete() {
            self.more().await.unwrap();
            let before = self.got.len();
            self.read(usize::MAX / 2);
            times.extend(self.got[before..].iter().map(|position| (*position, began.elapsed())));
        }
        times
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_ends_at_its_bound_whatever_the_filter() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    core.log("sandbox").append(&[Some("$A"), None, Some("$B"), None].repeat(10));
    for (from, to, tokens, expected) in [
        (5, 13, vec!["$A"], vec![5, 9, 13]),
        (5, 12, vec!["$A"], vec![5, 9]),
        (1, 40, vec!["$B"], (3..=40).step_by(4).collect()),
        (6, 6, vec![], vec![]),
        (39, 40, vec![], vec![39]),
    ] {
        let mut client = replay(&hub, from, Some(to), None, &tokens).await;
        client.read_to_end().await;
        assert_eq!(client.got, expected, "{from} to {to}");
        // The cursor is at the end, so that a client that resumes finds nothing more.
        let end = Client::open(&hub, Some(to), &[]).await;
        assert_eq!(client.subscription.cursor(), end.subscription.cursor());
    }
}

#[tokio::test(start_paused = true)]
async fn a_paced_replay_has_the_distances_of_the_log() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let mut entries = vec![None; 600];
    for position in [10_usize, 11, 14, 300, 301] {
        entries[position - 1] = Some("$A");
    }
    core.log("sandbox").append(&entries);
    for (speed, second) in [(1.0, 1_000), (10.0, 100), (0.5, 2_000)] {
        let mut client = replay(&hub, 10, Some(400), Some(speed), &["$A"]).await;
        let times = client.read_to_end().await;
        assert_eq!(client.got, [10, 11, 14, 300, 301], "{speed}");
        for (position, came) in times {
            // The fake core's log begins a position before the bound.
            let due = Duration::from_millis((position - 9) * second);
            assert!(came >= due && came < due + Duration::from_millis(50), "{position} came after {came:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_cursor_of_a_paced_replay_does_not_run_ahead() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let mut entries = vec![None; 60];
    entries[9] = Some("$A");
    entries[49] = Some("$A");
    core.log("sandbox").append(&entries);
    let mut client = replay(&hub, 10, None, Some(1.0), &["$A"]).await;
    let at = async |position: u64| Client::open(&hub, Some(position), &[]).await.subscription.cursor();
    while client.got.is_empty() {
        client.more().await.unwrap();
        client.read(usize::MAX / 2);
    }
    for _ in 0..20 {
        let _polled = futures::poll!(Box::pin(client.more()));
        tokio::task::yield_now().await;
        client.read(usize::MAX / 2);
    }
    assert_eq!((client.got.as_slice(), client.subscription.cursor()), (&[10][..], at(10).await));
    while client.got.len() < 2 {
        client.more().await.unwrap();
        client.read(usize::MAX / 2);
    }
    assert_eq!(client.subscription.cursor(), at(50).await);
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_replay_is_free_once_it_is_live() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    let log = core.log("sandbox");
    log.append(&[Some("$A"); 20]);
    let mut client = replay(&hub, 1, None, None, &[]).await;
    let mut other = replay(&hub, 1, None, Some(1.0), &[]).await;
    client.drain().await;
    client.read(1);
    sleep(Duration::from_secs(1)).await;
    // The stream has the first id, its replay the second.
    assert_eq!(*core.closed.borrow(), [2]);
    log.append(&[Some("$A")]);
    client.more().await.unwrap();
    client.drain().await;
    assert_eq!(client.got, (1..=21).collect::<Vec<_>>());
    // A replay that never catches up keeps its slot.
    other.read(usize::MAX / 2);
    drop(other);
    sleep(Duration::from_secs(1)).await;
    let mut closed = core.closed.borrow().clone();
    closed.sort_unstable();
    assert_eq!(closed, [2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn replays_of_one_bound_read_the_log_once() {
    let core = FakeCore::new(&["sandbox"], 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    core.log("sandbox").append(&[Some("$A"); 40]);
    for _ in 0..3 {
        let mut client = replay(&hub, 1, Some(40), None, &[]).await;
        client.read_to_end().await;
        assert_eq!(client.got, (1..=40).collect::<Vec<_>>());
    }
    assert_eq!(core.reads.load(Ordering::Relaxed), 10, "ten pages of four entries");
}

/// Replays while the log grows, and reads until the log has stopped growing.
async fn hand_over(appends: Vec<u8>, reads: Vec<u8>, page: u64, speed: Option<f64>) {
    let core = FakeCore::new(&["sandbox"], page, 5);
    let shutdown = CancellationToken::new();
    let hub = core.hub(shutdown.clone());
    let log = core.log("sandbox");
    log.append(&[Some("$A"); 30]);
    let mut client = replay(&hub, 1, None, speed, &[]).await;
    let mut reads = reads.into_iter().cycle();
    for entries in appends {
        log.append(&vec![Some("$A"); entries.into()]);
        client.read(reads.next().unwrap_or(1).into());
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    }
    while client.got.len() < usize::try_from(log.head()).unwrap() {
        client.more().await.unwrap();
        client.read(usize::MAX / 2);
    }
    assert_eq!(client.got, (1..=log.head()).collect::<Vec<_>>());
    shutdown.cancel();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_missed_or_doubled_when_a_replay_becomes_live(
        appends in prop::collection::vec(1_u8..12, 1..30),
        reads in prop::collection::vec(1_u8..20, 1..10),
        page in 1_u64..7,
        speed in prop::option::of(2.0..100.0_f64),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(hand_over(appends, reads, page, speed));
    }
}

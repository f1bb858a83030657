//! Derived events in the append of their theses.

use std::sync::atomic::{AtomicI64, Ordering};

use thesis_net::clock::Clock;

use super::*;
use crate::tests::harness::{NOON, ids, settings};

/// A clock that each read may move.
struct SteppingClock {
    now: AtomicI64,
    step: AtomicI64,
}

impl Clock for SteppingClock {
    fn now_ms(&self) -> i64 {
        self.now.fetch_add(self.step.load(Ordering::SeqCst), Ordering::SeqCst)
    }
}

/// The last day's theses that the events of a token counted, or none for other entries.
fn counted(entry: &Entry) -> Option<i64> {
    match &entry.kind {
        Some(Kind::TokenActivity(activity)) => Some(activity.thesis_count_24h),
        _ => None,
    }
}

#[tokio::test]
async fn derived_events_in_the_append_of_several_theses_count_all_of_them() {
    let clock = Arc::new(SteppingClock { now: AtomicI64::new(NOON), step: AtomicI64::new(0) });
    let backend = SharedMemory::without_threads();
    let core = Core::start(backend, settings(), clock.clone(), ids(1)).await.unwrap();
    let mut joined = 0;
    for age in DERIVE_EVERY_MS - 3..=DERIVE_EVERY_MS + 3 {
        let (shared, peers) = (Arc::clone(&core.shared), Arc::clone(&core.peers));
        let fanned_out = watch::Sender::new(0);
        let writer = Writer::new(shared, peers, Dataset::Live, watch::Sender::new(0), fanned_out.subscribe());
        let created_at = clock_now(&core) - age;
        // Both are on one token.
        let mut drafted: Vec<Entry> = [2, 4]
            .map(|number| {
                let mut new = new_thesis(&Dataset::Live, number);
                new.thesis.created_at = created_at;
                Entry { created_at, ..entry(&core, format!("thesis {number}"), created(&new)) }
            })
            .into();
        let token = new_thesis(&Dataset::Live, 2).token.id;
        writer.projector.theses().day(&Dataset::Live, &token, clock_now(&core)).await.unwrap();
        // The events of a thesis of this age are due at once at one read of the clock, and not at the next one.
        clock.step.store(1, Ordering::SeqCst);
        writer.add_derived(&mut drafted, &mut writer.space(0));
        clock.step.store(0, Ordering::SeqCst);
        let counts: Vec<i64> = drafted.iter().filter_map(counted).collect();
        assert!(counts.is_empty() || counts == [2], "at age {age}: {counts:?}");
        joined += counts.len();
    }
    assert!((1..7).contains(&joined), "{joined}");
}

#[tokio::test(start_paused = true)]
async fn cores_that_race_with_derived_events_in_their_appends_count_every_thesis() {
    let clock = ManualClock::new();
    let backend = SharedMemory::without_threads();
    let cores = [core(backend.clone(), &clock, 1).await, core(backend.clone(), &clock, 2).await];
    let post = async |core: usize, number: u32| {
        // All are by one author on one token.
        let mut new = new_thesis(&Dataset::Live, number * 6);
        new.thesis.created_at = clock_now(&cores[core]);
        cores[core].datasets.create_here(&Dataset::Live, new).await.unwrap();
    };
    let derive = async || {
        clock.advance(2 * DERIVE_EVERY_MS);
        tokio::time::sleep(Duration::from_secs(10)).await;
    };
    let length = async || entries(&cores[0], &Dataset::Live).await.len();
    for core in [0, 1] {
        let number = u32::try_from(core).unwrap() * 2;
        post(core, number).await;
        derive().await;
        let before = length().await;
        post(core, number + 1).await;
        assert_eq!(length().await, before + 3, "the events are not in the append of core {core}");
        derive().await;
    }
    // The first core still has its own count in memory, and loses with it.
    post(0, 4).await;
    derive().await;
    for number in 5..10 {
        tokio::join!(post(0, 2 * number), post(1, 2 * number + 1));
        derive().await;
    }
    derive().await;
    let (mut theses, mut last) = (0, 0);
    for SequencedEntry { seq, entry } in entries(&cores[0], &Dataset::Live).await {
        theses += i64::from(matches!(entry.kind, Some(Kind::ThesisCreated(_))));
        if let Some(count) = counted(&entry) {
            assert_eq!(count, theses, "entry {seq}");
            last = count;
        }
    }
    assert_eq!((theses, last), (15, 15));
}

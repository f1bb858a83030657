//! Several cores over one store.

use std::sync::{OnceLock, atomic::AtomicUsize};

use super::*;
use crate::tests::harness::{ManualClock, NOON, SharedMemory};

fn member(store: &Arc<SharedMemory>, clock: &Arc<ManualClock>, replica: &str) -> Arc<Members> {
    Members::new(store.clone(), clock.clone(), replica.to_owned(), format!("http://{replica}"))
}

async fn beat(members: &[&Arc<Members>]) {
    for member in members {
        member.send_heartbeat().await.unwrap();
    }
    for member in members {
        member.read_beats(std::iter::empty()).await.unwrap();
    }
}

fn owners(member: &Arc<Members>) -> Vec<String> {
    member.others().borrow().iter().filter(|other| other.owns).map(|other| other.replica.clone()).collect()
}

#[test]
fn a_core_ends_its_streams_before_others_stop_counting_them() {
    const { assert!(LEASE_MS + POLL_INTERVAL.as_millis() as i64 * 2 <= GONE_MS - 1_000) };
}

#[tokio::test]
async fn a_core_owns_while_it_is_seen_to_beat() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let (one, other) = (member(&store, &clock, "rep_a"), member(&store, &clock, "rep_b"));
    beat(&[&one, &other]).await;
    assert!(owners(&one).is_empty(), "a beat of unknown age");
    clock.advance(1_000);
    beat(&[&one, &other]).await;
    let (replica, address) = ("rep_b".to_owned(), "http://rep_b".to_owned());
    let other_core = OtherCore { replica, address, owns: true, search: None };
    assert_eq!(*one.others().borrow(), [other_core]);
    assert_eq!(owners(&other), ["rep_a"]);
    clock.advance(OWNER_MS - 1);
    beat(&[&one]).await;
    assert_eq!(owners(&one), ["rep_b"]);
    clock.advance(1);
    beat(&[&one]).await;
    assert!(owners(&one).is_empty() && one.may_live("rep_b"), "it owns nothing; its streams' places count");
    clock.advance(GONE_MS - OWNER_MS);
    assert!(!one.may_live("rep_b"));
    beat(&[&other, &one]).await;
    assert_eq!(owners(&one), ["rep_b"]);
    other.leave().await;
    beat(&[&one]).await;
    assert!(owners(&one).is_empty() && !one.may_live("rep_b"));
}

#[tokio::test]
async fn cores_with_workers_are_known() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let (one, other) = (member(&store, &clock, "rep_a"), member(&store, &clock, "rep_b"));
    other.set_handing_out(true);
    for _ in 0..2 {
        clock.advance(1_000);
        beat(&[&one, &other]).await;
    }
    assert_eq!(one.handing_out(), ["rep_b"]);
    one.set_handing_out(true);
    other.set_handing_out(false);
    beat(&[&one, &other]).await;
    assert_eq!(one.handing_out(), ["rep_a"]);
    assert_eq!(other.handing_out(), ["rep_a"]);
}

#[tokio::test]
async fn what_a_core_holds_is_free_once_its_heartbeats_have_lapsed() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let (one, other) = (member(&store, &clock, "rep_a"), member(&store, &clock, "rep_b"));
    beat(&[&one, &other]).await;
    let (term, cores) = (one.term(), ["rep_a".to_owned()]);
    assert!(one.holds(&term, NOON + LEASE_MS - 1) && !one.holds(&term, NOON + LEASE_MS));
    clock.advance(GONE_MS - 1);
    assert!(other.lapsed(&cores).await.unwrap().is_empty());
    clock.advance(1);
    assert_eq!(other.lapsed(&cores).await.unwrap(), cores);
    // A core that starts now need not wait again.
    assert_eq!(member(&store, &clock, "rep_c").lapsed(&cores).await.unwrap(), cores);
    // The heartbeats go on, but another core may have taken its shards.
    one.send_heartbeat().await.unwrap();
    assert!(!one.holds(&term, NOON + GONE_MS) && one.holds(&one.term(), NOON + GONE_MS));
    assert!(other.lapsed(&cores).await.unwrap().is_empty());
}

/// A clock during whose last reading another caller comes with the next millisecond, unless the state is locked.
#[derive(Default)]
struct RacingClock {
    readings: AtomicUsize,
    members: OnceLock<(Arc<Members>, CancellationToken)>,
    was_refused: AtomicBool,
}

/// The readings of this clock: the first heartbeat is sent and arrives, the second one is sent, and arrives when the
/// first one has nearly lapsed.
const READINGS: [i64; 4] = [NOON, NOON, NOON + 1_000, NOON + LEASE_MS - 1];

impl Clock for RacingClock {
    fn now_ms(&self) -> i64 {
        let number = self.readings.fetch_add(1, Ordering::SeqCst);
        if number == READINGS.len() - 1
            && let Some((members, term)) = self.members.get()
            && !members.state.is_locked()
        {
            self.was_refused.store(!members.holds(term, NOON + LEASE_MS), Ordering::SeqCst);
        }
        READINGS[number]
    }
}

#[tokio::test]
async fn a_term_in_which_something_was_refused_does_not_go_on() {
    let (clock, store) = (Arc::new(RacingClock::default()), SharedMemory::new(&ManualClock::new()));
    let one = Members::new(store, clock.clone(), "rep_a".to_owned(), String::new());
    one.send_heartbeat().await.unwrap();
    let term = one.term();
    assert!(clock.members.set((Arc::clone(&one), term.clone())).is_ok());
    one.send_heartbeat().await.unwrap();
    assert_eq!(clock.readings.load(Ordering::SeqCst), READINGS.len());
    assert!(!clock.was_refused.load(Ordering::SeqCst) || term.is_cancelled());
}

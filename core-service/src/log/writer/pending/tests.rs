//! When derived events are due, and how far the checkpoint moves.

use super::*;
use crate::{
    domain::entry::{Entry, ThesisCreated, TokenActivity},
    tests::harness::{ManualClock, NOON, core, memory},
};

async fn pending(clock: &Arc<ManualClock>) -> PendingDerivations {
    let core = core(memory(clock), clock, 1).await;
    PendingDerivations::new(Arc::clone(&core.shared), "project/prj_1".to_owned())
}

fn entry(seq: u64, created_at: i64, kind: Kind) -> SequencedEntry {
    SequencedEntry { seq, entry: Entry { created_at, kind: Some(kind), ..Entry::default() } }
}

fn token(id: &str) -> Token {
    Token { id: id.to_owned(), ..Token::default() }
}

fn thesis(seq: u64, on: &str, at: i64) -> SequencedEntry {
    entry(seq, at, Kind::ThesisCreated(ThesisCreated { token: token(on), ..ThesisCreated::default() }))
}

fn activity(seq: u64, of: &str, at: i64) -> SequencedEntry {
    entry(seq, at, Kind::TokenActivity(TokenActivity { token: token(of), ..TokenActivity::default() }))
}

#[tokio::test]
async fn events_are_due_at_once_but_not_within_five_seconds_of_the_last_nor_for_a_backlog() {
    let clock = ManualClock::new();
    let mut pending = pending(&clock).await;
    pending.apply_entries(&[activity(1, "busy", NOON - 2_000)], 0);
    let theses = [("busy", NOON), ("new", NOON), ("recent", NOON - 5_000), ("old", NOON - 5_001)];
    for (seq, (on, at)) in (2..).zip(theses) {
        pending.apply_entries(&[thesis(seq, on, at)], 0);
    }
    pending.apply_entries(&[thesis(6, "of another core", NOON)], 1_000);
    for (now_ms, number) in [(-1, 0), (0, 2), (999, 2), (1_000, 3), (2_999, 3), (3_000, 4), (4_999, 4), (5_000, 5)] {
        assert_eq!(pending.ready_tokens(NOON + now_ms, 9).len(), number, "after {now_ms} ms");
    }
    assert_eq!(pending.ready_tokens(NOON, 1), ["new"]);
    pending.postpone("new", NOON + 7);
    pending.postpone("old", NOON + 7);
    assert_eq!(pending.ready_tokens(NOON, 9), ["recent"]);
    assert!(!pending.ready_tokens(NOON + 4_999, 9).contains(&"old".to_owned()));
}

#[tokio::test]
async fn the_time_until_events_are_due_ends_with_them() {
    let clock = ManualClock::new();
    let mut pending = pending(&clock).await;
    assert_eq!(pending.time_until_due(), None);
    pending.apply_entries(&[thesis(1, "a", NOON)], 50);
    for (later, left) in [(0, 50), (30, 20), (20, 0), (19, 0)] {
        clock.advance(later);
        assert_eq!(pending.time_until_due(), Some(Duration::from_millis(left)));
    }
    let by = Duration::from_millis(20);
    assert!(!pending.is_overdue(by));
    clock.advance(1);
    assert!(pending.is_overdue(by));
}

#[tokio::test]
async fn only_a_token_whose_events_may_follow_now_gets_them_with_its_thesis() {
    let mut pending = pending(&ManualClock::new()).await;
    let derived = [("waits", NOON - 4_999), ("may", NOON - 5_000)];
    pending.apply_entries(&derived.map(|(of, at)| activity(1, of, at)), 0);
    pending.apply_entries(&[thesis(2, "pending", NOON)], 0);
    for (token, created_at, is_due) in [
        ("unknown", NOON, true),
        ("unknown", NOON - 5_000, true),
        ("unknown", NOON - 5_001, false),
        ("pending", NOON, false),
        ("waits", NOON, false),
        ("may", NOON, true),
    ] {
        assert_eq!(pending.is_due_at_once(token, created_at, NOON), is_due, "{token}");
    }
}

#[tokio::test]
async fn the_checkpoint_stays_before_the_oldest_thesis_without_its_events() {
    let mut pending = pending(&ManualClock::new()).await;
    assert_eq!(pending.settled(9), 9);
    pending.apply_entries(&[thesis(3, "a", NOON), thesis(4, "a", NOON), thesis(7, "b", NOON)], 0);
    assert_eq!(pending.settled(9), 2);
    let next = |more: &[SequencedEntry]| [&[thesis(8, "c", NOON), activity(9, "a", NOON)][..], more].concat();
    for (entries, settled) in [
        (vec![thesis(8, "c", NOON)], None),
        (next(&[]), Some(6)),
        (next(&[activity(10, "b", NOON)]), Some(7)),
        (next(&[activity(10, "b", NOON), activity(11, "c", NOON)]), Some(11)),
        (next(&[activity(10, "b", NOON), activity(11, "c", NOON), thesis(12, "c", NOON)]), Some(11)),
    ] {
        assert_eq!(pending.settled_with(&entries), settled);
    }
    pending.note_stored(6);
    assert_eq!(pending.settled_with(&next(&[])), None, "it does not move");
    assert!(pending.store_by().is_none());
    pending.note_not_stored(9);
    assert!(pending.store_by().is_some());
}

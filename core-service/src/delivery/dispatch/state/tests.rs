//! The memory of a dispatcher with one worker, whose store is not needed.

use bytes::Bytes;

use super::*;
use crate::tests::harness::NOON;

/// A delivery that is due at noon.
fn pending(webhook: &str, number: usize) -> PendingDelivery {
    let (id, webhook_id) = (format!("del_{webhook}_{number}"), webhook.to_owned());
    let delivery = Delivery { id, webhook_id, next_attempt_at: Some(NOON), ..Delivery::default() };
    PendingDelivery { delivery, body: Bytes::new(), erasure: 0, epoch: 1 }
}

fn worker(capacity: usize, out: usize, late: usize) -> Worker {
    Worker { claims: mpsc::channel(1).0, capacity, out, late }
}

fn state(capacity: usize) -> State {
    State { workers: BTreeMap::from([(1, worker(capacity, 0, 0))]), ..State::default() }
}

fn add(state: &mut State, webhook: &str, number: usize) {
    (0..number).for_each(|number| state.add_ready(pending(webhook, number), NOON));
}

fn make_slow(state: &mut State, webhook: &str) {
    (0..3).for_each(|number| state.note_outcome(webhook, &format!("del_earlier_{number}"), 1, false));
}

fn send(state: &mut State, pending: PendingDelivery) -> String {
    let webhook = pending.delivery.webhook_id.clone();
    state.send(1, Arc::new(pending.delivery), Arc::default(), 1, (NOON, NOON + 15_000));
    webhook
}

/// Sends all that the healthy lane gives. Returns the webhooks, in order.
fn send_healthy(state: &mut State) -> Vec<String> {
    let mut webhooks = Vec::new();
    while let Some(pending) = state.next_healthy(NOON) {
        webhooks.push(send(state, pending));
    }
    webhooks
}

#[test]
fn a_late_attempt_gives_its_place_once() {
    for (out, late, room) in [(0, 0, 4), (4, 0, 0), (4, 3, 3), (7, 5, 1), (8, 8, 0), (9, 9, 0)] {
        assert_eq!(worker(4, out, late).room(), room, "{out} out, {late} late");
    }
    let mut state = state(1);
    add(&mut state, "wh_1", 1);
    assert_eq!((send_healthy(&mut state), state.room()), (vec!["wh_1".to_owned()], 0));
    for (later, room) in [(300, 0), (301, 1), (302, 1)] {
        state.note_late(NOON + later);
        assert_eq!(state.room(), room, "{later} ms later");
    }
    assert!(state.remove_attempt("del_wh_1_0", 2, NOON).is_none(), "another attempt");
    assert!(state.remove_attempt("del_wh_1_0", 1, NOON).is_some());
    let worker = &state.workers[&1];
    assert_eq!((worker.out, worker.late, state.is_empty()), (0, 0, true));
}

#[test]
fn one_webhook_gets_three_quarters_of_the_places_and_several_share_them() {
    let mut lone = state(5);
    add(&mut lone, "a", 9);
    assert_eq!(send_healthy(&mut lone).len(), 4);
    let mut smaller = state(3);
    add(&mut smaller, "a", 9);
    assert_eq!(send_healthy(&mut smaller).len(), 3);
    let mut both = state(5);
    add(&mut both, "a", 9);
    add(&mut both, "b", 9);
    // The last turns are those of one webhook alone.
    assert_eq!(send_healthy(&mut both), ["a", "b", "a", "b", "b", "b"]);
}

#[test]
fn slow_webhooks_share_a_quarter_of_the_places_one_attempt_a_turn() {
    let mut state = state(8);
    for webhook in ["a", "b", "c"] {
        make_slow(&mut state, webhook);
        add(&mut state, webhook, 2);
    }
    assert!(send_healthy(&mut state).is_empty());
    let round = |state: &mut State| -> Vec<String> {
        let round = state.slow_round(NOON);
        round.into_iter().map(|pending| send(state, pending)).collect()
    };
    assert_eq!(round(&mut state), ["a", "b"]);
    assert!(round(&mut state).is_empty(), "the lane is full");
    assert!(state.remove_attempt("del_a_0", 1, NOON).is_some());
    assert_eq!(round(&mut state), ["c"]);
}

#[test]
fn a_small_worker_has_one_slow_place() {
    let mut state = state(3);
    make_slow(&mut state, "a");
    add(&mut state, "a", 2);
    assert_eq!(state.slow_round(NOON).len(), 1);
}

#[test]
fn what_memory_cannot_hold_is_read_from_the_queue_once_little_is_ready() {
    let mut state = state(1);
    let webhook: Arc<str> = "a".into();
    add(&mut state, "a", MAX_READY_PER_WEBHOOK + 1);
    assert_eq!(state.endpoints[&webhook].ready.len(), 256);
    add(&mut state, "a", 1);
    assert_eq!(state.endpoints[&webhook].ready.len(), 256, "it is known");
    while state.endpoints[&webhook].ready.len() > READY_LOW {
        assert!(state.take_ready(&webhook, NOON).is_some());
    }
    assert_eq!(state.next_read(), None);
    assert!(state.take_ready(&webhook, NOON).is_some());
    assert_eq!(state.next_read(), Some((Arc::clone(&webhook), ((NOON, String::new()), i64::MAX))));
    assert_eq!(state.next_read(), None, "it is read");
}

#[test]
fn each_webhook_has_some_room_even_if_memory_is_full() {
    for (others, held) in [(MAX_READY - 65, 65), (MAX_READY - 64, 64)] {
        let mut state = state(1);
        state.ready.extend((0..others).map(|number| number.to_string()));
        add(&mut state, "a", 70);
        assert_eq!(state.endpoints["a"].ready.len(), held, "{others} others");
    }
}

#[test]
fn a_due_time_that_has_come_is_read_at_once() {
    let mut state = State::default();
    let (now, later): (Arc<str>, Arc<str>) = ("now".into(), "later".into());
    state.expect(&now, NOON, NOON);
    state.expect(&later, NOON + 1, NOON);
    state.read_due(NOON);
    assert_eq!(state.next_read(), Some((now, ((NOON, String::new()), i64::MAX))));
    assert_eq!(state.next_read(), None);
    state.read_due(NOON + 1);
    assert_eq!(state.next_read(), Some((later, ((NOON + 1, String::new()), i64::MAX))));
}

#[test]
fn an_endpoint_is_forgotten_once_it_is_idle_unless_its_last_attempt_failed() {
    for (succeeded, remembered) in [(true, false), (false, true)] {
        let mut state = state(4);
        add(&mut state, "a", 1);
        assert_eq!(send_healthy(&mut state), ["a"]);
        assert_eq!(state.firsts().get("a"), Some(&NOON));
        state.note_outcome("a", "del_a_0", 1, succeeded);
        assert!(state.remove_attempt("del_a_0", 1, NOON).is_some());
        assert_eq!((state.remembers("a"), state.firsts().len()), (remembered, 0));
        state.forget_deleted(|_| false);
        assert!(!state.remembers("a"));
    }
}

#[test]
fn the_least_loaded_worker_with_room_is_next() {
    let workers = BTreeMap::from([(1, worker(4, 3, 0)), (2, worker(9, 2, 0)), (3, worker(1, 1, 0))]);
    let mut state = State { workers, ..State::default() };
    assert_eq!(state.least_loaded().map(|(id, _)| id), Some(2));
    assert_eq!((state.capacity(), state.room()), (14, 8));
    state.workers.remove(&2);
    assert_eq!(state.least_loaded().map(|(id, _)| id), Some(1));
    state.workers.remove(&1);
    assert!(state.least_loaded().is_none());
}

//! The times of a ticket, and who holds it.

use super::*;
use crate::{
    access::{gate::RequestMeta, open_streams::HeldStream},
    domain::operation::Operation,
    tests::harness::{ManualClock, NOON, TEST_KEY, core, memory, shared_memory},
};

fn call(core: &Arc<Core>) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {TEST_KEY}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, Operation::CreateStreamTicket).map_err(|refused| refused.error).unwrap()
}

async fn find(core: &Core, text: &str) -> Option<FoundTicket> {
    find_ticket(core, text).await.unwrap()
}

#[tokio::test]
async fn a_ticket_is_used_within_a_minute_and_again_after_five_away() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let call = call(&core);
    let ticket = create_ticket(&core, &call, "seed").await.unwrap();
    let again = create_ticket(&core, &call, "seed").await.unwrap();
    assert_eq!(ticket.ticket, again.ticket, "a repeat names the same ticket");
    let text = ticket.ticket;
    assert!(find(&core, "tkt_unknown").await.is_none());
    clock.advance(FIRST_USE_MS);
    let found = find(&core, &text).await.unwrap();
    assert_eq!(found.ticket.key_id, call.caller.key.id);
    clock.advance(1);
    assert!(find(&core, &text).await.is_none());
    drop(found);
    let text = create_ticket(&core, &self::call(&core), "other seed").await.unwrap().ticket;
    let (found, same) = (find(&core, &text).await, find(&core, &text).await);
    let hash = core.shared.keys.ticket_hash(&text);
    assert!(use_ticket(&core, found.unwrap(), "s", 1).await.unwrap());
    assert!(use_ticket(&core, same.unwrap(), "s", 2).await.unwrap(), "of two at once the last one counts");
    clock.advance(AWAY_MS);
    note_closed(&core, "s", vec![(hash.clone(), 2)]).await;
    clock.advance(AWAY_MS);
    note_closed(&core, "s", vec![(hash, 1)]).await;
    assert!(find(&core, &text).await.is_some());
    clock.advance(1);
    assert!(find(&core, &text).await.is_none(), "another connection does not hold it");
}

#[tokio::test]
async fn a_reopening_at_another_core_ends_the_old_connection() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let (one, other) = (core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await);
    let text = create_ticket(&one, &call(&one), "seed").await.unwrap().ticket;
    let found = find(&one, &text).await.unwrap();
    let (_session, mut ends) = one.open_streams.begin("s1");
    let slot = one.slots.take_slot("prj_1", 9).await.unwrap();
    let (key_id, ticket) = (found.ticket.key_id.as_str().into(), Some(found.hash.clone()));
    assert!(one.open_streams.add("s1", 5, HeldStream { key_id, expires_at: None, slot, ticket }).is_ok());
    assert!(use_ticket(&one, found, "s1", 5).await.unwrap());
    let found = find(&other, &text).await.unwrap();
    assert!(use_ticket(&other, found, "s2", 1).await.unwrap());
    let end = tokio::time::timeout(Duration::from_secs(2), ends.recv()).await.unwrap().unwrap();
    assert_eq!((end.stream, end.reason()), (5, v1::StreamEndReason::Replaced));
}

#[tokio::test]
async fn an_open_stream_of_a_ticket_writes_nothing() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let text = create_ticket(&core, &call(&core), "seed").await.unwrap().ticket;
    let found = find(&core, &text).await.unwrap();
    let hash = found.hash.clone();
    let row = async || tickets::read(&core.shared.backend, &hash, Consistency::Quorum).await.unwrap();
    let (session, _ends) = core.open_streams.begin("s1");
    let slot = core.slots.take_slot("prj_1", 9).await.unwrap();
    let (key_id, ticket) = (found.ticket.key_id.as_str().into(), Some(found.hash.clone()));
    assert!(core.open_streams.add("s1", 5, HeldStream { key_id, expires_at: None, slot, ticket }).is_ok());
    assert!(use_ticket(&core, found, "s1", 5).await.unwrap());
    let opened = row().await;
    for _ in 0..20 {
        clock.advance(60_000);
        note_sessions(&core).await;
    }
    assert_eq!(row().await, opened);
    // The edge dies. Its client has five minutes from the last note on.
    drop(session);
    clock.advance(AWAY_MS);
    note_sessions(&core).await;
    assert!(find(&core, &text).await.is_some());
    clock.advance(1);
    assert!(find(&core, &text).await.is_none());
}

#[tokio::test]
async fn a_closed_stream_of_a_ticket_may_open_again_for_five_minutes_although_its_session_lasts() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let text = create_ticket(&core, &call(&core), "seed").await.unwrap().ticket;
    let found = find(&core, &text).await.unwrap();
    let hash = found.hash.clone();
    assert!(use_ticket(&core, found, "s1", 5).await.unwrap());
    note_closed(&core, "s1", vec![(hash, 5)]).await;
    clock.advance(AWAY_MS + 1);
    let sessions = ["s1".into()];
    tickets::write_open_sessions(&core.shared.backend, NOON + AWAY_MS, &sessions).await.unwrap();
    assert!(find(&core, &text).await.is_none());
}

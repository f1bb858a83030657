//! The times of a ticket, and who holds it.

use tokio::time::timeout;

use super::*;
use crate::{
    access::{gate::RequestMeta, open_streams::HeldStream},
    domain::operation::Operation,
    operations::open_stream::open_stream,
    tests::harness::{ManualClock, NOON, SharedMemory, TEST_KEY, core, give_up, ids, memory, settings, shared_memory},
};

fn call(core: &Arc<Core>) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {TEST_KEY}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, Operation::CreateStreamTicket).map_err(|refused| refused.error).unwrap()
}

/// Records a closing now.
async fn note_closed(core: &Core, session: &str, hash: &str, stream: u64) {
    let closed_at = core.shared.clock.now_ms();
    let closing = TicketClosing { ticket: hash.to_owned(), session: session.into(), stream, closed_at };
    assert!(try_note_closings(core, vec![closing]).await.is_empty());
}

fn opening(session: &str, stream: u64) -> v1::OpenRequest {
    let kind = v1::OpenKind::Place.into();
    v1::OpenRequest { session: session.to_owned(), stream, kind, ..v1::OpenRequest::default() }
}

/// A new ticket.
async fn new_ticket(core: &Arc<Core>, seed: &str) -> FoundTicket {
    let text = create_ticket(core, &call(core), seed).await.unwrap().ticket;
    find(core, &text).await.unwrap()
}

/// Opens stream 5 of a session with a new ticket. Returns the ticket's hash.
async fn open(core: &Arc<Core>, session: &str, seed: &str) -> (String, Result<v1::OpenResponse>) {
    let found = new_ticket(core, seed).await;
    let hash = found.hash.clone();
    (hash, open_stream(core, &call(core), opening(session, 5), Some(found)).await)
}

async fn is_closed(core: &Core, hash: &str) -> bool {
    tickets::read(&core.shared.backend, hash, Consistency::Quorum).await.unwrap().unwrap().1.is_closed
}

/// Waits until the core has noted that a ticket's stream is closed.
async fn closed(core: &Core, hash: &str) {
    let noted = async {
        while !is_closed(core, hash).await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), noted).await.expect("the closing is noted");
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
    note_closed(&core, "s", &hash, 2).await;
    clock.advance(AWAY_MS);
    note_closed(&core, "s", &hash, 1).await;
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
    let end = timeout(Duration::from_secs(2), ends.recv()).await.unwrap().unwrap();
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
    let (_session, _ends) = core.open_streams.begin("s1");
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
    // The core dies. Its client has five minutes, and one more since the last note may be as old.
    clock.advance(AWAY_MS + NOTE_INTERVAL_MS);
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
    note_closed(&core, "s1", &hash, 5).await;
    clock.advance(AWAY_MS + 1);
    let sessions = ["s1".into()];
    tickets::write_open_sessions(&core.shared.backend, NOON + AWAY_MS, &sessions).await.unwrap();
    assert!(find(&core, &text).await.is_none());
}

#[tokio::test]
async fn a_notification_ends_a_connection_only_if_its_ticket_has_moved() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let (one, other) = (core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await);
    let (_session, mut ends) = one.open_streams.begin("s1");
    let (hash, opened) = open(&one, "s1", "seed").await;
    opened.unwrap();
    let connections = || vec!["s1/5".to_owned(), "s1/6".to_owned(), "elsewhere/1".to_owned()];
    // The other core has notified, and then its write failed.
    end_replaced(&one, connections()).await;
    assert!(ends.try_recv().is_err() && one.open_streams.ticket_of("s1", 5).is_some());
    let (version, ticket) = tickets::read(&other.shared.backend, &hash, Consistency::Quorum).await.unwrap().unwrap();
    assert!(use_ticket(&other, FoundTicket { hash, version, ticket }, "s2", 1).await.unwrap());
    end_replaced(&one, connections()).await;
    assert_eq!(ends.recv().await.unwrap().reason(), v1::StreamEndReason::Replaced);
}

#[tokio::test]
async fn every_end_of_a_stream_is_noted() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let (session, _ends) = core.open_streams.begin("s1");
    let (hash, opened) = open(&core, "s1", "closed by its client").await;
    opened.unwrap();
    assert!(!is_closed(&core, &hash).await);
    core.open_streams.close("s1", &[5]);
    closed(&core, &hash).await;
    let (hash, opened) = open(&core, "s1", "ended by the core").await;
    opened.unwrap();
    core.open_streams.revoke(&call(&core).caller.key_id());
    closed(&core, &hash).await;
    let (hash, opened) = open(&core, "s1", "ended with its session").await;
    opened.unwrap();
    drop(session);
    closed(&core, &hash).await;
    let (hash, opened) = open(&core, "s1", "opened after its session").await;
    assert!(opened.is_err());
    closed(&core, &hash).await;
    let (_session, _ends) = core.open_streams.begin("s2");
    let (hash, opened) = open(&core, "s2", "ended with the core").await;
    opened.unwrap();
    core.stop.cancel();
    closed(&core, &hash).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_its_ticket_is_used_is_noted() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let mut settings = settings();
    for plan in settings.plans.values_mut() {
        (plan.concurrent_streams, plan.requests_per_month) = (100, 1_000_000_000);
    }
    let core = Core::start(store.clone(), settings, clock.clone(), ids(1)).await.unwrap();
    let (_session, _ends) = core.open_streams.begin("s1");
    // After this one, a place is leased.
    open(&core, "s1", "first").await.1.unwrap();
    let (found, call) = (new_ticket(&core, "second").await, call(&core));
    let hash = found.hash.clone();
    let passage = store.hold().await;
    give_up(open_stream(&core, &call, opening("s1", 6), Some(found))).await;
    core.open_streams.close("s1", &[6]);
    drop(passage);
    closed(&core, &hash).await;
    assert!(core.open_streams.key_of("s1", 6).is_none());
}

#[tokio::test]
async fn a_closing_that_could_not_be_noted_is_noted_later() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = core(store.clone(), &clock, 1).await;
    let (_session, _ends) = core.open_streams.begin("s1");
    let (hash, opened) = open(&core, "s1", "seed").await;
    opened.unwrap();
    store.refuse(Some(hash.clone()));
    core.open_streams.close("s1", &[5]);
    sleep(Duration::from_millis(100)).await;
    assert!(!is_closed(&core, &hash).await);
    clock.advance(60_000);
    store.refuse(None);
    closed(&core, &hash).await;
    let noted = tickets::read(&core.shared.backend, &hash, Consistency::Quorum).await.unwrap().unwrap();
    assert_eq!(noted.1.open_at, NOON, "the time of the closing");
}

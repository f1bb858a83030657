//! Ends of streams, on a core whose clock stands.

use super::*;
use crate::{
    domain::control::ApiKey,
    service::Core,
    tests::harness::{ManualClock, TEST_KEY, core, memory},
};

struct World {
    clock: Arc<ManualClock>,
    core: Arc<Core>,
    key: Arc<ApiKey>,
}

async fn world() -> World {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let hash = core.shared.keys.key_hash(TEST_KEY);
    let key = Arc::clone(core.shared.control.state().key_by_hash(&hash).unwrap());
    World { clock, core, key }
}

impl World {
    async fn held(&self) -> HeldStream {
        let slot = self.core.slots.take_slot("prj_1", 100).await.unwrap();
        HeldStream { key_id: self.key.id.as_str().into(), expires_at: None, slot, ticket: None }
    }

    async fn open(&self) -> u32 {
        self.core.slots.open("prj_1").await.unwrap()
    }
}

#[tokio::test]
async fn a_key_without_rights_ends_its_streams_and_frees_their_places() {
    let world = world().await;
    let streams = &world.core.open_streams;
    let (_session, mut ends) = streams.begin("s");
    assert!(streams.add("s", 1, world.held().await).is_ok());
    let unknown = HeldStream { key_id: "key_gone".into(), ..world.held().await };
    assert!(streams.add("s", 2, unknown).is_ok());
    streams.end_due().await;
    let end = ends.recv().await.unwrap();
    assert_eq!((end.stream, end.reason()), (2, StreamEndReason::Revoked));
    assert_eq!(world.open().await, 1);
    assert!(ends.try_recv().is_err());
}

#[tokio::test]
async fn the_next_check_is_when_a_key_expires() {
    let world = world().await;
    let streams = &world.core.open_streams;
    let (_session, _ends) = streams.begin("s");
    assert_eq!(streams.pause(), POLL_INTERVAL);
    let held = HeldStream { expires_at: Some(crate::tests::harness::NOON + 120), ..world.held().await };
    assert!(streams.add("s", 1, held).is_ok());
    assert_eq!(streams.pause(), Duration::from_millis(120));
    world.clock.advance(120);
    assert_eq!(streams.pause(), Duration::from_millis(1));
}

#[tokio::test]
async fn a_session_that_ends_and_a_stream_that_closes_give_their_places_back() {
    let world = world().await;
    let streams = &world.core.open_streams;
    assert!(streams.add("s", 1, world.held().await).is_err(), "there is no session");
    let (session, _ends) = streams.begin("s");
    for stream in 1..=3 {
        assert!(streams.add("s", stream, world.held().await).is_ok());
    }
    streams.close("s", &[1, 9]);
    assert_eq!(world.open().await, 2);
    assert!(streams.add("s", 9, world.held().await).is_err(), "it was closed before it was open");
    assert_eq!((streams.key_of("s", 2).as_deref(), streams.key_of("s", 1)), (Some(world.key.id.as_str()), None));
    drop(session);
    assert_eq!(world.open().await, 0);
    assert!(!streams.knows("s"));
}

#[tokio::test]
async fn many_streams_of_one_key_end_together_and_leave_nothing() {
    const STREAMS: u64 = 2 * MAX_TOGETHER as u64 + 1;
    let world = world().await;
    let streams = &world.core.open_streams;
    let (session, mut ends) = streams.begin("s");
    for stream in 1..=STREAMS {
        let slot = world.core.slots.take_slot("prj_1", 10_000).await.unwrap();
        let (key_id, expires_at) = ("key_gone".into(), Some(crate::tests::harness::NOON + 60_000));
        let ticket = (stream % 2 == 0).then(|| stream.to_string());
        assert!(streams.add("s", stream, HeldStream { key_id, expires_at, slot, ticket }).is_ok());
    }
    assert_eq!(streams.ticket_sessions().len(), 1);
    assert!(streams.keys().contains(&"key_gone".into()));
    assert_eq!(streams.close("s", &[1, 2]), [("2".to_owned(), 2)]);
    streams.revoke("key_gone");
    let mut ended = Vec::new();
    while let Ok(end) = ends.try_recv() {
        assert_eq!(end.reason(), StreamEndReason::Revoked);
        ended.push(end.stream);
    }
    ended.sort_unstable();
    assert_eq!(ended, (3..=STREAMS).collect::<Vec<_>>());
    assert_eq!(world.open().await, 0);
    assert!(streams.ticket_sessions().is_empty() && streams.keys().is_empty());
    assert_eq!(streams.by_key.next_expiry(), None);
    drop(session);
}

#[tokio::test]
async fn a_stream_that_opens_while_its_key_ends_is_ended_by_the_next_check() {
    let world = world().await;
    let streams = &world.core.open_streams;
    let (_session, mut ends) = streams.begin("s");
    let late = HeldStream { key_id: "key_gone".into(), ..world.held().await };
    assert!(streams.add("s", 1, late).is_ok());
    assert!(streams.add("s", 2, world.held().await).is_ok());
    streams.end_new_and_expired();
    assert_eq!(ends.recv().await.unwrap().stream, 1);
    assert!(streams.unchecked.lock().is_empty() && ends.try_recv().is_err());
}

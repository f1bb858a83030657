//! Ends of streams, on a core whose clock stands.

use std::pin::pin;

use futures::poll;
use thesis_proto::v1::CreateProjectRequest;

use super::*;
use crate::{
    domain::{account::Actor, control::ApiKey},
    operations::admin::create_project::create_project,
    service::Core,
    store::SharedBackend,
    tests::harness::{ManualClock, TEST_KEY, core, memory, shared_memory},
};

struct World {
    clock: Arc<ManualClock>,
    core: Arc<Core>,
    key: Arc<ApiKey>,
}

async fn world() -> World {
    let clock = ManualClock::new();
    let store = memory(&clock);
    world_on(store, clock).await
}

async fn world_on(store: SharedBackend, clock: Arc<ManualClock>) -> World {
    let core = core(store, &clock, 1).await;
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
    streams.close("s", &[1, 2]);
    let closings = streams.take_closings(9);
    assert_eq!(closings.iter().map(|closing| closing.stream).collect::<Vec<_>>(), [2], "1 has no ticket");
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
    assert_eq!(streams.take_closings(2).len(), 2);
    assert_eq!(streams.take_closings(MAX_TOGETHER).len(), MAX_TOGETHER - 3, "every second stream has a ticket");
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

#[test]
fn a_key_has_expired_until_its_streams_have_ended() {
    let (keys, key): (_, Arc<str>) = (StreamsByKey::default(), "key_1".into());
    let stream: StreamId = ("s".into(), 1);
    assert!(keys.add(&key, Some(100), stream.clone()));
    assert!(keys.expired(99).is_empty());
    for _ in 0..2 {
        assert_eq!(keys.expired(100), [Arc::clone(&key)]);
    }
    keys.remove(&key, &stream);
    assert!(keys.expired(100).is_empty());
}

#[tokio::test]
async fn a_place_that_is_lost_during_a_check_of_keys_ends_its_stream() {
    let clock = ManualClock::new();
    let world = world_on(shared_memory(&clock), clock).await;
    let World { clock, core, .. } = &world;
    // Beside the core's own streams, so that the test runs each step.
    let (control, members) = (Arc::clone(&core.shared.control), Arc::clone(&core.members));
    let streams = OpenStreams::new(Arc::clone(&core.gate), control, members, clock.clone());
    let (_session, mut ends) = streams.begin("s");
    assert!(streams.add("s", 1, world.held().await).is_ok());
    streams.end_new_and_expired();
    let stop = CancellationToken::new();
    let mut running = pin!(streams.run(&stop));
    assert!(poll!(&mut running).is_pending());
    let organization_id = core.shared.control.state().organizations().next().unwrap().id.clone();
    let request = CreateProjectRequest { organization_id, name: "new".to_owned() };
    create_project(core, &Actor::operator(None), &request, None).await.unwrap();
    assert!(poll!(&mut running).is_pending(), "it has checked the first keys");
    clock.advance(60_000);
    core.shared.control.refresh().await.unwrap();
    core.members.send_heartbeat().await.unwrap();
    for _ in 0..1_000 {
        assert!(poll!(&mut running).is_pending());
        if let Ok(end) = ends.try_recv() {
            assert_eq!((end.stream, end.reason()), (1, StreamEndReason::ShuttingDown));
            return;
        }
        yield_now().await;
    }
    panic!("the stream outlives its place");
}

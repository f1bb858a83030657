//! How many requests the store gets when many streams resume, and where replays start and end.

use std::pin::pin;

use futures::poll;
use thesis_proto::time::from_millis;
use tokio::time::{Duration, timeout};

use super::*;
use crate::{
    access::gate::RequestMeta,
    domain::{account::Actor, dataset::Dataset, operation::Operation},
    operations::admin::{create_key::create_key, create_project::create_project},
    tables::log::outline,
    tests::harness::{ManualClock, NOON, SharedMemory, TEST_KEY, ids, memory, new_thesis, settings},
};

const PROJECTS: usize = 10;
const STREAMS: usize = 10_000;

/// A project whose streams come back.
struct Returning {
    key: String,
    cursor: String,
}

fn admit(core: &Core, key: &str) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {key}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, Operation::Open).map_err(|refused| refused.error).unwrap()
}

/// Starts a core whose plan is four fifths used by the streams.
async fn start(store: &Arc<SharedMemory>, clock: &Arc<ManualClock>, replica: u64) -> Arc<Core> {
    let mut settings = settings();
    for plan in settings.plans.values_mut() {
        (plan.concurrent_streams, plan.requests_per_month) = (1_250, 1_000_000_000);
    }
    Core::start(store.clone(), settings, clock.clone(), ids(replica)).await.unwrap()
}

/// Creates a project with a log, and the cursor of a client that knows the first of two theses.
async fn create(core: &Arc<Core>) -> Returning {
    let operator = Actor::operator(None);
    let organization_id = core.shared.control.state().organizations().next().unwrap().id.clone();
    let request = v1::CreateProjectRequest { organization_id, name: "returning".to_owned() };
    let project_id = create_project(core, &operator, &request, None).await.unwrap().project.unwrap().id;
    let dataset = Dataset::of_project(&project_id);
    let environment = v1::Environment::Test.into();
    let name = "key".to_owned();
    let request = v1::CreateKeyRequest { project_id, environment, name, ..v1::CreateKeyRequest::default() };
    let key = create_key(core, &operator, &request, None).await.unwrap().key;
    core.datasets.create_here(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    let call = admit(core, &key);
    let names = core.shared.generation.log_names(&call.caller.view);
    let mut positions = Vec::new();
    for dataset in call.caller.view.datasets() {
        positions.push(core.datasets.refresh(dataset).await.unwrap());
    }
    core.datasets.create_here(&dataset, new_thesis(&dataset, 2)).await.unwrap();
    Returning { key, cursor: CursorEncoder::new(&names).encode(&positions) }
}

#[tokio::test]
async fn ten_thousand_streams_with_cursors_come_back_with_few_requests() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let cores = [start(&store, &clock, 1).await, start(&store, &clock, 2).await];
    let mut projects = Vec::new();
    for _ in 0..PROJECTS {
        projects.push(create(&cores[0]).await);
    }
    cores[1].shared.control.refresh().await.unwrap();
    let sessions: Vec<_> = cores.iter().map(|core| core.open_streams.begin("s")).collect();
    // Their other work would count too.
    for core in &cores {
        core.stop.cancel();
        core.tasks.close();
        timeout(Duration::from_secs(10), core.tasks.wait()).await.unwrap();
    }
    let before = store.total_partition_requests();
    for number in 0..STREAMS {
        let (core, project) = (&cores[number / PROJECTS % 2], &projects[number % PROJECTS]);
        let call = admit(core, &project.key);
        let (stream, cursor) = (number as u64, Some(project.cursor.clone()));
        let message = v1::OpenRequest { session: "s".to_owned(), stream, cursor, ..v1::OpenRequest::default() };
        let opened = open_stream(core, &call, message, None).await.unwrap();
        assert!(opened.gap.is_none() && opened.positions != opened.live);
    }
    let requests = store.total_partition_requests() - before;
    println!("{requests} requests to the store for {STREAMS} openings with cursors");
    assert!(requests <= STREAMS / 20, "{requests}");
    drop(sessions);
}

#[tokio::test]
async fn a_paced_replay_goes_on_at_the_time_of_a_log_that_is_not_at_its_end() {
    let clock = ManualClock::new();
    let core = crate::tests::harness::core(memory(&clock), &clock, 1).await;
    let view = admit(&core, TEST_KEY).caller.view.clone();
    let own = view.datasets().iter().position(|dataset| *dataset != Dataset::Sandbox).unwrap();
    let written = [&view.datasets()[own], &view.datasets()[own], &Dataset::Sandbox];
    for (number, dataset) in (1..).zip(written) {
        core.datasets.create_here(dataset, new_thesis(dataset, number)).await.unwrap();
        clock.advance(10_000);
    }
    let (_session, _ends) = core.open_streams.begin("s");
    let names = core.shared.generation.log_names(&view);
    let open = async |cursor: Option<&[u64]>| {
        let cursor = cursor.map(|positions| CursorEncoder::new(&names).encode(positions));
        let (session, from, to) = ("s".to_owned(), from_millis(NOON), from_millis(NOON + 25_000));
        let (from, to, speed) = (Some(from), Some(to), Some(1.0));
        let ids = v1::OpenRequest { session, stream: 1, replay: 2, ..v1::OpenRequest::default() };
        let message = v1::OpenRequest { cursor, from, to, speed, ..ids };
        let opened = open_stream(&core, &admit(&core, TEST_KEY), message, None).await.unwrap();
        core.open_streams.close("s", &[1, 2]);
        opened
    };
    let opened = open(None).await;
    let ends = opened.replay.unwrap().ends;
    // The filter of a client may match no event of the sandbox, whose last event comes after the project's.
    let mut cursor = ends.clone();
    cursor[own] = opened.positions[own].position + 1;
    assert!(cursor[own] < ends[own]);
    let resumed = open(Some(cursor.as_slice())).await.replay.unwrap();
    assert_eq!((resumed.start, resumed.is_complete), (Some(from_millis(NOON)), false));
    assert!(open(Some(ends.as_slice())).await.replay.unwrap().is_complete);
}

#[tokio::test]
async fn a_replay_lies_between_two_times_and_has_a_place_of_its_own() {
    let clock = ManualClock::new();
    let core = crate::tests::harness::core(memory(&clock), &clock, 1).await;
    let view = admit(&core, TEST_KEY).caller.view.clone();
    let dataset = view.datasets().iter().find(|dataset| **dataset != Dataset::Sandbox).unwrap();
    for number in 1..=3 {
        core.datasets.create_here(dataset, new_thesis(dataset, number)).await.unwrap();
        clock.advance(10_000);
    }
    let (_session, _ends) = core.open_streams.begin("s");
    let (from, to) = (NOON + 5_000, NOON + 15_000);
    let open = async |stream: u64, replay: u64| {
        let (session, bound) = ("s".to_owned(), |ms| Some(from_millis(ms)));
        let message =
            v1::OpenRequest { session, stream, replay, from: bound(from), to: bound(to), ..v1::OpenRequest::default() };
        open_stream(&core, &admit(&core, TEST_KEY), message, None).await
    };
    let opened = open(1, 2).await.unwrap();
    let ends = opened.replay.unwrap().ends;
    let time = async |dataset: &Dataset, seq: u64| {
        let body = core.shared.log.get(dataset.name(), seq).await.unwrap();
        body.map(|body| outline(&body).unwrap().created_at)
    };
    for ((dataset, begin), end) in view.datasets().iter().zip(&opened.positions).zip(&ends) {
        let begin = begin.position;
        assert!(time(dataset, begin).await.is_none_or(|before| before < from), "{dataset}");
        assert!(time(dataset, begin + 1).await.is_none_or(|first| first >= from), "{dataset}");
        assert!(time(dataset, *end).await.is_none_or(|last| last <= to), "{dataset}");
        assert!(time(dataset, *end + 1).await.is_none_or(|after| after > to), "{dataset}");
    }
    let own = view.datasets().iter().position(|other| other == dataset).unwrap();
    assert!(opened.positions[own].position < ends[own], "the second thesis lies between the times");
    // The plan allows two streams and one replay.
    let refused = open(3, 4).await.unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::StreamLimitReached);
    assert!(refused.api.message.contains("1 concurrent replays"), "{refused}");
    core.open_streams.close("s", &[2]);
    open(3, 4).await.unwrap();
}

#[tokio::test]
async fn replays_up_to_the_present_end_at_the_same_position() {
    let clock = ManualClock::new();
    let core = crate::tests::harness::core(memory(&clock), &clock, 1).await;
    let view = admit(&core, TEST_KEY).caller.view.clone();
    let dataset = view.datasets().iter().find(|dataset| **dataset != Dataset::Sandbox).unwrap();
    let (_session, _ends) = core.open_streams.begin("s");
    let ends = async |stream: u64, replay: u64| {
        let (session, now) = ("s".to_owned(), || Some(from_millis(NOON)));
        let message = v1::OpenRequest { session, stream, replay, from: now(), to: now(), ..v1::OpenRequest::default() };
        let opened = open_stream(&core, &admit(&core, TEST_KEY), message, None).await.unwrap();
        core.open_streams.close("s", &[stream, replay]);
        opened.replay.unwrap().ends
    };
    core.datasets.create_here(dataset, new_thesis(dataset, 1)).await.unwrap();
    let first = ends(1, 2).await;
    assert!(first.iter().any(|end| *end > 0));
    // The clock stands still, but the time is closed.
    core.datasets.create_here(dataset, new_thesis(dataset, 2)).await.unwrap();
    assert_eq!(ends(3, 4).await, first);
}

#[tokio::test]
async fn a_replay_reads_the_logs_of_its_view_at_once() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = start(&store, &clock, 1).await;
    let call = admit(&core, TEST_KEY);
    let logs = call.caller.view.clone();
    assert!(logs.datasets().len() > 1);
    let names = core.shared.generation.log_names(&logs);
    let mut ends = Vec::new();
    for dataset in logs.datasets() {
        core.datasets.create_here(dataset, new_thesis(dataset, 1)).await.unwrap();
        ends.push(core.datasets.refresh(dataset).await.unwrap());
    }
    // Its other work would wait too.
    core.stop.cancel();
    core.tasks.close();
    timeout(Duration::from_secs(10), core.tasks.wait()).await.unwrap();
    let message = v1::OpenRequest { from: Some(from_millis(NOON)), ..v1::OpenRequest::default() };
    let replay = Replay::read(&mut Fields::default(), &message, NOON).unwrap();
    let filter = CompiledFilter::default();
    let held = store.hold().await;
    let begun = begin_replay(&core, (&call, &logs), &message, (&replay, &filter), Some(ends), &names);
    let (mut begun, before) = (pin!(begun), store.waiting());
    assert!(poll!(&mut begun).is_pending());
    assert_eq!(store.waiting() - before, logs.datasets().len());
    drop(held);
    assert_eq!(begun.await.unwrap().positions.len(), logs.datasets().len());
}

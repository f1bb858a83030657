mod frozen;
mod idle;
mod long;
mod surplus;
mod unused;

use std::time::Duration;

use thesis_proto::v1;

use super::{catch_up::RECENT_MS, others::ABANDONED_AGE_MS, *};
use crate::{
    domain::account::Actor,
    operations::admin::create_project::create_project,
    service::Core,
    store::schema,
    tables::{
        members::{self, Heartbeat, Member},
        unfinished::UnfinishedLog,
    },
    tests::harness::{ManualClock, SharedMemory, core, new_thesis, shared_memory},
};

/// Lets time pass until something holds.
async fn until(clock: &ManualClock, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        clock.advance(1_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("it never came");
}

async fn rows(core: &Core) -> Vec<UnfinishedLog> {
    unfinished::list_all(&core.shared.backend).await.unwrap()
}

fn has_writer(core: &Core, dataset: &Dataset) -> bool {
    core.datasets.with(dataset, |open| open.writer.as_ref().is_some_and(|writer| !writer.has_ended()))
}

#[tokio::test(start_paused = true)]
async fn a_writer_says_what_it_begins_and_ends_when_all_is_done() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("rest");
    core.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    let of_it = async || {
        let rows = rows(&core).await.into_iter().filter(|row| row.dataset == dataset.to_string());
        rows.map(|row| row.replica).collect::<Vec<_>>()
    };
    assert_eq!(of_it().await, std::slice::from_ref(&core.shared.replica));
    until(&clock, async || !has_writer(&core, &dataset)).await;
    assert!(of_it().await.is_empty());
    // The next one finds all of it.
    let written = core.datasets.create_thesis(&dataset, new_thesis(&dataset, 2)).await.unwrap();
    assert_eq!(written.seq, 4, "after a thesis and two derived events");
    assert_eq!(of_it().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_core_began_is_finished() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let first = core(Arc::clone(&backend), &clock, 1).await;
    let dataset = Dataset::of_project("left");
    let new = new_thesis(&dataset, 1);
    first.datasets.create_thesis(&dataset, new.clone()).await.unwrap();
    first.stop.cancel();
    let second = core(Arc::clone(&backend), &clock, 2).await;
    let name = dataset.to_string();
    until(&clock, async || has_writer(&second, &dataset)).await;
    // It derives the events that were pending at the first, and then removes the row.
    until(&clock, async || second.shared.log.head(&name, 0, Consistency::Quorum).await.unwrap() == 3).await;
    until(&clock, async || rows(&second).await.iter().all(|row| row.dataset != name)).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_live_core_began_is_left_to_it() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("theirs");
    let begin = async |at: i64| {
        let row = UnfinishedLog { dataset: dataset.to_string(), replica: "rep_other".to_owned(), at };
        unfinished::write(&core.shared.backend, &row).await.unwrap();
    };
    let beat = async |number: i64| {
        let beat = Heartbeat { replica: "rep_other".to_owned(), number, member: Member::default() };
        members::write_heartbeat(&core.shared.backend, &beat).await.unwrap();
        core.members.read_beats(std::iter::empty()).await.unwrap();
    };
    let now_ms = core.shared.clock.now_ms();
    beat(1).await;
    begin(now_ms).await;
    for number in 2..5 {
        beat(number).await;
        core.datasets.take_over().await.unwrap();
        assert!(!has_writer(&core, &dataset), "at beat {number}");
    }
    // It lives, and did not finish for long.
    clock.advance(ABANDONED_AGE_MS + 1);
    beat(5).await;
    core.datasets.take_over().await.unwrap();
    assert!(has_writer(&core, &dataset));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_nobody_uses_costs_nothing() {
    const LOGS: usize = 100;
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let first = core(backend.clone(), &clock, 1).await;
    let organization = first.shared.control.state().organizations().next().unwrap().id.clone();
    for number in 0..LOGS {
        let request = v1::CreateProjectRequest { organization_id: organization.clone(), name: format!("p{number}") };
        let created = create_project(&first, &Actor::operator(None), &request, None).await.unwrap();
        let dataset = Dataset::of_project(&created.project.unwrap().id);
        first.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    }
    until(&clock, async || rows(&first).await.iter().all(|row| !row.dataset.starts_with("project/"))).await;
    first.close().await;
    let calls = || backend.calls(&schema::EVENT_LOG) + backend.calls(&schema::LOG_CHECKPOINT);
    let before = calls();
    let second = core(backend.clone(), &clock, 2).await;
    let started = calls() - before;
    for _ in 0..90 {
        clock.advance(1_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let idle = calls() - before - started;
    println!("{started} reads of logs at the start, {idle} in 90 idle seconds");
    // `control` is looked at once a second, and ten times as often while it is not known who else lives.
    assert!(started < LOGS / 2 && idle < 4 * 90, "{started} at the start, {idle} idle");
    second.close().await;
}

#[tokio::test]
async fn many_readers_that_catch_up_share_one_read_a_second() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let (one, other) = (core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await);
    let dataset = Dataset::of_project("recent");
    let write = async |number| one.datasets.create_here(&dataset, new_thesis(&dataset, number)).await.unwrap().seq;
    write(1).await;
    let known = other.datasets.recent_position(&dataset, 0, 500).await.unwrap();
    let second = write(2).await;
    assert_eq!(other.datasets.recent_position(&dataset, known, 0).await.unwrap(), known);
    // A cursor of another core is ahead, and one that is far behind needs the present.
    let newer = other.datasets.recent_position(&dataset, known + 1, 500).await.unwrap();
    assert!(newer >= second);
    let third = write(3).await;
    assert!(other.datasets.recent_position(&dataset, 0, newer - 1).await.unwrap() >= third);
    let known = other.datasets.recent_position(&dataset, third, 500).await.unwrap();
    let fourth = write(4).await;
    assert_eq!(other.datasets.recent_position(&dataset, third, 500).await.unwrap(), known);
    clock.advance(RECENT_MS);
    assert!(other.datasets.recent_position(&dataset, third, 500).await.unwrap() >= fourth);
}

#[tokio::test]
async fn readers_that_come_together_await_one_read() {
    const READERS: usize = 10;
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let beside = store.beside();
    let (one, other) = (core(store, &clock, 1).await, core(beside.clone(), &clock, 2).await);
    let dataset = Dataset::of_project("together");
    let write = async |number| one.datasets.create_here(&dataset, new_thesis(&dataset, number)).await.unwrap().seq;
    write(1).await;
    let known = other.datasets.recent_position(&dataset, 0, 500).await.unwrap();
    let second = write(2).await;
    clock.advance(RECENT_MS);
    // A read that fails is none.
    beside.refuse_reads(Some(&dataset.to_string()));
    assert!(other.datasets.recent_position(&dataset, known, 500).await.is_err());
    beside.refuse_reads(None);
    let passage = beside.hold().await;
    let before = beside.partition_requests(&schema::LOG_CHECKPOINT);
    let mut reading = tokio::task::JoinSet::new();
    for _ in 0..READERS {
        let (core, dataset) = (Arc::clone(&other), dataset.clone());
        reading.spawn(async move { core.datasets.recent_position(&dataset, known, 500).await.unwrap() });
    }
    for _ in 0..READERS {
        tokio::task::yield_now().await;
    }
    drop(passage);
    assert!(reading.join_all().await.into_iter().all(|position| position >= second));
    let reads = beside.partition_requests(&schema::LOG_CHECKPOINT) - before;
    assert!(reads < READERS / 2, "{reads}");
}

#[tokio::test]
async fn readers_share_the_read_of_an_entry_that_is_recent() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    // A core has the entries in memory that it appends, so another one reads them.
    let beside = store.beside();
    let (one, other) = (core(store, &clock, 1).await, core(beside.clone(), &clock, 2).await);
    let dataset = Dataset::of_project("since");
    let start = one.shared.clock.now_ms();
    let mut last = 0;
    for number in 1..=3 {
        clock.advance(1_000);
        last = one.datasets.create_here(&dataset, new_thesis(&dataset, number)).await.unwrap().seq;
    }
    let is_since = async |seq, time| other.datasets.is_since(&dataset, seq, time).await.unwrap();
    assert!(is_since(1, start).await);
    beside.refuse_reads(Some(&dataset.to_string()));
    assert!(is_since(last, start).await && is_since(1, start + 1_000).await);
    assert!(other.datasets.is_since(&dataset, 1, start + 1_001).await.is_err(), "this needs a read");
    beside.refuse_reads(None);
    assert!(!is_since(1, start + 1_001).await && is_since(last, start + 3_000).await);
    assert!(is_since(last + 1_000, start).await, "there is no such entry");
}

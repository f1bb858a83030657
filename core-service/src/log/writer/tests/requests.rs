//! The requests that a lone thesis takes on a cluster, and the rows that it leaves there.

use super::*;
use crate::{
    domain::observation::{Observation, ObservedThing},
    store::Value,
    tests::faulty::MemoryStore,
};

/// Maximum number of requests for the `live` log and its rows: a read of the thesis, its append with the derived
/// events, its rows in one or two batches, their checkpoint, and that of the fan-out. Besides, a core reads the head of
/// the control log, stores the position in the upstream's feed, and notes twice a minute that it appends.
const MAX_REQUESTS: usize = 6;
/// Background tasks make requests each second or two, so the same number in most spans of this length.
const SPAN: Duration = Duration::from_millis(2_100);

fn median(numbers: &[usize]) -> usize {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Observes a thesis of the author about the token, posted now.
async fn post(core: &Core, number: usize) {
    let now_ms = clock_now(core);
    let seen = observed_thesis(&format!("post {number}"), "text");
    let seen = ObservedThesis { created_at: now_ms, updated_at: now_ms, ..seen };
    let seen = ObservedThing::Thesis(Box::new(seen));
    let observation = Observation { observed_at: now_ms, revision: Some(now_ms), seen };
    core.datasets.observe_here(&Dataset::Live, observation).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lone_thesis_with_its_derived_events_takes_few_requests() {
    let clock = ManualClock::new();
    let backend = SharedMemory::without_threads();
    let core = core(backend.clone(), &clock, 1).await;
    let requests = async || {
        tokio::time::sleep(SPAN).await;
        let counted = backend.requests();
        backend.count_requests("live");
        counted
    };
    backend.count_requests("live");
    let (mut idle, mut lone) = (Vec::new(), Vec::new());
    // The author, the token and their buckets are known after the first ones.
    for number in 1..8 {
        clock.advance(2 * DERIVE_EVERY_MS);
        post(&core, number).await;
        lone.push(requests().await);
        idle.push(requests().await);
        let log = entries(&core, &Dataset::Live).await;
        let Some(Kind::TokenActivity(activity)) = &log[3 * number - 2].entry.kind else { panic!("{log:?}") };
        assert_eq!((log.len(), activity.thesis_count_24h), (3 * number, i64::try_from(number).unwrap()));
        // The requests of this test do not count.
        backend.count_requests("live");
    }
    let least = median(&idle) + 1;
    assert!(
        (least..=median(&idle) + MAX_REQUESTS).contains(&median(&lone)),
        "{lone:?} requests, {idle:?} without a thesis"
    );
}

/// Counts the rows that the entries after a position wrote, without the head of the log and the checkpoints: each
/// append writes these again.
fn rows_after(store: &MemoryStore, position: i64) -> usize {
    let mut rows = 0;
    for table in schema::ALL.iter().filter(|table| table.name != schema::LOG_CHECKPOINT.name) {
        store.each(table, |partition, clustering, version| {
            let is_head = clustering.first().is_some_and(|first| first.int() < 0);
            rows += usize::from(partition.first() == Some(&Value::from("live")) && version > position && !is_head);
        });
    }
    rows
}

#[tokio::test(start_paused = true)]
async fn a_lone_thesis_with_its_derived_events_is_few_rows() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::new(false));
    let core = core(store.clone(), &clock, 1).await;
    let mut rows = Vec::new();
    for number in 1..7 {
        clock.advance(2 * DERIVE_EVERY_MS);
        let position = entries(&core, &Dataset::Live).await.len();
        post(&core, number).await;
        tokio::time::sleep(SPAN).await;
        assert_eq!(entries(&core, &Dataset::Live).await.len(), 3 * number);
        rows.push(rows_after(&store, i64::try_from(position).unwrap()));
    }
    // Three entries, the thesis, its places in the lists of all theses and those of the author, token and chain, the
    // totals of the token and of the author on it, and the author's number of theses. A prolific author has no such
    // number, but two more lists. The index of events has no row for each event: it writes one for each scope once a
    // segment of the log is full. The first and the third thesis introduce an author, and a prolific one.
    assert_eq!((rows[1], &rows[3..]), (11, &[12, 12, 12][..]), "{rows:?}");
}

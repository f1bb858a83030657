//! A log with many full buckets.

use super::*;
use crate::{
    domain::window::HOUR_MS,
    log::{fan_out::FAN_OUT, writer::DERIVED},
    store::Backend as _,
    tables::log::{LogStore, checkpoint_change},
};

const BUCKETS: u64 = 1_000;

#[tokio::test]
async fn a_core_that_starts_its_writer_for_a_count_does_not_read_the_log_from_its_beginning() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let dataset = Dataset::of_project("long");
    let name = dataset.to_string();
    let head = LogStore::new(backend.clone()).fill_buckets(&name, BUCKETS).await;
    let checkpoints = [ROWS, DERIVED, FAN_OUT].map(|projection| checkpoint_change(&name, projection, head));
    backend.apply(checkpoints.into()).await.unwrap();
    let first = core(backend.clone(), &clock, 1).await;
    let now_ms = first.shared.clock.now_ms();
    // All on one token, and more than are read for a count.
    let theses = (0..8_u32).map(|number| {
        let mut new = new_thesis(&dataset, number * 2);
        new.thesis.created_at = now_ms - i64::from(number);
        new
    });
    let theses: Vec<_> = theses.collect();
    let (token, view) = (theses[0].token.id.clone(), dataset.counted_with());
    for new in theses {
        assert!(first.datasets.create_here(&dataset, new).await.unwrap().seq > head);
    }
    first.stop.cancel();
    let second = core(backend.clone(), &clock, 2).await;
    let reader = second.shared.theses.reader(&view).await.unwrap();
    let before = backend.calls(&schema::EVENT_LOG);
    let counts = second.datasets.counts(&reader, &view, &token, now_ms, HOUR_MS).await.unwrap();
    let calls = backend.calls(&schema::EVENT_LOG) - before;
    assert!(has_writer(&second, &dataset), "it counts in memory");
    assert_eq!(counts.last_1h, 8);
    assert!(calls < 100, "{calls} calls for a count");
    second.stop.cancel();
}

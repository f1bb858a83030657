//! The progress of the catch-up of a log that has entries but no tree.

use std::fmt;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};

use super::*;

/// Keeps the numbers in the log lines of followers of trees.
#[derive(Clone, Default)]
struct ProgressLog(Arc<Mutex<Vec<(&'static str, u64)>>>);

impl Visit for ProgressLog {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.lock().push((field.name(), value));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl tracing::Subscriber for ProgressLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().ends_with("tree::follow")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() == tracing::Level::INFO {
            event.record(&mut self.clone());
        }
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

#[tokio::test]
async fn the_catch_up_of_an_existing_log_tells_how_far_it_is() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    for _ in 0..6 {
        append(&backend, 2_000).await;
    }
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let log = ProgressLog::default();
    let logging = tracing::subscriber::set_default(log.clone());
    let mut follower = follower(&trees);
    follower.advance(12_000).await.unwrap();
    assert_eq!(*log.0.lock(), [("entries", 5_000), ("of", 12_000), ("entries", 10_000), ("of", 12_000)]);
    assert_eq!(signed_size(&trees, &backend).await, Some(12_000));
    // A short catch-up passes 15,000 entries in silence.
    append(&backend, 2_000).await;
    let head = append(&backend, 2_000).await;
    follower.advance(head).await.unwrap();
    drop(logging);
    assert_eq!((head, log.0.lock().len()), (16_000, 4));
    assert_eq!(signed_size(&trees, &backend).await, Some(head));
}

#[tokio::test]
async fn a_catch_up_that_fails_is_continued_from_its_stored_tiles() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    for _ in 0..6 {
        append(&backend, 2_000).await;
    }
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    // The log cannot be read up to here.
    let failed = follower(&trees).advance(12_001).await;
    assert!(matches!(failed, Err(TreeError::Store(StoreError::Unavailable(_)))), "{failed:?}");
    assert_eq!(trees.tiles.size(&LIVE).await.unwrap(), 10_000);
    follower(&trees).advance(12_000).await.unwrap();
    assert_eq!(signed_size(&trees, &backend).await, Some(12_000));
}

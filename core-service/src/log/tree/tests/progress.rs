//! The progress of the catch-up of a log that has entries but no tree.

use tracing::Level;

use super::*;
use crate::tests::harness::LogLines;

#[tokio::test]
async fn the_catch_up_of_an_existing_log_tells_how_far_it_is() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    for _ in 0..8 {
        append(&backend, 2_000).await;
    }
    let trees = trees(Arc::clone(&backend), &clock, 1).await;
    let mut follower = follower(&trees);
    let log = LogLines::at(Level::INFO);
    let logging = log.listen();
    follower.advance(16_000).await.unwrap();
    let text = log.text();
    let reached: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(" entries=")?.1)).collect();
    assert_eq!(reached, ["5000 of=16000 ", "10000 of=16000 ", "15000 of=16000 "], "{text}");
    assert_eq!(signed_size(&trees, &backend).await, Some(16_000));
    // A short catch-up reaches 20,000 entries in silence.
    append(&backend, 2_000).await;
    let head = append(&backend, 2_000).await;
    follower.advance(head).await.unwrap();
    drop(logging);
    assert_eq!((head, log.text()), (20_000, text));
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

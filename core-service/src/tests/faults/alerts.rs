//! Use cases of alerts. The recount shows whether each crossing was reported once.

use super::{
    observations::deletion,
    world::{World, ready},
};
use crate::tests::harness::{LIVE_KEY, TEST_KEY};

/// The token of observed theses.
const COIN: &str = "solana:So1";

/// Creates an alert of each environment: with few theses the counts of a mixture cross the thresholds.
pub(super) async fn create_alerts(world: &mut World) {
    world.create_thesis("alerted", "h0", "T0").await;
    world.ingest_thesis("m0").await;
    world.create_alert("of test theses", TEST_KEY, "T0", 3).await;
    world.create_alert("of live theses", LIVE_KEY, COIN, 2).await;
}

pub(super) async fn create_alert(world: &mut World) {
    world.create_thesis("first", "case", "CASE").await;
    ready(world).await;
    let id = world.create_alert("case", TEST_KEY, "CASE", 1).await;
    assert_eq!(world.create_alert("case", TEST_KEY, "CASE", 1).await, id);
}

/// The second thesis makes an alert fire, and the deletion of the first one resolves it.
pub(super) async fn cross_threshold(world: &mut World) {
    let first = world.ingest_thesis("first").await;
    world.create_alert("case", LIVE_KEY, COIN, 1).await;
    ready(world).await;
    world.ingest_thesis("second").await;
    world.idle().await;
    world.ingest("live", vec![deletion("first")]).await;
    world.acknowledged.gone.insert(first);
}

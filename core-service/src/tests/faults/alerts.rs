//! Use cases of alerts. The recount shows whether each crossing was reported once.

use std::time::Duration;

use thesis_proto::v1::{AlertMetric, CreateAlertRequest};

use super::{
    observations::deletion,
    world::{World, ready},
};
use crate::tests::harness::{LIVE_KEY, TEST_KEY};

/// The token of observed theses.
const COIN: &str = "solana:So1";
/// The recount demands that a rule is judged within this time of its change.
const JUDGED_WITHIN: Duration = Duration::from_secs(25);

/// A rule that fires above this number of theses.
fn rule(name: &str, token: &str, above: u32) -> CreateAlertRequest {
    CreateAlertRequest {
        name: Some(name.to_owned()),
        token: Some(token.to_owned()),
        metric: AlertMetric::ThesisCount24h.into(),
        above: Some(above.into()),
        ..CreateAlertRequest::default()
    }
}

/// A rule over a token that a mixture has theses on, as the key sees it.
pub(super) fn rule_of(api_key: &str, name: &str, above: u32) -> CreateAlertRequest {
    rule(name, if api_key == LIVE_KEY { COIN } else { "T0" }, above)
}

/// The rule with a time that it waits before it fires, and before it resolves.
fn waiting(rule: CreateAlertRequest, time: &str) -> CreateAlertRequest {
    CreateAlertRequest { r#for: Some(time.to_owned()), keep_firing_for: Some(time.to_owned()), ..rule }
}

/// Creates alerts of each environment: with few theses the counts of a mixture cross the thresholds.
pub(super) async fn create_alerts(world: &mut World) {
    world.create_thesis("alerted", "h0", "T0").await;
    world.ingest_thesis("m0").await;
    world.create_alert(TEST_KEY, rule_of(TEST_KEY, "of test theses", 3)).await;
    world.create_alert(TEST_KEY, waiting(rule_of(TEST_KEY, "of lasting test theses", 5), "2s")).await;
    world.create_alert(LIVE_KEY, rule_of(LIVE_KEY, "of live theses", 2)).await;
    world.create_alert(LIVE_KEY, waiting(rule_of(LIVE_KEY, "of lasting live theses", 2), "1s")).await;
}

pub(super) async fn create_alert(world: &mut World) {
    world.create_thesis("first", "case", "CASE").await;
    ready(world).await;
    let id = world.create_alert(TEST_KEY, rule("case", "CASE", 1)).await;
    assert_eq!(world.create_alert(TEST_KEY, rule("case", "CASE", 1)).await, id);
}

/// The change resolves the alert. Then it fires at the new threshold.
pub(super) async fn change_alert(world: &mut World) {
    world.create_thesis("first", "case", "CASE").await;
    let id = world.create_alert(TEST_KEY, rule("case", "CASE", 0)).await;
    tokio::time::sleep(JUDGED_WITHIN).await;
    ready(world).await;
    world.raise_alert(TEST_KEY, &id, 2).await;
    world.idle().await;
    world.process.rest();
    tokio::time::sleep(JUDGED_WITHIN).await;
    world.create_thesis("second", "case", "CASE").await;
    world.create_thesis("third", "case", "CASE").await;
}

/// A deleted alert, which fires, reports nothing more.
pub(super) async fn delete_alert(world: &mut World) {
    let first = world.ingest_thesis("first").await;
    let id = world.create_alert(LIVE_KEY, rule("case", COIN, 0)).await;
    ready(world).await;
    world.delete_alert(LIVE_KEY, &id).await;
    world.idle().await;
    world.process.rest();
    tokio::time::sleep(JUDGED_WITHIN).await;
    world.ingest("live", vec![deletion("first")]).await;
    world.acknowledged.gone.insert(first);
}

/// The second thesis makes an alert fire, and the deletion of the first one resolves it.
pub(super) async fn cross_threshold(world: &mut World) {
    let first = world.ingest_thesis("first").await;
    world.create_alert(LIVE_KEY, rule("case", COIN, 1)).await;
    ready(world).await;
    world.ingest_thesis("second").await;
    world.idle().await;
    world.ingest("live", vec![deletion("first")]).await;
    world.acknowledged.gone.insert(first);
}

/// An alert fires seconds after its threshold was crossed.
pub(super) async fn wait_to_cross(world: &mut World) {
    world.create_thesis("first", "case", "CASE").await;
    world.idle().await;
    world.count(false);
    world.create_alert(TEST_KEY, waiting(rule("case", "CASE", 0), "3s")).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
}

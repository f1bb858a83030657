//! Look-ups keep to `SVC_UPSTREAM_RPS`; what comes on top is answered at once.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use super::{SMALL, without_backfill};
use crate::harness::{Following, SOON, Store, Upstream, eventually};

on_stores_of_their_own![look_ups_keep_to_their_budget];

const RPS: u64 = 5;
/// Profiles that are asked for at once.
const CROWD: usize = 30;

/// Most look-ups within a time: a full bucket, and what flows into it.
fn most(time: Duration) -> u64 {
    RPS + RPS * (u64::try_from(time.as_millis()).unwrap() + 200) / 1_000
}

async fn look_ups_keep_to_their_budget(store: Store) {
    let settings = |setup| {
        let setup = without_backfill(setup).set("SVC_UPSTREAM_REFRESH_SECONDS", "1");
        setup.set("SVC_UPSTREAM_RPS", &RPS.to_string())
    };
    let live = Following::start(&store, Upstream::start(SMALL).await, settings).await;
    let paths: Vec<String> = (0..CROWD).map(|number| format!("/v1/profiles?handle=crowd_{number}")).collect();
    for number in 0..CROWD {
        live.upstream.profile(&format!("Crowd_{number}")).await;
    }
    let before = live.upstream.all_look_ups().await;
    let began = Instant::now();
    let mut found = Vec::new();
    for (answer, path) in join_all(paths.iter().map(|path| live.client.get(path))).await.iter().zip(&paths) {
        if answer.status == 200 {
            assert!(answer.json().get("stale").is_none(), "{answer:?}");
            found.push(path);
        } else {
            answer.error(503, "UPSTREAM_UNAVAILABLE");
            assert!((1..=5).contains(&answer.number("retry-after")), "{answer:?}");
        }
    }
    let lookups = live.upstream.all_look_ups().await - before;
    assert!(lookups <= most(began.elapsed()), "{lookups} look-ups in {:?}", began.elapsed());
    assert!(!found.is_empty() && found.len() < CROWD, "{} of {CROWD} were found", found.len());
    // What is known and old is served from the cache while the others spend the budget.
    let cached = found[0];
    eventually("the cached one is stale", SOON, async || {
        let others = join_all(paths.iter().map(|path| live.client.get(path)));
        let (_, answer) = tokio::join!(others, live.client.get(cached));
        (answer.ok(200).get("stale") == Some(&json!(true))).then_some(())
    })
    .await;
    // In the end everybody is found.
    for path in &paths {
        let is_found = async || (live.client.get(path).await.status == 200).then_some(());
        eventually("it is found once the budget allows it", SOON, is_found).await;
    }
    let lookups = live.upstream.all_look_ups().await - before;
    assert!(lookups <= most(began.elapsed()), "{lookups} look-ups in {:?}", began.elapsed());
    let status = live.status().await;
    assert!(status.look_ups.is_some_and(|told| told.held_back > 0), "{status:?}");
}

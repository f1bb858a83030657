//! The upstream answers no look-up: what is cached is served, the rest is refused, and soon nothing is asked.

use std::time::Duration;

use serde_json::{Value, json};
use thesis_proto::v1::Breaker;
use tokio::time::Instant;

use crate::{
    examples::errors::assert_example,
    harness::{Client, Following, SOON, eventually, reference, text},
};

/// Least time without look-ups once the breaker is open.
const OPEN: Duration = Duration::from_secs(5);

/// Waits for an answer that says whether it is stale.
async fn stale(client: &Client, path: &str, is_stale: bool) -> Value {
    let probe = async || {
        let found = client.get(path).await;
        (found.status == 200)
            .then(|| found.json())
            .filter(|found| (found.get("stale") == Some(&json!(true))) == is_stale)
    };
    let found = eventually(&format!("{path} is stale: {is_stale}"), SOON, probe).await;
    assert!(is_stale || found.get("stale").is_none(), "{found}");
    found
}

async fn unavailable(client: &Client, path: &str) {
    let refused = client.get(path).await;
    refused.error(503, "UPSTREAM_UNAVAILABLE");
    assert_example(client, &refused).await;
}

pub(super) async fn what_is_cached_is_stale_and_the_rest_is_refused(live: &Following) {
    let (client, upstream) = (&live.client, &live.upstream);
    let profile = upstream.profile("Cached").await;
    let token = upstream.token("base", "0x00000000000000000000000000000000000000ff", "cached").await;
    let (by, on) = ("/v1/profiles?handle=cached", format!("/v1/tokens/{}", reference(&token)));
    client.get(by).await.ok(200);
    client.get(&on).await.ok(200);
    for fault in [
        json!({"error_share": 1}),
        json!({"error_share": 1, "error_status": 429, "retry_after_s": 2}),
        json!({"latency_ms": 3_000}),
    ] {
        let said = fault.to_string();
        let number = upstream.all_look_ups().await;
        upstream.faults(&fault).await;
        upstream.change_profile(&profile, &json!({"bio": said, "quiet": true})).await;
        upstream.change_token(&token, &json!({"name": said, "quiet": true})).await;
        let cached = stale(client, by, true).await;
        assert_ne!(text(&cached, "bio"), said);
        assert_ne!(text(&stale(client, &on, true).await, "name"), said);
        unavailable(client, &format!("/v1/profiles?handle=unknown_{number}")).await;
        unavailable(client, &format!("/v1/profiles?upstream_user_id=u_{number}000000")).await;
        unavailable(client, &format!("/v1/tokens/base:0x{number:040x}")).await;
        // What needs no look-up is as ever.
        client.get("/v1/theses?limit=1").await.ok(200);
        client.get("/v1/tokens/unknownsymbol").await.error(404, "TOKEN_NOT_FOUND");
        upstream.calm().await;
        eventually("the new data are shown", SOON, async || {
            Some(stale(client, by, false).await).filter(|found| found["bio"] == said.as_str())
        })
        .await;
        eventually("the token's too", SOON, async || {
            Some(stale(client, &on, false).await).filter(|found| found["name"] == said.as_str())
        })
        .await;
        // Not known after the refusals: nothing was remembered as missing.
        let late = upstream.profile(&format!("unknown_{number}")).await;
        let found =
            async || (client.get(&format!("/v1/profiles?handle=unknown_{number}")).await.status == 200).then_some(());
        eventually("who was refused is found", SOON, found).await;
        assert_eq!(text(&late, "handle"), format!("unknown_{number}"));
    }
}

pub(super) async fn the_breaker_stops_look_ups(live: &Following) {
    let upstream = &live.upstream;
    upstream.faults(&json!({"error_share": 1})).await;
    let mut number = 0;
    let mut since = Instant::now();
    while live.status().await.breaker() != Breaker::Open {
        assert!(number < 50, "the breaker does not open");
        since = Instant::now();
        unavailable(&live.client, &format!("/v1/profiles?handle=breaking_{number}")).await;
        number += 1;
    }
    let (asked, held_back) = (upstream.all_look_ups().await, live.status().await.look_ups.unwrap().held_back);
    for number in 0..5 {
        let answer = live.client.get(&format!("/v1/profiles?handle=held_{number}")).await;
        answer.error(503, "UPSTREAM_UNAVAILABLE");
        assert!((1..=6).contains(&answer.number("retry-after")), "{answer:?}");
    }
    let (after, told) = (upstream.all_look_ups().await, live.status().await.look_ups.unwrap());
    // Unless all of this took so long that one was tried again.
    if since.elapsed() < OPEN {
        assert_eq!(after, asked);
        assert!(told.held_back >= held_back + 5, "{told:?}");
    }
    assert!(told.failed >= 5 && told.made >= told.failed, "{told:?}");
    // The feed is another thing.
    live.post(&json!({"text": "told beside an open breaker"})).await;
    upstream.calm().await;
    upstream.profile("held_0").await;
    let found = async || (live.client.get("/v1/profiles?handle=held_0").await.status == 200).then_some(());
    eventually("one look-up is tried, and then all are made", SOON, found).await;
    assert_eq!(live.status().await.breaker(), Breaker::Closed);
}

pub(super) async fn a_refresh_without_a_find_keeps_the_row(live: &Following) {
    let path = "/v1/profiles?handle=cached";
    let before = live.client.get(path).await.ok(200);
    live.upstream.faults(&json!({"error_share": 1, "error_status": 404})).await;
    let asked = live.upstream.look_ups("profile").await + live.upstream.look_ups("profile_by_handle").await;
    eventually("a refresh that finds nothing", SOON, async || {
        let found = live.client.get(path).await.ok(200);
        assert_eq!((&found["id"], &found["bio"]), (&before["id"], &before["bio"]));
        let now = live.upstream.look_ups("profile").await + live.upstream.look_ups("profile_by_handle").await;
        (now > asked).then_some(())
    })
    .await;
    live.upstream.calm().await;
    assert_eq!(live.client.get(path).await.ok(200)["id"], before["id"]);
}

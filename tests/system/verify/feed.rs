//! Without a configured upstream, pushed observations are the feed that lets a live key hear a no.

use serde_json::json;

use super::{DAY_MS, MINUTE_MS, ask, claim, expect};
use crate::harness::{
    Client, SOON, Service, Store, eventually,
    ingest::{author, thesis, token},
    iso, now_ms, time,
};

on_stores_of_their_own![a_live_no_needs_a_feed];

async fn a_live_no_needs_a_feed(store: Store) {
    let service = Service::on(&store, |setup| setup).await;
    let project = service.project().await;
    let client = project.live().await;
    service.settle().await;
    nobody_can_say_no(&client).await;
    // One push without observations is a heartbeat.
    service.ingest("live", Vec::new()).await;
    a_feed_says_no(&service, &client).await;
}

async fn nobody_can_say_no(client: &Client) {
    let now = now_ms();
    for end in [now - 14 * MINUTE_MS, now, now + DAY_MS] {
        let answer = ask(client, &claim("nobody_live", "LIVEVER", now - 30 * MINUTE_MS, end)).await;
        answer.error(503, "UPSTREAM_UNAVAILABLE");
        assert!(answer.number("retry-after") > 0);
    }
    // A window that ended long ago needs no feed.
    let over = claim("nobody_live", "LIVEVER", now - 30 * MINUTE_MS, now - 16 * MINUTE_MS);
    expect(client, &over, "PROFILE_NOT_FOUND", [false; 5], None).await;
}

async fn a_feed_says_no(service: &Service, client: &Client) {
    let now = now_ms();
    let at = now - 30 * MINUTE_MS;
    let asked = claim("nobody_live", "LIVEVER", at, now);
    let heard = async || (ask(client, &asked).await.status == 200).then_some(());
    eventually("the feed is known everywhere", SOON, heard).await;
    let verdict = expect(client, &asked, "PROFILE_NOT_FOUND", [false; 5], None).await;
    assert!((now - MINUTE_MS..=now_ms()).contains(&time(&verdict["freshness"], "upstream_synced_at")));
    let on = token("solana", "LiveVerMint", "LIVEVER");
    let posted = thesis("live-ver", &author("u-live-ver", "live_ver"), &on, "to the moon", at);
    let id = service.post("live", posted).await;
    expect(client, &claim("live_ver", "NOTHING", at, now), "TOKEN_NOT_FOUND", [true, false, false, false, false], None)
        .await;
    let elsewhen = [true, true, false, true, false];
    expect(client, &claim("live_ver", "LIVEVER", at + 1, now), "NO_THESIS_IN_WINDOW", elsewhen, None).await;
    let mut asked = json!({"handle": "live_ver", "token": "LIVEVER", "created_after": iso(at), "contains": "sun"});
    expect(client, &asked, "TEXT_NOT_FOUND", [true; 5], Some(false)).await;
    asked["contains"] = json!("MOON");
    let verified = expect(client, &asked, "VERIFIED", [true; 5], Some(true)).await;
    assert_eq!((&verified["thesis_id"], &verified["livemode"]), (&json!(id), &json!(true)));
}

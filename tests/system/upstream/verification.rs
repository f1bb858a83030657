//! Verification asks the upstream before it says that there is no thesis.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{SMALL, assert_public, new, quiet, without_backfill};
use crate::harness::{
    Answer, Following, SOON, Store, Upstream, eventually, iso, now_ms, reference, text, thesis_id, time,
};

on_stores_of_their_own![a_claim_is_compared_with_the_upstream];

const MINUTE_MS: i64 = 60_000;
/// Clients that verify at once.
const AT_ONCE: usize = 8;
/// Tries to see no look-up: now and then the service compares a sample of tokens.
const TRIES: usize = 4;

async fn a_claim_is_compared_with_the_upstream(store: Store) {
    let live = Following::start(&store, Upstream::start(SMALL).await, without_backfill).await;
    let author = live.upstream.profile("Witness").await;
    let on = live.upstream.token("base", "0x00000000000000000000000000000000000000aC", "CLAIM").await;
    what_the_feed_did_not_tell_is_synced(&live, &author, &on).await;
    what_matches_or_ended_long_ago_needs_no_sync(&live, &author, &on).await;
    claims_at_once_share_a_sync(&live, &author).await;
    who_is_unknown_is_looked_up_first(&live, &on).await;
    a_sync_that_fails_beside_the_feed_is_cached(&live, &author, &on).await;
    without_sync_and_feed_there_is_no_answer(&live, &author, &on).await;
}

/// A claim of the last ten minutes.
fn claim(author: &Value, on: &Value, said: &str) -> Value {
    json!({
        "handle": author["handle"], "token": reference(on), "contains": said,
        "created_after": iso(now_ms() - 10 * MINUTE_MS),
    })
}

async fn verify(live: &Following, claim: &Value) -> Answer {
    live.client.post("/v1/verify/thesis", claim).await
}

/// Demands a verdict and where it is from; gives when the upstream was last synced.
async fn expect(live: &Following, claim: &Value, reason: &str, served_from: &str) -> Option<i64> {
    let answer = verify(live, claim).await;
    let verdict = answer.ok(200);
    let freshness = &verdict["freshness"];
    assert_eq!((text(&verdict, "reason"), text(freshness, "served_from")), (reason, served_from), "{verdict}");
    assert_eq!(verdict["livemode"], true);
    assert_public(&answer.text);
    (!freshness["upstream_synced_at"].is_null()).then(|| time(freshness, "upstream_synced_at"))
}

async fn what_the_feed_did_not_tell_is_synced(live: &Following, author: &Value, on: &Value) {
    let thesis = live.upstream.post(&quiet(author, on, "Silent gold")).await;
    let gone = live.upstream.post(&quiet(author, on, "Silent silver")).await;
    live.upstream.delete_quietly(&gone).await;
    let before = now_ms();
    let asked = claim(author, on, "SILENT GOLD");
    let answer = verify(live, &asked).await.ok(200);
    assert_eq!((text(&answer, "reason"), text(&answer, "thesis_id")), ("VERIFIED", &*thesis_id(&thesis)));
    assert_eq!((text(&answer, "token"), &answer["created_at"]), ("$CLAIM", &thesis["created_at"]));
    assert_eq!(text(&answer["freshness"], "served_from"), "live_sync");
    let synced_at = time(&answer["freshness"], "upstream_synced_at");
    assert!((before..=now_ms()).contains(&synced_at), "{answer}");
    // Author and token were looked up for it, each once.
    let asked_for = [live.upstream.look_ups("profile_by_handle").await, live.upstream.look_ups("token").await];
    assert_eq!(asked_for, [1, 1]);
    // What it brought is there for everybody, with its event, and what is deleted is not.
    let row = live.row(&thesis, |_| true).await;
    let path = format!("/v1/events?types=thesis.created&token={}", reference(on));
    let events = live.client.all(&path).await;
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["data"]["thesis_id"], &events[0]["source"]), (&row["id"], &json!("upstream")));
    live.is_gone(&gone).await;
    // The feed tells it later: nothing is doubled.
    live.upstream.tell("thesis.created", &thesis).await;
    live.has_read_all().await;
    assert_eq!(live.client.all(&path).await, events);
    // An edit that was not told counts, too.
    live.upstream.edit(&thesis, &json!({"text": "Silent platinum", "quiet": true})).await;
    expect(live, &claim(author, on, "platinum"), "VERIFIED", "live_sync").await;
    expect(live, &claim(author, on, "gold"), "TEXT_NOT_FOUND", "live_sync").await;
}

async fn what_matches_or_ended_long_ago_needs_no_sync(live: &Following, author: &Value, on: &Value) {
    let hour = 60 * MINUTE_MS;
    let mut old = claim(author, on, "platinum");
    (old["created_after"], old["created_before"]) = (json!(iso(now_ms() - 2 * hour)), json!(iso(now_ms() - hour)));
    for (asked, reason) in [(claim(author, on, "platinum"), "VERIFIED"), (old, "NO_THESIS_IN_WINDOW")] {
        let mut is_quiet = false;
        for _ in 0..TRIES {
            let before = live.upstream.look_ups("theses").await;
            let synced_at = expect(live, &asked, reason, "cache").await;
            // The feed's last frame, or the last sync.
            assert!(synced_at.is_some_and(|at| at <= now_ms()), "{reason}");
            is_quiet |= live.upstream.look_ups("theses").await == before;
        }
        assert!(is_quiet, "{reason}: each time the upstream was asked");
    }
}

async fn claims_at_once_share_a_sync(live: &Following, author: &Value) {
    let on = live.upstream.token("base", "0x00000000000000000000000000000000000000bC", "ATONCE").await;
    live.post(&new(author, &on, "told")).await;
    let thesis = live.upstream.post(&quiet(author, &on, "Together")).await;
    live.upstream.faults(&json!({"latency_ms": 400})).await;
    let before = live.upstream.look_ups("theses").await;
    let asked = claim(author, &on, "together");
    for answer in join_all((0..AT_ONCE).map(|_| verify(live, &asked))).await {
        let verdict = answer.ok(200);
        assert_eq!((text(&verdict, "reason"), text(&verdict, "thesis_id")), ("VERIFIED", &*thesis_id(&thesis)));
    }
    // A second one only for who came after the first.
    let lookups = live.upstream.look_ups("theses").await - before;
    assert!((1..=2).contains(&lookups), "{lookups} syncs of {AT_ONCE} claims at once");
    live.upstream.calm().await;
}

async fn who_is_unknown_is_looked_up_first(live: &Following, on: &Value) {
    let unknown = json!({"handle": "No_Witness"});
    for _ in 0..2 {
        let before = live.upstream.all_look_ups().await;
        let verdict = verify(live, &claim(&unknown, on, "x")).await.ok(200);
        assert_eq!((text(&verdict, "reason"), &verdict["profile_id"]), ("PROFILE_NOT_FOUND", &Value::Null));
        assert!(live.upstream.all_look_ups().await <= before + 1);
    }
    let author = live.upstream.profile("Late_Witness").await;
    let by_id = json!({
        "profile_id": author["id"], "token": "base:0x00000000000000000000000000000000000000cC",
        "created_after": iso(now_ms() - MINUTE_MS),
    });
    let verdict = verify(live, &by_id).await.ok(200);
    assert_eq!((text(&verdict, "reason"), &verdict["checks"]["identity"]), ("TOKEN_NOT_FOUND", &json!(true)));
    // One that the feed did not tell of posts on a known token.
    live.upstream.post(&quiet(&author, on, "Late word")).await;
    expect(live, &claim(&author, on, "late"), "VERIFIED", "live_sync").await;
    // While the upstream refuses, nobody can say that somebody is unknown.
    live.upstream.faults(&json!({"error_share": 1})).await;
    let stranger = json!({"handle": "Stranger"});
    verify(live, &claim(&stranger, on, "x")).await.error(503, "UPSTREAM_UNAVAILABLE");
    live.upstream.calm().await;
}

async fn a_sync_that_fails_beside_the_feed_is_cached(live: &Following, author: &Value, on: &Value) {
    live.upstream.faults(&json!({"error_share": 1})).await;
    live.upstream.post(&quiet(author, on, "Copper")).await;
    let frame = live.post(&new(author, on, "told beside it")).await.1;
    let synced_at = expect(live, &claim(author, on, "copper"), "TEXT_NOT_FOUND", "cache").await;
    // The feed's last frame is younger than the last sync.
    assert!(synced_at.is_some_and(|at| at + 5_000 >= time(&frame, "created_at")), "{synced_at:?} {frame}");
    live.upstream.calm().await;
    let asked = claim(author, on, "copper");
    let synced = async || {
        let verdict = verify(live, &asked).await;
        (verdict.status == 200 && verdict.json()["reason"] == "VERIFIED").then_some(())
    };
    eventually("a sync finds it", SOON, synced).await;
}

async fn without_sync_and_feed_there_is_no_answer(live: &Following, author: &Value, on: &Value) {
    live.upstream.post(&quiet(author, on, "Nickel")).await;
    live.upstream.faults(&json!({"error_share": 1, "refuse_feed": true, "disconnect_share": 1})).await;
    // Breaks the connection.
    live.upstream.tell("thesis.pinned", &json!({})).await;
    let asked = claim(author, on, "nickel");
    let refused = async || Some(verify(live, &asked).await).filter(|answer| answer.status == 503);
    eventually("the feed is down", SOON, refused).await.error(503, "UPSTREAM_UNAVAILABLE");
    // What is known to be true stays so, and what ended long ago needs no upstream.
    expect(live, &claim(author, on, "copper"), "VERIFIED", "cache").await;
    let mut old = claim(author, on, "nickel");
    old["created_before"] = json!(iso(now_ms() - 20 * MINUTE_MS));
    old["created_after"] = json!(iso(now_ms() - 30 * MINUTE_MS));
    expect(live, &old, "NO_THESIS_IN_WINDOW", "cache").await;
    live.upstream.calm().await;
    let verdict = eventually("the upstream is back", SOON, async || {
        let answer = verify(live, &asked).await;
        (answer.status == 200).then(|| answer.json()).filter(|verdict| verdict["reason"] == "VERIFIED")
    })
    .await;
    assert_eq!(text(&verdict["freshness"], "served_from"), "live_sync");
    live.is_up().await;
}

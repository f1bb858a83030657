//! `admin ingest` where an upstream is followed.

use serde_json::{Value, json};

use super::{SMALL, new, quiet, without_backfill};
use crate::{
    admin::admin,
    harness::{Following, SOON, Store, Upstream, assert_fields, eventually, now_ms, reference, text, time},
};

on_stores_of_their_own![operators_see_how_it_goes_and_fetch_what_is_missing];

const FIELDS: [&str; 9] =
    ["state", "position", "last_frame_at", "lag_ms", "last_error", "breaker", "frames", "refused", "look_ups"];

async fn operators_see_how_it_goes_and_fetch_what_is_missing(store: Store) {
    let settings = |setup| without_backfill(setup).set("SVC_UPSTREAM_REFRESH_SECONDS", "1");
    let live = Following::start(&store, Upstream::start(SMALL).await, settings).await;
    the_status_tells_what_the_feed_told(&live).await;
    a_backfill_brings_what_it_names(&live).await;
}

fn status(live: &Following) -> Value {
    let status = admin(&live.service, &["ingest", "status"]);
    assert_fields(&status, &FIELDS);
    assert_fields(&status["look_ups"], &["made", "failed", "held_back"]);
    status
}

async fn the_status_tells_what_the_feed_told(live: &Following) {
    let before = now_ms();
    for number in 0..3 {
        live.upstream.post(&json!({"text": format!("number {number}")})).await;
    }
    live.has_read_all().await;
    let told = status(live);
    assert_eq!((text(&told, "state"), text(&told, "breaker"), &told["last_error"]), ("up", "closed", &Value::Null));
    assert_eq!(told["position"], live.upstream.state().await["position"]);
    assert!((before - 60_000..=now_ms()).contains(&time(&told, "last_frame_at")), "{told}");
    assert!(told["lag_ms"].as_i64().is_some_and(|lag| (0..60_000).contains(&lag)), "{told}");
    assert_eq!((&told["frames"]["thesis.created"], &told["refused"]), (&json!(3), &json!({})));
    live.upstream.tell("thesis.pinned", &json!({})).await;
    live.has_read_all().await;
    assert_eq!(status(live)["refused"], json!({"unknown_type": 1}));
    // Down, with the reason, and up again.
    live.upstream.faults(&json!({"refuse_feed": true, "disconnect_share": 1})).await;
    live.upstream.tell("thesis.pinned", &json!({})).await;
    let is_down = async || Some(status(live)).filter(|told| told["state"] == "down");
    let told = eventually("the feed is down", SOON, is_down).await;
    let said = async || status(live)["last_error"].as_str().map(str::to_owned);
    let error = eventually("it says why", SOON, said).await;
    assert!(!error.is_empty(), "{told}");
    live.upstream.calm().await;
    live.is_up().await;
}

/// Fetches the changes of the last day; gives how many theses came, and how many of them were new.
fn backfill(live: &Following, wanted: &[&str]) -> (u64, u64) {
    let done = admin(&live.service, &[&["ingest", "backfill", "--since", "24h"], wanted].concat());
    assert_fields(&done, &["pages", "theses", "applied"]);
    let number = |name: &str| done[name].as_u64().unwrap();
    assert!(number("pages") >= 1, "{done}");
    (number("theses"), number("applied"))
}

async fn a_backfill_brings_what_it_names(live: &Following) {
    let [author, other] = [live.upstream.profile("Missed").await, live.upstream.profile("Also_missed").await];
    let on = live.upstream.token("base", "0x00000000000000000000000000000000000000b1", "FILL").await;
    let elsewhere = live.upstream.token("base", "0x00000000000000000000000000000000000000b2", "FULL").await;
    let mut theses = Vec::new();
    for (author, on) in [(&author, &on), (&other, &on), (&author, &elsewhere), (&other, &elsewhere)] {
        theses.push(live.upstream.post(&quiet(author, on, "missed")).await);
    }
    let token = reference(&on);
    assert_eq!(backfill(live, &["--token", &token]), (2, 2));
    assert_eq!(live.client.all(&format!("/v1/theses?token={token}")).await.len(), 2);
    live.is_gone(&theses[2]).await;
    // Once more brings nothing new.
    assert_eq!(backfill(live, &["--token", &token]), (2, 0));
    assert_eq!(backfill(live, &["--profile", text(&author, "id")]), (2, 1));
    live.row(&theses[2], |_| true).await;
    live.is_gone(&theses[3]).await;
    // What was edited and deleted without a word is put right.
    live.upstream.edit(&theses[0], &json!({"text": "put right", "quiet": true})).await;
    live.upstream.delete_quietly(&theses[1]).await;
    live.post(&new(&author, &on, "told meanwhile")).await;
    let (fetched, _) = backfill(live, &["--all"]);
    assert_eq!(fetched, live.upstream.number("theses").await);
    live.agrees(2 * SOON).await;
    assert_eq!(backfill(live, &["--all"]), (fetched, 0));
}

//! Everything that the upstream may do wrong: each fault in turn, then all together.

use serde_json::{Value, json};

use super::{new, quiet, without_backfill};
use crate::harness::{
    Client, Following, Process, SOON, Store, Upstream, World, eventually, iso, now_ms, reference, text, thesis_id,
};

on_stores_of_their_own![no_fault_makes_a_difference_once_it_is_over];

const BEGINNING: World = World { profiles: 15, tokens: 6, theses: 0 };
/// Theses that come under a fault, and their number a second.
const THESES: u64 = 60;
const RATE: f64 = 120.0;

async fn no_fault_makes_a_difference_once_it_is_over(store: Store) {
    let upstream = Upstream::start(BEGINNING).await;
    let settings = |setup| without_backfill(setup).set("SVC_UPSTREAM_REFRESH_SECONDS", "1");
    let mut live = Following::start(&store, upstream, settings).await;
    garbage_is_refused_by_kind_and_skipped(&live).await;
    for (fault, is_told) in [
        (json!({"duplicate_share": 0.5}), true),
        (json!({"disorder_share": 0.5, "duplicate_share": 0.2}), true),
        (json!({"garbage_share": 0.5}), true),
        (json!({"disconnect_share": 0.1}), true),
        (json!({"gap_share": 0.05}), true),
        (json!({"gap_share": 0.05, "error_share": 0.5}), true),
        (json!({"gap_share": 0.05, "error_share": 0.5, "error_status": 429, "retry_after_s": 1}), true),
        (json!({"gap_share": 0.05, "cut_share": 0.5}), true),
        (json!({"gap_share": 0.05, "latency_ms": 300}), true),
        (json!({"lose_positions": true, "disconnect_share": 0.1}), true),
        (json!({"refuse_feed": true, "disconnect_share": 0.1}), true),
        // Nothing tells of it: a gap that is told later brings it.
        (json!({"omit_share": 0.3}), false),
        (everything(), false),
    ] {
        println!("{fault}");
        stays_true_under(&live, &fault, is_told).await;
    }
    lost_positions_are_made_good(&mut live).await;
    live.finds_all().await;
    let logs: String = live.service.processes.iter().map(Process::log).collect();
    assert!(!logs.contains("never to be believed") && !logs.contains("never-stored"));
}

/// All faults that do not stop the feed for good.
fn everything() -> Value {
    json!({
        "latency_ms": 20, "error_share": 0.2, "error_status": 503, "retry_after_s": 1, "cut_share": 0.1,
        "disconnect_share": 0.05, "duplicate_share": 0.2, "disorder_share": 0.2, "garbage_share": 0.2,
        "omit_share": 0.1, "gap_share": 0.02, "lose_positions": true,
    })
}

/// Lets the world live under a fault; then service and upstream agree.
async fn stays_true_under(live: &Following, fault: &Value, is_told: bool) {
    let theses = live.upstream.number("theses").await + THESES;
    live.upstream.faults(fault).await;
    live.upstream.rate(RATE).await;
    let posted = async || (live.upstream.number("theses").await >= theses).then_some(());
    eventually("theses under the fault", SOON, posted).await;
    live.upstream.calm().await;
    if !is_told {
        live.upstream.tell_a_gap_of_everything().await;
    }
    live.agrees(3 * SOON).await;
    live.is_up().await;
}

/// What comes while nobody follows, and is told by nothing, is looked up when the position is lost.
async fn lost_positions_are_made_good(live: &mut Following) {
    live.has_read_all().await;
    live.service.end(0, "KILL").await;
    let token = live.upstream.truth("tokens").await.remove(0);
    let author = live.upstream.profile("Unheard").await;
    let unheard = live.upstream.post(&quiet(&author, &token, "Unheard while the position is lost")).await;
    live.upstream.faults(&json!({"lose_positions": true})).await;
    live.service.start_again(0).await;
    live.service.is_ready().await;
    live.row(&unheard, |_| true).await;
    live.agrees(3 * SOON).await;
    live.upstream.calm().await;
}

async fn garbage_is_refused_by_kind_and_skipped(live: &Following) {
    let (author, other) = (live.upstream.profile("Known").await, live.upstream.profile("Other").await);
    let token = live.upstream.truth("tokens").await.remove(0);
    let (thesis, row) = live.post(&new(&author, &token, "Known and true")).await;
    let with = |field: &str, value: Value| {
        let mut thesis = thesis.clone();
        thesis["id"] = json!("x_1");
        thesis[field] = value;
        thesis
    };
    let mut anothers = thesis.clone();
    (anothers["profile"], anothers["text"]) = (other, json!("never to be believed"));
    anothers["updated_at"] = json!(iso(now_ms()));
    let later = json!(iso(now_ms() + 3_600_000));
    let frames = [
        ("malformed", "thesis.created", json!("{\"id\":\"x_1\"")),
        ("malformed", "thesis.created", json!([1, 2])),
        ("malformed", "profile.updated", json!("null")),
        ("field", "thesis.created", with("id", json!(7))),
        ("field", "thesis.created", with("text", Value::Null)),
        ("field", "thesis.created", with("profile", json!("u_1"))),
        ("field", "thesis.engagement", json!({"likes": 5, "updated_at": iso(now_ms())})),
        ("field", "token.updated", json!({"chain": "base", "address": "0x1", "updated_at": iso(now_ms())})),
        ("text_too_long", "thesis.created", with("text", json!("x".repeat(64 * 1024 + 1)))),
        ("frame_too_large", "thesis.created", with("text", json!("x".repeat(256 * 1024 + 1)))),
        ("ahead", "thesis.created", with("updated_at", later.clone())),
        ("ahead", "thesis.created", with("created_at", later)),
        ("unknown_type", "thesis.pinned", with("text", json!("never to be believed"))),
        ("contradiction", "thesis.updated", anothers),
    ];
    let mut expected = live.status().await.refused;
    for (kind, event, data) in &frames {
        live.upstream.tell(event, data).await;
        *expected.entry((*kind).to_owned()).or_default() += 1;
    }
    // What follows is applied all the same, and so is what is right beside a wrong optional field.
    let mut beside = live.upstream.post(&quiet(&author, &token, "Right beside")).await;
    (beside["likes"], beside["replies"]) = (json!("many"), json!(12));
    live.upstream.tell("thesis.created", &beside).await;
    let found = live.row(&beside, |_| true).await;
    assert_eq!((&found["likes"], &found["replies"], text(&found, "text")), (&Value::Null, &json!(12), "Right beside"));
    live.upstream.edit(&beside, &json!({"likes": 1, "replies": 2})).await;
    live.row(&beside, |row| row["likes"] == 1 && row["replies"] == 2).await;
    live.has_read_all().await;
    let status = live.status().await;
    assert_eq!(status.refused, expected);
    for kind in ["thesis.created", "thesis.engagement"] {
        assert!(status.frames.get(kind).is_some_and(|count| *count > 0), "{kind}: {:?}", status.frames);
    }
    assert_eq!(live.row(&thesis, |_| true).await, row);
    is_unknown(&live.client, "x_1").await;
    let on = live.client.get(&format!("/v1/tokens/{}", reference(&token))).await.ok(200);
    assert_eq!((&on["thesis_count"], text(&on, "symbol")), (&json!(2), &*format!("${}", text(&token, "symbol"))));
}

async fn is_unknown(client: &Client, upstream_id: &str) {
    let path = format!("/v1/theses/{}", thesis_id(&json!({"id": upstream_id})));
    client.get(&path).await.error(404, "THESIS_NOT_FOUND");
}

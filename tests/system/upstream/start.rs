//! The first start and later ones: what is fetched, and where the feed goes on.

use serde_json::json;

use super::{SMALL, without_backfill};
use crate::harness::{Following, Process, SOON, Setup, Store, Upstream, World, eventually, text};

on_stores_of_their_own![
    a_first_start_fetches_and_a_later_one_goes_on,
    a_clean_stop_leaves_nothing_to_fetch_again,
    a_kill_after_the_first_frame_loses_no_place,
];

/// More theses than two pages of a look-up hold.
const BEGINNING: World = World { profiles: 20, tokens: 8, theses: 450 };

async fn a_first_start_fetches_and_a_later_one_goes_on(store: Store) {
    let upstream = Upstream::start(BEGINNING).await;
    let settings = |setup: Setup| setup.set("SVC_UPSTREAM_REFRESH_SECONDS", "1");
    let mut live = Following::start(&store, upstream, settings).await;
    live.agrees(3 * SOON).await;
    let searched = live.finds_all().await;
    assert!(searched > BEGINNING.theses / 2, "{searched}");
    assert!(live.upstream.look_ups("theses").await >= 3);

    // While it is away all look-ups fail: the feed alone brings what was missed, from the position that is kept.
    let mut stream = live.client.stream("?types=thesis.created").await;
    live.upstream.post(&json!({"text": "before it stops"})).await;
    let first = stream.next_of("thesis.created").await;
    for signal in ["TERM", "KILL"] {
        live.upstream.faults(&json!({"error_share": 1})).await;
        // Some of them arrive while it dies.
        live.upstream.rate(100.0).await;
        live.service.end(0, signal).await;
        let away = live.upstream.post(&json!({"text": "while it is away"})).await;
        let gone = live.upstream.post(&json!({"text": "deleted while it is away"})).await;
        live.upstream.delete(&gone).await;
        live.upstream.edit(&away, &json!({"text": "edited while it is away", "likes": 77})).await;
        live.upstream.rate(0.0).await;
        live.service.start_again(0).await;
        live.service.is_ready().await;
        live.is_up().await;
        let row = live.row(&away, |row| row["likes"] == 77).await;
        assert_eq!(text(&row, "text"), "edited while it is away");
        live.has_every_thesis(3 * SOON).await;
        live.upstream.calm().await;
        live.agrees(3 * SOON).await;
    }
    // Each was told once to those who were listening, over both ends.
    let mut stream = live.client.resume("?types=thesis.created", first.cursor()).await;
    let events = live.client.all("/v1/events?types=thesis.created&limit=100").await;
    let at = events.iter().position(|event| event["id"] == first.data["id"]).unwrap();
    let told: Vec<_> = stream.take(at).await.into_iter().map(|frame| frame.data).collect();
    assert!(events[..at].iter().rev().eq(&told), "{} events are not the {at}", told.len());
    assert!(at > 4, "{at}");
}

/// The log's messages when look-ups of missing changes begin and end.
const BEGIN: &str = "\"looking up what the feed did not tell\"";
const END: &str = "\"looked up what the feed did not tell\"";

async fn a_clean_stop_leaves_nothing_to_fetch_again(store: Store) {
    let mut live = Following::start(&store, Upstream::start(SMALL).await, |setup| setup).await;
    let core = |live: &Following| live.service.processes.first().map(Process::log).unwrap();
    let has_ended = async || core(&live).contains(END).then_some(());
    eventually("the first start has fetched all", SOON, has_ended).await;
    live.service.end(0, "TERM").await;
    assert_eq!(core(&live).matches(BEGIN).count(), 1);
    let look_ups = live.upstream.look_ups("theses").await;
    live.service.start_again(0).await;
    live.service.is_ready().await;
    live.is_up().await;
    live.post(&json!({"text": "after the restart"})).await;
    live.service.end(0, "TERM").await;
    assert_eq!(core(&live).matches(BEGIN).count(), 0);
    assert_eq!(live.upstream.look_ups("theses").await, look_ups);
}

/// No start fetches earlier changes. So one that does not find the place of the killed one misses all changes since.
async fn a_kill_after_the_first_frame_loses_no_place(store: Store) {
    let upstream = Upstream::start(SMALL).await;
    upstream.faults(&json!({"refuse_feed": true})).await;
    let mut live = Following::start_refused(&store, upstream, without_backfill).await;
    let unheard = live.upstream.post(&json!({"text": "while the feed is refused"})).await;
    live.upstream.calm().await;
    eventually("the first frame", SOON, async || live.try_status().await?.position).await;
    live.service.end(0, "KILL").await;
    let away = live.upstream.post(&json!({"text": "while it is away"})).await;
    live.service.start_again(0).await;
    live.service.is_ready().await;
    for thesis in [unheard, away] {
        live.row(&thesis, |_| true).await;
    }
}

//! The home page's events, for visitors without a key. `docs.rs` checks its links.

use crate::harness::{SOON, Service, eventually, ids, rows};

on_both_stores![the_page_shows_the_newest_events_of_the_sandbox_alone];

/// The ids of events in a text, in order.
fn shown(html: &str) -> Vec<String> {
    html.split("data-id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

async fn the_page_shows_the_newest_events_of_the_sandbox_alone(service: &Service) {
    let (one, other) = (service.test_client().await, service.test_client().await);
    let (_, own) = other.thesis("@me", "$HOME", "seen by one project").await;
    assert!(own["id"].is_string(), "{own}");
    let visitor = service.browser();
    eventually("the page and a key of a new project show the same events", SOON, async || {
        let list = one.get("/v1/events?limit=12").await.ok(200);
        let events = ids(rows(&list));
        let page = shown(&visitor.get("/").await.is(200).html);
        let strip = shown(&visitor.get("/home/events").await.is(200).html);
        assert!(!strip.iter().any(|id| own["id"] == **id), "an event of a project is public");
        (events.len() == 12 && page == events && strip == events).then_some(())
    })
    .await;
}

#[tokio::test]
async fn new_events_come_by_themselves() {
    let service = Service::embedded(|setup| setup.set("SVC_SANDBOX_TICK_SECONDS", "1"));
    let visitor = service.browser();
    let mut first: Option<String> = None;
    eventually("a new event on the strip", SOON, async || {
        let newest = shown(&visitor.get("/home/events").await.is(200).html).into_iter().next()?;
        (*first.get_or_insert_with(|| newest.clone()) != newest).then_some(())
    })
    .await;
}

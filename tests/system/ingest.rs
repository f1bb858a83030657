//! Data that enters by `IngestService`, and what customers see of it.

mod changes;
mod names;
pub(crate) mod refused;

use serde_json::{Value, json};
use thesis_proto::{
    time::from_millis,
    v1::{self, observation::Observed},
};

use crate::harness::{
    Client, Project, SOON, Service, eventually, ids,
    ingest::{author, deletion, engagement, revision, seen_at, thesis, token},
    now_ms, rows, text, time,
};

on_both_stores![
    what_comes_before_its_thesis_is_remembered,
    a_live_thesis_reaches_live_keys_alone,
    derived_live_events_say_so,
    the_same_thesis_twice_is_one,
    order_is_kept_within_a_call,
    the_longest_theses_fill_a_page_and_a_stream,
];

const HOUR_MS: i64 = 3_600_000;

fn on_chain() -> v1::TokenObservation {
    token("solana", "IngestMint", "ING")
}

/// A thesis of `@writer` on `$ING`.
fn posted(upstream_id: &str, said: &str, created_at: i64) -> v1::ThesisObservation {
    thesis(upstream_id, &author("u-writer", "writer"), &on_chain(), said, created_at)
}

async fn start(service: &Service) -> (Project, Client, String) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    (project, client, dataset)
}

async fn one(service: &Service, dataset: &str, observation: v1::Observation) -> v1::IngestResult {
    service.ingest(dataset, vec![observation]).await.remove(0)
}

async fn get(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/theses/{id}")).await.ok(200)
}

/// The events that were not derived.
async fn told(client: &Client, filter: &str) -> Vec<Value> {
    client.all(&format!("/v1/events?types=thesis.created,profile.updated&limit=100&{filter}")).await
}

async fn what_comes_before_its_thesis_is_remembered(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - HOUR_MS;
    for early in [deletion("gone"), engagement("liked", 7, 3)] {
        let first = one(service, &dataset, revision(5, early.clone())).await;
        assert!(first.applied && first.event_id.is_none());
        client.get(&format!("/v1/theses/{}", first.id)).await.error(404, "THESIS_NOT_FOUND");
        assert!(!one(service, &dataset, revision(5, early)).await.applied, "once more is nothing");
    }
    assert!(client.all("/v1/theses?token=ING").await.is_empty());
    let gone = one(service, &dataset, revision(4, Observed::Thesis(posted("gone", "x", at)))).await;
    assert!(gone.applied && gone.event_id.is_none(), "{gone:?}");
    client.get(&format!("/v1/theses/{}", gone.id)).await.error(404, "THESIS_NOT_FOUND");
    let liked = one(service, &dataset, revision(4, Observed::Thesis(posted("liked", "y", at)))).await;
    let row = get(&client, &liked.id).await;
    assert_eq!((text(&row, "text"), &row["likes"], &row["replies"]), ("y", &json!(7), &json!(3)));
    assert_eq!(client.all("/v1/theses?token=ING").await, [row]);
    assert_eq!(told(&client, "token=ING").await.len(), 1);
    let on = client.get("/v1/tokens/ING").await.ok(200);
    assert_eq!((&on["thesis_count"], &on["unique_thesis_authors"]), (&json!(1), &json!(1)));
    let claim = json!({"handle": "writer", "token": "ING", "contains": "x",
        "created_after": crate::harness::iso(at), "created_before": crate::harness::iso(at)});
    let verdict = client.post("/v1/verify/thesis", &claim).await.ok(200);
    assert_eq!((&verdict["verified"], text(&verdict, "reason")), (&json!(false), "TEXT_NOT_FOUND"));
    service.learn(&dataset, revision(1, deletion("liked"))).await;
    let verdict = client.post("/v1/verify/thesis", &claim).await.ok(200);
    assert_eq!(text(&verdict, "reason"), "THESIS_DELETED");
}

async fn a_live_thesis_reaches_live_keys_alone(service: &Service) {
    let project = service.project().await;
    let (live, test) = (project.live().await, project.test().await);
    let mut stream = live.stream("?types=thesis.created&token=LIVEONE").await;
    let at = now_ms() - 5_000;
    let by = v1::ProfileObservation {
        display_name: Some("Live One".to_owned()),
        avatar_url: Some("https://example.com/1.png".to_owned()),
        ..author("u-live-one", "live_one")
    };
    let on = v1::TokenObservation { name: Some("One".to_owned()), ..token("solana", "LiveOneMint", "liveone") };
    let mut seen = thesis("live-one", &by, &on, "Great 🚀\nnews", at);
    (seen.likes, seen.updated_at) = (Some(7), Some(from_millis(at + 1_000)));
    let result = one(service, "live", seen_at(now_ms(), Observed::Thesis(seen))).await;
    assert!(result.applied && result.id.starts_with("th_"));
    let row = get(&live, &result.id).await;
    let expected = json!({
        "object": "thesis", "id": result.id,
        "profile": {
            "id": row["profile"]["id"], "handle": "@live_one", "display_name": "Live One",
            "avatar_url": "https://example.com/1.png",
        },
        "token": {
            "id": row["token"]["id"], "symbol": "$liveone", "name": "One", "chain": "solana", "address": "LiveOneMint",
        },
        "text": "Great 🚀\nnews", "public_url": null, "likes": 7, "replies": null,
        "created_at": crate::harness::iso(at), "updated_at": crate::harness::iso(at + 1_000),
        "source": "upstream", "livemode": true,
    });
    assert_eq!(row, expected);
    let event = live.get(&format!("/v1/events/{}", result.event_id.unwrap())).await.ok(200);
    assert_eq!((text(&event, "source"), &event["livemode"], event.get("test")), ("upstream", &json!(true), None));
    let data = json!({
        "thesis_id": result.id, "profile": row["profile"], "token": row["token"], "text": row["text"],
        "created_at": row["created_at"], "public_url": null,
    });
    assert_eq!(event["data"], data);
    assert!(time(&event, "created_at") >= at);
    assert_eq!(stream.next().await.data, event);
    for filter in
        ["token=LIVEONE", "handle=live_one", "profile=u-live-one&chain=solana", "token=liveone&handle=Live_One"]
    {
        assert_eq!(live.all(&format!("/v1/theses?{filter}")).await, std::slice::from_ref(&row), "{filter}");
        assert!(test.all(&format!("/v1/theses?{filter}")).await.is_empty());
    }
    assert_eq!(told(&live, "token=LIVEONE").await, std::slice::from_ref(&event));
    test.get(&format!("/v1/theses/{}", result.id)).await.error(404, "THESIS_NOT_FOUND");
    test.get(&format!("/v1/events/{}", text(&event, "id"))).await.error(404, "EVENT_NOT_FOUND");
    // A live profile's event names the upstream as its source too.
    let renamed = revision(i64::MAX / 2, Observed::Profile(author("u-live-one", "live_uno")));
    let id = one(service, "live", renamed).await.event_id.unwrap();
    let event = live.get(&format!("/v1/events/{id}")).await.ok(200);
    assert_eq!((text(&event, "type"), text(&event, "source")), ("profile.updated", "upstream"));
    assert_eq!(event["data"]["changed"], json!(["handle", "display_name", "avatar_url"]));
}

async fn derived_live_events_say_so(service: &Service) {
    let live = service.project().await.live().await;
    let on = token("base", "0xde51", "DERLIVE");
    for (number, by) in ["der-a", "der-b", "der-a"].into_iter().enumerate() {
        let seen = thesis(&format!("derived-{number}"), &author(by, by), &on, "x", now_ms() - 1_000);
        service.post("live", seen).await;
    }
    let row = live.get("/v1/theses?token=DERLIVE&limit=1").await.ok(200)["data"][0].take();
    let derived = eventually("derived live events", SOON, async || {
        let types = "types=token.activity,token.thesis_velocity";
        let events = live.all(&format!("/v1/events?{types}&token=DERLIVE")).await;
        let counted =
            |kind: &str, field: &str| events.iter().any(|event| event["type"] == kind && event["data"][field] == 3);
        let all = counted("token.activity", "thesis_count_1h") && counted("token.thesis_velocity", "last_1h");
        all.then_some(events)
    })
    .await;
    for event in &derived {
        assert_eq!((text(event, "source"), &event["livemode"]), ("derived", &json!(true)));
        assert_eq!(event["data"]["token"], row["token"]);
    }
    let newest = derived.iter().find(|event| event["type"] == "token.activity").unwrap();
    assert_eq!((&newest["data"]["unique_authors_24h"], &newest["data"]["latest_thesis_id"]), (&json!(2), &row["id"]));
}

async fn the_same_thesis_twice_is_one(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms();
    let seen = seen_at(at, Observed::Thesis(posted("twice", "x", at)));
    let results = service.ingest(&dataset, vec![seen.clone(), seen.clone()]).await;
    assert_eq!((results[0].applied, results[1].applied), (true, false));
    let again = one(service, &dataset, seen).await;
    assert!(!again.applied && again.event_id.is_none());
    assert!(results.iter().all(|result| result.id == again.id));
    // The same for many calls at once.
    let calls = (0..8).map(|number| {
        let seen = seen_at(at + number, Observed::Thesis(posted("at-once", "x", at)));
        service.ingest(&dataset, vec![seen.clone(), seen])
    });
    let results: Vec<v1::IngestResult> = futures::future::join_all(calls).await.concat();
    assert_eq!(results.iter().filter(|result| result.event_id.is_some()).count(), 1);
    assert!(results.iter().all(|result| result.id == results[0].id));
    assert_eq!(client.all("/v1/theses?handle=writer").await.len(), 2);
    assert_eq!(told(&client, "handle=writer").await.len(), 2);
    assert_eq!(client.get("/v1/tokens/ING").await.ok(200)["thesis_count"], 2);
    let log = service.check_log(&dataset).await;
    assert_eq!((log.gaps, log.duplicates, log.head), (0, 0, log.entries));
}

async fn order_is_kept_within_a_call(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - HOUR_MS;
    let mut seen: Vec<v1::Observation> = (0..300)
        .map(|number| {
            let by = author(&format!("u{}", number % 7), &format!("many{}", number % 7));
            let said = format!("number {number}");
            revision(number, Observed::Thesis(thesis(&format!("m{number}"), &by, &on_chain(), &said, at + number)))
        })
        .collect();
    seen.push(revision(900, engagement("m0", 1, 2)));
    seen.push(revision(901, deletion("m299")));
    let results = service.ingest(&dataset, seen).await;
    assert!(results.iter().all(|result| result.applied));
    let listed = client.all("/v1/theses?token=ING&sort=created_at_asc&limit=100").await;
    let expected: Vec<&str> = results[..299].iter().map(|result| &*result.id).collect();
    assert_eq!(ids(&listed), expected);
    assert_eq!((&listed[0]["likes"], &listed[0]["replies"]), (&json!(1), &json!(2)));
    let events = told(&client, "token=ING").await;
    let of: Vec<&str> = events.iter().rev().map(|event| text(&event["data"], "thesis_id")).collect();
    assert_eq!(of[..299], expected);
    assert_eq!(of.len(), 300);
    let log = service.check_log(&dataset).await;
    assert_eq!((log.gaps, log.duplicates, log.head), (0, 0, log.entries));
}

/// The longest theses allowed can be read: as a page, and as a stream.
async fn the_longest_theses_fill_a_page_and_a_stream(service: &Service) {
    let (project, client, dataset) = start(service).await;
    let (by, on) = (author("u-long", "long"), token("sandbox", "long-address", "LONG"));
    let mut stream = client.stream("?types=thesis.created&token=LONG").await;
    let text = "\u{1f680}".repeat(10_000);
    for batch in 0..25 {
        let theses = (0..4).map(|number| {
            let thesis = thesis(&format!("long-{batch}-{number}"), &by, &on, &text, now_ms() - 1_000);
            seen_at(now_ms(), Observed::Thesis(thesis))
        });
        service.ingest(&dataset, theses.collect()).await;
    }
    let page = client.get("/v1/theses?token=LONG&limit=100").await.ok(200);
    assert_eq!(rows(&page).len(), 100);
    let page = client.get("/v1/events?types=thesis.created&token=LONG&limit=100").await.ok(200);
    assert_eq!(rows(&page).len(), 100);
    assert_eq!(stream.take(100).await.len(), 100);
    drop(project);
}

//! Observations of what is known already: edits, deletions, figures, news of authors and tokens, and older ones.

use serde_json::{Value, json};
use thesis_proto::{
    time::from_millis,
    v1::{self, observation::Observed},
};

use super::{HOUR_MS, get, on_chain, one, posted, start, told};
use crate::harness::{
    Service, ids,
    ingest::{author, deletion, engagement, revision, seen_at, thesis, token},
    now_ms, text, time,
};

on_both_stores![
    an_edit_changes_the_row_and_no_event,
    a_deletion_takes_it_away_at_once,
    engagement_changes_figures_and_tells_nobody,
    what_is_older_changes_nothing,
    what_comes_beside_a_thesis_counts_by_its_time,
    a_thesis_brings_news_of_its_author,
];

async fn an_edit_changes_the_row_and_no_event(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - HOUR_MS;
    let id = service.learn(&dataset, revision(1, Observed::Thesis(posted("edited", "before", at)))).await;
    let (before, events) = (get(&client, &id).await, told(&client, "handle=writer").await);
    let mut edit = posted("edited", "after", at);
    edit.updated_at = Some(from_millis(at + 60_000));
    let result = one(service, &dataset, revision(2, Observed::Thesis(edit))).await;
    assert_eq!((result.applied, result.event_id, &result.id), (true, None, &id));
    let after = get(&client, &id).await;
    assert_eq!((text(&after, "text"), time(&after, "updated_at")), ("after", at + 60_000));
    assert_eq!((&after["created_at"], &after["profile"]), (&before["created_at"], &before["profile"]));
    assert_eq!(client.all("/v1/theses?token=ING").await, [after]);
    assert_eq!(told(&client, "handle=writer").await, events);
    assert_eq!(events[0]["data"]["text"], "before");
}

async fn a_deletion_takes_it_away_at_once(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let now = now_ms();
    let mut made = Vec::new();
    for number in 0..4 {
        let by = author(&format!("u-{}", number % 2), &format!("del{}", number % 2));
        let seen = thesis(&format!("d{number}"), &by, &on_chain(), "x", now - number * 1_000);
        made.push(service.post(&dataset, seen).await);
    }
    let events = told(&client, "token=ING").await;
    let gone = one(service, &dataset, revision(1, deletion("d1"))).await;
    assert_eq!((gone.applied, gone.event_id, &gone.id), (true, None, &made[1]));
    client.get(&format!("/v1/theses/{}", made[1])).await.error(404, "THESIS_NOT_FOUND");
    let left = [&*made[0], &*made[2], &*made[3]];
    for filter in ["token=ING", "chain=solana", "token=ING&chain=solana", "token=IngestMint&since=1h"] {
        assert_eq!(ids(&client.all(&format!("/v1/theses?{filter}")).await), left, "{filter}");
    }
    assert_eq!(ids(&client.all("/v1/theses?handle=del1").await), left[2..]);
    assert_eq!(ids(&client.all("/v1/theses?profile=u-1&token=ING").await), left[2..]);
    assert!(!ids(&client.all("/v1/theses?limit=100").await).contains(&&*made[1]));
    let on = client.get("/v1/tokens/ING").await.ok(200);
    let counts = ["thesis_count", "unique_thesis_authors", "recent_thesis_count"].map(|name| on[name].as_i64());
    assert_eq!(counts, [Some(3), Some(2), Some(3)]);
    let activity = client.get("/v1/tokens/ING/activity").await.ok(200);
    assert_eq!((&activity["thesis_count_24h"], &activity["unique_authors_24h"]), (&json!(3), &json!(2)));
    assert_eq!(ids(activity["recent_theses"].as_array().unwrap()), left);
    assert_eq!(client.get("/v1/tokens/ING/thesis-velocity").await.ok(200)["last_1h"], 3);
    // Its event stays as it was sent.
    assert_eq!(told(&client, "token=ING").await, events);
    assert_eq!(events.len(), 4);
    for event in &events {
        assert_eq!(client.get(&format!("/v1/events/{}", text(event, "id"))).await.ok(200), *event);
    }
    // A repeat changes nothing, and the thesis does not come back.
    for again in [deletion("d1"), engagement("d1", 1, 1)] {
        assert!(!one(service, &dataset, revision(9, again)).await.applied);
    }
    let seen = thesis("d1", &author("u-1", "del1"), &on_chain(), "back", now - 1_000);
    assert!(!one(service, &dataset, revision(10, Observed::Thesis(seen))).await.applied);
    assert_eq!(client.all("/v1/theses?token=ING").await.len(), 3);
    // An author's last thesis takes the author out of the count; the last thesis of all leaves a token with zeros.
    for (number, authors) in [(3, 1), (0, 1), (2, 0)] {
        service.learn(&dataset, revision(1, deletion(&format!("d{number}")))).await;
        assert_eq!(client.get("/v1/tokens/ING").await.ok(200)["unique_thesis_authors"], authors, "{number}");
    }
    let on = client.get("/v1/tokens/ING").await.ok(200);
    assert_eq!((&on["thesis_count"], &on["last_activity_at"]), (&json!(0), &Value::Null));
}

async fn engagement_changes_figures_and_tells_nobody(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - 1_000;
    let id = service.learn(&dataset, revision(1, Observed::Thesis(posted("liked", "x", at)))).await;
    let (before, events) = (get(&client, &id).await, told(&client, "handle=writer").await);
    assert_eq!((&before["likes"], &before["replies"]), (&Value::Null, &Value::Null));
    for (number, likes, replies) in [(2, 5, 0), (3, 4, 9), (4, i64::from(u32::MAX) * 9, 9)] {
        let result = one(service, &dataset, revision(number, engagement("liked", likes, replies))).await;
        assert_eq!((result.applied, result.event_id, &result.id), (true, None, &id));
        let mut expected = before.clone();
        (expected["likes"], expected["replies"]) = (json!(likes), json!(replies));
        assert_eq!(get(&client, &id).await, expected);
        assert_eq!(client.all("/v1/theses?token=ING").await, [expected]);
    }
    let unknown = v1::EngagementObservation { upstream_id: "liked".to_owned(), likes: None, replies: None };
    assert!(one(service, &dataset, revision(5, Observed::Engagement(unknown))).await.applied);
    assert_eq!(get(&client, &id).await, before);
    assert_eq!(told(&client, "handle=writer").await, events);
}

async fn what_is_older_changes_nothing(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - HOUR_MS;
    let state = async || {
        let row = client.all("/v1/theses?handle=writer").await;
        (row, client.get("/v1/profiles/u-writer").await.ok(200), client.get("/v1/tokens/IngestMint").await.ok(200))
    };
    let named = |name: &str| v1::ProfileObservation { bio: Some(name.to_owned()), ..author("u-writer", "writer") };
    let called =
        |name: &str| v1::TokenObservation { name: Some(name.to_owned()), ..token("solana", "IngestMint", "ING") };
    let changes = |said: &str| {
        let figures = i64::try_from(said.len()).unwrap();
        [
            Observed::Thesis(posted("aged", said, at)),
            engagement("aged", figures, figures),
            Observed::Profile(named(said)),
            Observed::Token(called(said)),
        ]
    };
    let bring = async |version: i64, said: &str| {
        let seen = changes(said).map(|seen| revision(version, seen));
        service.ingest(&dataset, seen.into()).await.iter().map(|result| result.applied).collect::<Vec<_>>()
    };
    bring(4, "first").await;
    assert_eq!(bring(6, "the newest").await[..1], [true]);
    let newest = state().await;
    let events = told(&client, "handle=writer").await;
    assert_eq!((text(&newest.0[0], "text"), text(&newest.1, "bio")), ("the newest", "the newest"));
    assert_eq!(text(&newest.2, "name"), "the newest");
    for version in [5, 6, 1, 0, -1] {
        assert_eq!(bring(version, "older").await, [false; 4], "{version}");
    }
    assert_eq!(state().await, newest);
    assert_eq!(told(&client, "handle=writer").await, events);
    // Where the upstream has no revisions, the time of the observation takes their place.
    let (_, other, dataset) = start(service).await;
    let bring = async |observed_at: i64, said: &str| {
        let seen = changes(said).map(|seen| seen_at(observed_at, seen));
        service.ingest(&dataset, seen.into()).await
    };
    bring(at + 1_000, "first").await;
    bring(at + 3_000, "newest").await;
    for observed_at in [at + 2_000, at + 3_000, at] {
        assert!(bring(observed_at, "older").await.iter().all(|result| !result.applied));
    }
    assert_eq!(other.all("/v1/theses?handle=writer").await[0]["text"], "newest");
    assert_eq!(other.get("/v1/profiles/writer").await.ok(200)["bio"], "newest");
}

async fn what_comes_beside_a_thesis_counts_by_its_time(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - HOUR_MS;
    let by = |name: &str| v1::ProfileObservation { bio: Some(name.to_owned()), ..author("u-beside", "beside") };
    let on = |name: &str| v1::TokenObservation { name: Some(name.to_owned()), ..on_chain() };
    let bring = async |number: i64, observed_at: i64, name: &str| {
        let seen = thesis(&format!("b{number}"), &by(name), &on(name), "x", at);
        service.learn(&dataset, seen_at(observed_at, Observed::Thesis(seen))).await;
    };
    let names = async || {
        let (profile, token) = ("/v1/profiles/beside", "/v1/tokens/IngestMint");
        let (profile, token) = (client.get(profile).await.ok(200), client.get(token).await.ok(200));
        (text(&profile, "bio").to_owned(), text(&token, "name").to_owned())
    };
    let expect = async |name: &str| assert_eq!(names().await, (name.to_owned(), name.to_owned()));
    bring(1, at + 5_000, "first").await;
    expect("first").await;
    bring(2, at + 1_000, "older").await;
    expect("first").await;
    // An older observation of profile or token alone does not change them either.
    for older in [Observed::Profile(by("older")), Observed::Token(on("older"))] {
        assert!(!one(service, &dataset, seen_at(at + 2_000, older)).await.applied);
    }
    expect("first").await;
    bring(3, at + 6_000, "second").await;
    expect("second").await;
    for newer in [Observed::Profile(by("third")), Observed::Token(on("third"))] {
        assert!(one(service, &dataset, seen_at(at + 7_000, newer)).await.applied);
    }
    expect("third").await;
    bring(4, at + 6_500, "older").await;
    expect("third").await;
}

async fn a_thesis_brings_news_of_its_author(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms();
    service.learn(&dataset, seen_at(at - 9_000, Observed::Thesis(posted("n1", "x", at)))).await;
    let before = client.get("/v1/profiles/writer").await.ok(200);
    let renamed = thesis("n2", &author("u-writer", "author"), &on_chain(), "x", at);
    service.learn(&dataset, seen_at(at - 1_000, Observed::Thesis(renamed))).await;
    let after = client.get("/v1/profiles/author").await.ok(200);
    assert_eq!(after["id"], before["id"]);
    client.get("/v1/profiles/writer").await.error(404, "PROFILE_NOT_FOUND");
    let events = client.all("/v1/events?types=profile.updated").await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["data"], json!({"profile": after, "changed": ["handle"]}));
    assert_eq!(client.all("/v1/theses?handle=author").await.len(), 2);
}

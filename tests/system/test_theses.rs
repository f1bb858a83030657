//! `POST /v1/test/theses`.

use serde_json::{Value, json};

use crate::harness::{Client, SOON, Service, assert_fields, eventually, ids, now_ms, rows, text, time};

on_both_stores![
    a_thesis_and_its_event_are_made,
    only_the_projects_test_keys_see_it,
    new_names_become_the_projects_own,
    names_of_the_sandbox_are_referred_to,
    text_is_kept_as_it_is,
    live_keys_are_refused,
    many_at_once_all_arrive,
    the_oldest_beyond_the_plans_number_are_deleted,
    new_names_beyond_the_plans_number_are_refused,
];

const PATH: &str = "/v1/test/theses";

async fn a_thesis_and_its_event_are_made(service: &Service) {
    let client = service.test_client().await;
    let body = json!({"handle": "writer", "token": "NEW", "text": "to the moon"});
    let made = client.post(PATH, &body).await.ok(201);
    assert_fields(&made, &["object", "thesis", "event"]);
    assert_eq!(made["object"], "test_thesis");
    let (thesis, event) = (&made["thesis"], &made["event"]);
    assert_eq!((text(thesis, "object"), text(thesis, "text")), ("thesis", "to the moon"));
    assert_eq!(
        (&thesis["likes"], &thesis["replies"], &thesis["public_url"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!((&thesis["source"], &thesis["livemode"]), (&json!("sandbox"), &json!(false)));
    assert!((now_ms() - time(thesis, "created_at")).abs() < 60_000);
    assert_eq!(thesis["created_at"], thesis["updated_at"]);

    assert_fields(event, &["object", "id", "type", "created_at", "livemode", "source", "test", "data"]);
    assert_eq!((text(event, "object"), text(event, "type")), ("event", "thesis.created"));
    assert_eq!(
        (&event["test"], &event["livemode"], &event["source"]),
        (&json!(true), &json!(false), &json!("sandbox"))
    );
    assert!(text(event, "id").starts_with("evt_"));
    let data = json!({
        "thesis_id": thesis["id"], "profile": thesis["profile"], "token": thesis["token"], "text": "to the moon",
        "created_at": thesis["created_at"], "public_url": null,
    });
    assert_eq!(event["data"], data);

    assert_eq!(client.get(&format!("/v1/theses/{}", text(thesis, "id"))).await.ok(200), *thesis);
    assert_eq!(client.get(&format!("/v1/events/{}", text(event, "id"))).await.ok(200), *event);
    let newest = client.get("/v1/theses?limit=1").await.ok(200);
    assert_eq!(rows(&newest)[0], *thesis);
    let events = client.get("/v1/events?limit=1&types=thesis.created").await.ok(200);
    assert_eq!(rows(&events)[0], *event);
}

async fn only_the_projects_test_keys_see_it(service: &Service) {
    let project = service.project().await;
    let (thesis, event) = project.test().await.thesis("writer", "NEW", "ours").await;
    let (thesis, event) = (text(&thesis, "id"), text(&event, "id"));
    let sees = async |client: Client| {
        let listed = client.get("/v1/theses?limit=100").await.ok(200);
        let events = client.get("/v1/events?limit=100").await.ok(200);
        let by_token = client.get("/v1/theses?token=NEW").await.ok(200);
        let seen = [
            ids(rows(&listed)).contains(&thesis),
            ids(rows(&by_token)).contains(&thesis),
            ids(rows(&events)).contains(&event),
            client.get(&format!("/v1/theses/{thesis}")).await.status == 200,
            client.get(&format!("/v1/events/{event}")).await.status == 200,
        ];
        assert!(seen.iter().all(|part| *part == seen[0]), "{seen:?}");
        seen[0]
    };
    assert!(sees(project.test().await).await);
    assert!(!sees(project.live().await).await);
    assert!(!sees(service.test_client().await).await);
}

async fn new_names_become_the_projects_own(service: &Service) {
    let (one, other) = (service.test_client().await, service.test_client().await);
    let first = one.thesis("@Writer.1", "$moon-2", "first").await.0;
    let (profile, token) = (&first["profile"], &first["token"]);
    assert_eq!((text(profile, "handle"), text(token, "symbol")), ("@Writer.1", "$MOON-2"));
    assert_eq!((&profile["display_name"], &profile["avatar_url"]), (&Value::Null, &Value::Null));
    assert_eq!((&token["name"], &token["chain"]), (&Value::Null, &json!("sandbox")));
    assert!(!text(token, "address").is_empty());
    // A name means the same in every spelling.
    for (handle, symbol) in [("Writer.1", "MOON-2"), ("@writer.1", "moon-2"), ("WRITER.1", "$Moon-2")] {
        let again = one.thesis(handle, symbol, "again").await.0;
        assert_eq!((&again["profile"], &again["token"]), (profile, token), "{handle} {symbol}");
    }
    let elsewhere = other.thesis("Writer.1", "MOON-2", "elsewhere").await.0;
    assert_ne!(elsewhere["profile"]["id"], profile["id"]);
    assert_ne!(elsewhere["token"]["id"], token["id"]);
    assert_ne!(elsewhere["token"]["address"], token["address"]);
    for filter in ["handle=writer.1", "token=MOON-2"] {
        assert_eq!(one.all(&format!("/v1/theses?{filter}")).await.len(), 4, "{filter}");
    }
    let reference = format!("token={}&profile={}", text(token, "address"), text(profile, "id"));
    assert_eq!(one.all(&format!("/v1/theses?{reference}")).await.len(), 4);
    assert!(other.all(&format!("/v1/theses?{reference}")).await.is_empty());
}

async fn names_of_the_sandbox_are_referred_to(service: &Service) {
    let client = service.test_client().await;
    let shared = client.all("/v1/theses?token=RUN&handle=sbx_runner").await;
    for (handle, symbol) in [("sbx_runner", "RUN"), ("@SBX_Runner", "$run")] {
        let made = client.thesis(handle, symbol, "ours, on what is everybody's").await.0;
        assert_eq!((&made["profile"], &made["token"]), (&shared[0]["profile"], &shared[0]["token"]));
    }
    assert_eq!(client.all("/v1/theses?token=RUN&handle=sbx_runner").await.len(), shared.len() + 2);
    let elsewhere = service.test_client().await;
    assert_eq!(elsewhere.all("/v1/theses?token=RUN&handle=sbx_runner").await.len(), shared.len());
}

async fn text_is_kept_as_it_is(service: &Service) {
    let client = service.test_client().await;
    let longest = "🚀".repeat(2_000);
    for said in ["x", "line\nline\r\n\ttab", "\"quoted\" \\ </script> \u{2028} ünï 夜", " spaces ", &longest] {
        let (thesis, event) = client.thesis("writer", "РУНА-2", said).await;
        assert_eq!((text(&thesis, "text"), text(&event["data"], "text")), (said, said));
        assert_eq!(client.get(&format!("/v1/theses/{}", text(&thesis, "id"))).await.ok(200)["text"], said);
    }
}

async fn live_keys_are_refused(service: &Service) {
    let live = service.project().await.live().await;
    let body = json!({"handle": "writer", "token": "NEW", "text": "x"});
    live.post(PATH, &body).await.error(403, "TEST_KEY_REQUIRED");
    live.post(PATH, &json!({"wrong": 1})).await.error(403, "TEST_KEY_REQUIRED");
}

async fn many_at_once_all_arrive(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let mut making = tokio::task::JoinSet::new();
    for number in 0..100 {
        let client = client.clone();
        making.spawn(async move {
            let (thesis, event) = client.thesis("crowd", "CROWD", &format!("number {number}")).await;
            (text(&thesis, "id").to_owned(), text(&event, "id").to_owned())
        });
    }
    let (mut theses, mut events): (Vec<String>, Vec<String>) = making.join_all().await.into_iter().unzip();
    theses.sort();
    events.sort();
    for (path, expected) in [
        ("/v1/theses?handle=crowd&limit=9", &theses),
        ("/v1/theses?token=CROWD&limit=33", &theses),
        ("/v1/events?handle=crowd&limit=9", &events),
        ("/v1/events?token=CROWD&types=thesis.created&limit=100", &events),
    ] {
        let all = client.all(path).await;
        let mut found = ids(&all);
        found.sort_unstable();
        assert_eq!(found, *expected, "{path}");
    }
    let log = service.check_log(&project.dataset()).await;
    assert_eq!((log.gaps, log.duplicates, log.head), (0, 0, log.entries));
}

async fn the_oldest_beyond_the_plans_number_are_deleted(service: &Service) {
    let (project, other) = (service.project_on("five").await, service.project_on("five").await);
    let (client, other) = (project.test().await, other.test().await);
    let untouched = other.thesis("writer", "KEPT", "of another project").await.0;
    let mut created = Vec::new();
    for number in 0..12 {
        created.push(client.thesis("writer", "KEPT", &format!("number {number}")).await.0);
    }
    // Two may have the same time; their ids decide then.
    created.sort_by_key(|thesis| (time(thesis, "created_at"), text(thesis, "id").to_owned()));
    let (deleted, kept) = created.split_at(7);
    let newest: Vec<&str> = kept.iter().rev().map(|thesis| text(thesis, "id")).collect();
    let are_deleted = async || {
        let listed = client.all("/v1/theses?token=KEPT").await;
        let token = client.get("/v1/tokens/KEPT").await.ok(200);
        (ids(&listed) == newest && token["thesis_count"] == 5 && token["recent_thesis_count"] == 5).then_some(())
    };
    eventually("the oldest are deleted", SOON, are_deleted).await;
    for thesis in deleted {
        client.get(&format!("/v1/theses/{}", text(thesis, "id"))).await.error(404, "THESIS_NOT_FOUND");
    }
    let at = &deleted[0]["created_at"];
    let claim = json!({"handle": "writer", "token": "KEPT", "created_after": at, "created_before": at});
    let verdict = client.post("/v1/verify/thesis", &claim).await.ok(200);
    assert_eq!((text(&verdict, "reason"), &verdict["verified"]), ("THESIS_DELETED", &json!(false)));
    assert_eq!(ids(&other.all("/v1/theses?token=KEPT").await), [text(&untouched, "id")]);
    let log = service.check_log(&project.dataset()).await;
    assert_eq!((log.gaps, log.duplicates, log.head), (0, 0, log.entries));
}

async fn new_names_beyond_the_plans_number_are_refused(service: &Service) {
    let (project, other) = (service.project_on("five").await, service.project_on("five").await);
    let (client, other) = (project.test().await, other.test().await);
    let body = |handle: &str, token: &str| json!({"handle": handle, "token": token, "text": "x"});
    // Names of the sandbox do not count.
    client.thesis("sbx_runner", "RUN", "x").await;
    for number in 0..5 {
        client.thesis(&format!("writer{number}"), "FIRST", "x").await;
    }
    client.post(PATH, &body("writer5", "FIRST")).await.invalid(&["handle"]);
    for number in 0..4 {
        client.thesis("sbx_runner", &format!("NEW{number}"), "x").await;
    }
    client.post(PATH, &body("writer0", "NEW4")).await.invalid(&["token"]);
    client.post(PATH, &body("writer5", "NEW4")).await.invalid(&["handle", "token"]);
    // Names whose theses were deleted stay, and stay usable.
    client.thesis("@Writer0", "$first", "x").await;
    client.thesis("sbx_runner", "NEW3", "x").await;
    client.thesis("writer1", "RUN", "x").await;
    other.thesis("writer5", "NEW4", "x").await;
    // The refused names do not exist.
    client.get("/v1/profiles/@writer5").await.error(404, "PROFILE_NOT_FOUND");
    client.get("/v1/tokens/NEW4").await.error(404, "TOKEN_NOT_FOUND");
}

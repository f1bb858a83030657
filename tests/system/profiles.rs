//! `GET /v1/profiles`, `GET /v1/profiles/{ref}` and `GET /v1/profiles/{ref}/wallets`.

use serde_json::{Value, json};
use thesis_proto::{
    time::from_millis,
    v1::{self, Environment, observation::Observed},
};

use crate::harness::{
    ALL_SCOPES, Client, SOON, Service, TEST_KEY, assert_fields, eventually, ids,
    ingest::{author, revision, seen_at, thesis, token},
    now_ms, text, time,
};

on_both_stores![
    every_reference_finds_the_profile,
    exactly_one_name_is_given,
    case_does_not_count,
    the_first_reference_that_exists_wins,
    a_profile_is_whole,
    a_live_profile_is_a_live_keys_alone,
    a_rename_keeps_the_id_and_frees_the_handle,
    what_changed_is_told,
    wallets_are_behind_their_flag,
    profiles_are_heavy,
    what_another_project_owns_does_not_exist,
];

const FIELDS: [&str; 15] = [
    "object",
    "id",
    "handle",
    "display_name",
    "avatar_url",
    "profile_url",
    "bio",
    "verified",
    "source",
    "livemode",
    "created_at",
    "first_seen_at",
    "updated_at",
    "source_updated_at",
    // Only where the Wallets API is on and the profile has a wallet.
    "wallet",
];

async fn profile(client: &Client, reference: &str) -> Value {
    client.get(&format!("/v1/profiles/{reference}")).await.ok(200)
}

async fn every_reference_finds_the_profile(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let found = profile(&client, "sbx_1").await;
    assert_eq!(text(&found, "handle"), "@sbx_runner");
    let id = text(&found, "id");
    for path in ["/sbx_runner", "/@sbx_runner", "/%40sbx_runner", "/SBX_Runner", "/@SBX_RUNNER", "?handle=sbx_runner"] {
        assert_eq!(client.get(&format!("/v1/profiles{path}")).await.ok(200), found, "{path}");
    }
    for path in ["?handle=@Sbx_Runner", "?upstream_user_id=sbx_1", &format!("/{id}"), &format!("?id={id}")] {
        assert_eq!(client.get(&format!("/v1/profiles{path}")).await.ok(200), found, "{path}");
    }
    // Each of the three parameters takes only its own kind of name.
    for query in ["id=sbx_1", "id=sbx_runner", "handle=sbx_1", &format!("handle={id}"), "upstream_user_id=sbx_runner"] {
        client.get(&format!("/v1/profiles?{query}")).await.error(404, "PROFILE_NOT_FOUND");
    }
    // A thesis' author is found, even one that only a test has made.
    let by_test = client.thesis("Writer", "PROFILES", "x").await.0["profile"].clone();
    let found = profile(&client, "writer").await;
    for field in ["id", "handle", "display_name", "avatar_url"] {
        assert_eq!(found[field], by_test[field]);
    }
    assert_eq!(profile(&client, text(&by_test, "id")).await, found);
    client.get("/v1/profiles/nobody").await.error(404, "PROFILE_NOT_FOUND");
}

async fn exactly_one_name_is_given(service: &Service) {
    let client = service.test_client().await;
    for query in [
        "",
        "?ref=sbx_1",
        "?id=fp_1&handle=sbx_runner",
        "?handle=sbx_runner&upstream_user_id=sbx_1",
        "?id=fp_1&handle=sbx_runner&upstream_user_id=sbx_1",
    ] {
        client.get(&format!("/v1/profiles{query}")).await.error(422, "VALIDATION_FAILED");
    }
}

async fn the_first_reference_that_exists_wins(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    // Somebody's handle is another's upstream id.
    let observed = [author("first", "second"), author("second", "third")].map(Observed::Profile);
    let results = service.ingest(&dataset, observed.map(|seen| revision(1, seen)).into()).await;
    let [first, second] = [&results[0].id, &results[1].id];
    for (path, id) in [
        ("/second", second),
        ("/@second", first),
        ("?handle=second", first),
        ("?upstream_user_id=second", second),
        ("/first", first),
        ("/third", second),
    ] {
        assert_eq!(client.get(&format!("/v1/profiles{path}")).await.ok(200)["id"], **id, "{path}");
    }
    // A parameter for an id never takes a handle.
    for query in ["id=second", "id=@second", "id=third", "upstream_user_id=third", "upstream_user_id=@second"] {
        client.get(&format!("/v1/profiles?{query}")).await.error(404, "PROFILE_NOT_FOUND");
    }
}

async fn case_does_not_count(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    let (odos, strasse) = (author("u-odos", "ΟΔΟΣ"), author("u-strasse", "Straße"));
    let on = token("solana", "CaseMint", "οδος");
    let posted = service.post(&dataset, thesis("case", &odos, &on, "x", now_ms())).await;
    service.learn(&dataset, revision(1, Observed::Profile(strasse))).await;
    for name in ["ΟΔΟΣ", "οδος", "οδοσ"] {
        assert_eq!(text(&profile(&client, name).await, "handle"), "@ΟΔΟΣ", "{name}");
        assert_eq!(text(&profile(&client, &format!("@{name}")).await, "handle"), "@ΟΔΟΣ", "{name}");
        assert_eq!(text(&client.get(&format!("/v1/tokens/{name}")).await.ok(200), "symbol"), "$οδος", "{name}");
        for query in [format!("handle={name}"), format!("token={name}"), format!("token=${name}&handle=@{name}")] {
            assert_eq!(ids(&client.all(&format!("/v1/theses?{query}")).await), [&*posted], "{query}");
            let events = client.all(&format!("/v1/events?types=thesis.created&{query}")).await;
            assert_eq!(events.len(), 1, "{query}");
            assert_eq!(events[0]["data"]["thesis_id"], posted, "{query}");
        }
        let asked = json!({"handle": name, "token": name, "created_after": crate::harness::iso(now_ms() - 60_000)});
        assert_eq!(client.post("/v1/verify/thesis", &asked).await.ok(200)["thesis_id"], posted, "{name}");
    }
    for name in ["STRASSE", "straße", "Strasse"] {
        assert_eq!(text(&profile(&client, name).await, "handle"), "@Straße", "{name}");
    }
    // The same handle in another case is still held.
    let renamed = author("u-odos", "οδοσ");
    service.learn(&dataset, revision(2, Observed::Profile(renamed))).await;
    for name in ["ΟΔΟΣ", "οδος", "οδοσ"] {
        assert_eq!(text(&profile(&client, name).await, "handle"), "@οδοσ", "{name}");
    }
}

async fn a_profile_is_whole(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let now = now_ms();
    let told = v1::ProfileObservation {
        display_name: Some("Ada 🚀".to_owned()),
        avatar_url: Some("https://example.com/a.png".to_owned()),
        profile_url: Some("https://example.com/ada".to_owned()),
        bio: Some("Two\nlines".to_owned()),
        verified: Some(true),
        created_at: Some(from_millis(now - 1_000_000)),
        source_updated_at: Some(from_millis(now - 500)),
        ..author("u-ada", "Ada")
    };
    let id = service.learn(&project.dataset(), revision(1, Observed::Profile(told))).await;
    assert!(id.starts_with("fp_"));
    let found = profile(&client, "ada").await;
    assert_fields(&found, &FIELDS[..14]);
    assert_eq!((&found["object"], &found["id"], &found["handle"]), (&json!("profile"), &json!(id), &json!("@Ada")));
    assert_eq!(
        (&found["display_name"], &found["bio"], &found["verified"]),
        (&json!("Ada 🚀"), &json!("Two\nlines"), &json!(true))
    );
    assert_eq!(
        (text(&found, "avatar_url"), text(&found, "profile_url")),
        ("https://example.com/a.png", "https://example.com/ada")
    );
    assert_eq!((time(&found, "created_at"), time(&found, "source_updated_at")), (now - 1_000_000, now - 500));
    assert!((0..60_000).contains(&(time(&found, "first_seen_at") - now)));
    assert_eq!(found["first_seen_at"], found["updated_at"]);
    assert_eq!((text(&found, "source"), &found["livemode"]), ("sandbox", &json!(false)));
    // Fields that are unknown upstream are null.
    service.learn(&project.dataset(), revision(1, Observed::Profile(author("u-bare", "bare")))).await;
    let bare = profile(&client, "bare").await;
    assert_fields(&bare, &FIELDS[..14]);
    for field in ["display_name", "avatar_url", "profile_url", "bio", "verified", "created_at", "source_updated_at"] {
        assert!(bare[field].is_null(), "{field}");
    }
}

async fn a_live_profile_is_a_live_keys_alone(service: &Service) {
    let project = service.project().await;
    let (test, live) = (project.test().await, project.live().await);
    let id = service.learn("live", seen_at(now_ms(), Observed::Profile(author("u-liv", "liv")))).await;
    let found = profile(&live, "@liv").await;
    assert_eq!((&found["id"], &found["source"], &found["livemode"]), (&json!(id), &json!("upstream"), &json!(true)));
    for reference in ["liv", "u-liv", &id] {
        assert_eq!(profile(&live, reference).await, found);
        test.get(&format!("/v1/profiles/{reference}")).await.error(404, "PROFILE_NOT_FOUND");
    }
    live.get("/v1/profiles/sbx_runner").await.error(404, "PROFILE_NOT_FOUND");
}

async fn a_rename_keeps_the_id_and_frees_the_handle(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    let posted = thesis("p1", &author("u1", "old"), &token("solana", "RenameMint", "REN"), "by old", now_ms());
    let written = service.post(&dataset, posted).await;
    let before = profile(&client, "old").await;
    let mut stream = client.stream("?types=profile.updated&handle=New").await;
    let renamed = service.ingest(&dataset, vec![revision(2, Observed::Profile(author("u1", "New")))]).await.remove(0);
    assert!(renamed.applied);

    let after = profile(&client, "@new").await;
    assert_eq!((&after["id"], &after["handle"]), (&before["id"], &json!("@New")));
    assert_eq!(after["first_seen_at"], before["first_seen_at"]);
    client.get("/v1/profiles/old").await.error(404, "PROFILE_NOT_FOUND");
    client.get("/v1/profiles?handle=@old").await.error(404, "PROFILE_NOT_FOUND");
    assert_eq!(profile(&client, "u1").await, after);
    assert_eq!(profile(&client, text(&before, "id")).await, after);

    let event = client.get(&format!("/v1/events/{}", renamed.event_id.unwrap())).await.ok(200);
    assert_fields(&event, &["object", "id", "type", "created_at", "livemode", "source", "data"]);
    assert_eq!((text(&event, "type"), text(&event, "source")), ("profile.updated", "sandbox"));
    assert_eq!(event["data"], json!({"profile": after, "changed": ["handle"]}));
    assert_eq!(stream.next().await.data, event);
    assert_eq!(client.all("/v1/events?types=profile.updated&handle=new").await, [event]);

    // Theses show their author as it is now, their events as it was.
    let seen = client.get(&format!("/v1/theses/{written}")).await.ok(200);
    assert_eq!(text(&seen["profile"], "handle"), "@New");
    assert_eq!(client.all("/v1/theses?handle=new").await, [seen]);
    assert!(client.all("/v1/theses?handle=old").await.is_empty());
    let created = client.all("/v1/events?types=thesis.created&handle=old").await;
    assert_eq!(ids(&created).len(), 1);
    assert_eq!(text(&created[0]["data"]["profile"], "handle"), "@old");

    // The old handle is free for others.
    let other = service.learn(&dataset, revision(1, Observed::Profile(author("u2", "OLD")))).await;
    assert_eq!(profile(&client, "old").await["id"], other);
    assert_eq!(profile(&client, "new").await["id"], before["id"]);
}

async fn what_changed_is_told(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    let mut told = author("u1", "changing");
    service.learn(&dataset, revision(1, Observed::Profile(told.clone()))).await;
    assert!(client.all("/v1/events?types=profile.updated").await.is_empty());
    let mut number = 1;
    let mut tell = async |told: &v1::ProfileObservation| {
        number += 1;
        let seen = revision(number, Observed::Profile(told.clone()));
        let result = service.ingest(&dataset, vec![seen]).await.remove(0);
        let event = client.get(&format!("/v1/events/{}", result.event_id?)).await.ok(200);
        assert_eq!(event["data"]["profile"], profile(&client, "u1").await);
        Some(event["data"]["changed"].clone())
    };
    told.display_name = Some("A name".to_owned());
    assert_eq!(tell(&told).await, Some(json!(["display_name"])));
    told.avatar_url = Some("https://example.com/b.png".to_owned());
    told.profile_url = Some("https://example.com/b".to_owned());
    told.verified = Some(false);
    assert_eq!(tell(&told).await, Some(json!(["avatar_url", "profile_url", "verified"])));
    (told.bio, told.display_name) = (Some("About".to_owned()), None);
    assert_eq!(tell(&told).await, Some(json!(["display_name", "bio"])));
    // A change outside these six public fields causes no event.
    told.source_updated_at = Some(from_millis(now_ms()));
    told.created_at = Some(from_millis(now_ms() - 5_000));
    let wallet = v1::ObservedWallet {
        address: "0xabc".to_owned(),
        network: "ethereum".to_owned(),
        observed_at: Some(from_millis(now_ms())),
    };
    told.wallets = vec![wallet];
    assert_eq!(tell(&told).await, None);
    assert_eq!(tell(&told).await, None);
    assert_eq!(client.all("/v1/events?types=profile.updated&handle=changing").await.len(), 3);
    assert!(!profile(&client, "changing").await["source_updated_at"].is_null());
}

async fn wallets_are_behind_their_flag(service: &Service) {
    let project = service.project().await;
    let narrow = project.key(Environment::Test, &["events:read"]).await.client;
    for client in [project.test().await, narrow] {
        client.get("/v1/profiles/sbx_1/wallets").await.error(404, "FEATURE_DISABLED");
        client.get("/v1/profiles/nobody/wallets").await.error(404, "FEATURE_DISABLED");
    }
    let found = profile(&project.test().await, "sbx_1").await;
    assert!(found.get("wallet").is_none() && found.get("stale").is_none());
}

#[tokio::test]
async fn wallets_are_told_where_they_are_enabled() {
    let service = Service::embedded(|setup| setup.set("WALLETS_API_ENABLED", "true"));
    let project = service.project().await;
    let client = project.key(Environment::Test, &[ALL_SCOPES, &["wallets:read"][..]].concat()).await.client;
    let at = now_ms() - 5_000;
    let wallet = |address: &str, at: i64| v1::ObservedWallet {
        address: address.to_owned(),
        network: "ethereum".to_owned(),
        observed_at: Some(from_millis(at)),
    };
    let wallets = vec![wallet("0x1", at - 1_000), wallet("0x2", at), wallet("0x3", at), wallet("0x4", at - 2_000)];
    let told = v1::ProfileObservation { wallets, ..author("u1", "rich") };
    service.learn(&project.dataset(), revision(1, Observed::Profile(told))).await;
    service.learn(&project.dataset(), revision(1, Observed::Profile(author("u2", "poor")))).await;
    let found = profile(&client, "rich").await;
    assert_fields(&found, &FIELDS);
    // The one that was seen last, and the first of those seen at once.
    assert_eq!(found["wallet"], json!({"address": "0x2", "network": "ethereum"}));
    assert!(profile(&client, "poor").await.get("wallet").is_none());

    let listed = client.get("/v1/profiles/@Rich/wallets").await;
    assert!(listed.header("ratelimit-policy").starts_with("\"heavy\""));
    let row = |address: &str, at: i64| json!({"address": address, "network": "ethereum", "observed_at": crate::harness::iso(at)});
    let wallets = [row("0x1", at - 1_000), row("0x2", at), row("0x3", at), row("0x4", at - 2_000)];
    let short = json!({"id": found["id"], "handle": "@rich", "display_name": null, "avatar_url": null});
    let expected = json!({
        "object": "profile_wallets", "profile": short, "wallets": wallets, "livemode": false,
    });
    assert_eq!(listed.ok(200), expected);
    for reference in ["u1", text(&found, "id")] {
        assert_eq!(client.get(&format!("/v1/profiles/{reference}/wallets")).await.ok(200), expected);
    }
    assert_eq!(client.get("/v1/profiles/poor/wallets").await.ok(200)["wallets"], json!([]));
    client.get("/v1/profiles/nobody/wallets").await.error(404, "PROFILE_NOT_FOUND");
    client.get(&format!("/v1/profiles/{}/wallets", "x".repeat(81))).await.invalid(&["ref"]);
    // The scope is not a default one.
    let defaults = project.key(Environment::Test, &[]).await.client;
    defaults.get("/v1/profiles/rich/wallets").await.error(403, "INSUFFICIENT_SCOPE");
    // Without it a profile is shown without its wallet, looked up or searched for.
    let mut bare = found.clone();
    bare.as_object_mut().unwrap().remove("wallet");
    assert_eq!(profile(&defaults, "rich").await, bare);
    for (key, expected) in [(&client, &found), (&defaults, &bare)] {
        let shown = async || {
            let result = key.search("/v1/search?q=rich&types=profiles").await.ok(200);
            result["profiles"].as_array().and_then(|profiles| profiles.first()).cloned()
        };
        assert_eq!(eventually("the search finds it", SOON, shown).await, *expected);
    }
    // An event never shows one.
    let renamed = v1::ProfileObservation { wallets: vec![wallet("0x5", at)], ..author("u1", "richer") };
    service.learn(&project.dataset(), revision(2, Observed::Profile(renamed))).await;
    let events = client.all("/v1/events?types=profile.updated&handle=richer").await;
    assert_eq!(events.len(), 1);
    assert!(events[0]["data"]["profile"].get("wallet").is_none());
    // A key that is made at a start gets every scope that may be granted.
    let bootstrap = service.client(TEST_KEY).get("/v1/me").await.ok(200);
    assert!(bootstrap["scopes"].as_array().unwrap().contains(&json!("wallets:read")));
    wallets_cannot_be_read_once_the_flag_is_off(service, client.key()).await;
}

/// Starts the service again without the flag: a key that has the scope from before is shown no wallet.
async fn wallets_cannot_be_read_once_the_flag_is_off(mut service: Service, key: &str) {
    service.processes.clear();
    let process = service.setup.clone().set("WALLETS_API_ENABLED", "false").start();
    let client = Client::new(&process.address("http"), Some(key));
    let found = profile(&client, "richer").await;
    assert!(found.get("wallet").is_none(), "{found}");
    client.get("/v1/profiles/richer/wallets").await.error(404, "FEATURE_DISABLED");
}

async fn profiles_are_heavy(service: &Service) {
    let client = service.test_client().await;
    for path in ["/v1/profiles/sbx_1", "/v1/profiles?handle=nobody", "/v1/profiles"] {
        let policy = client.get(path).await.header("ratelimit-policy").to_owned();
        assert_eq!(policy, "\"heavy\";q=240;w=60", "{path}");
    }
    let narrow = service.project().await.key(Environment::Test, &["theses:read"]).await.client;
    narrow.get("/v1/profiles/sbx_1").await.error(403, "INSUFFICIENT_SCOPE");
    narrow.get("/v1/profiles").await.error(403, "INSUFFICIENT_SCOPE");
}

async fn what_another_project_owns_does_not_exist(service: &Service) {
    let made = service.test_client().await.thesis("hidden_writer", "SECRET", "x").await.0;
    let other = service.project().await;
    for client in [other.test().await, other.live().await] {
        let bytes = async |reference: &str| {
            let answer = client.get(&format!("/v1/profiles/{reference}")).await;
            answer.error(404, "PROFILE_NOT_FOUND");
            answer.same_everywhere()
        };
        let foreign = bytes(text(&made["profile"], "id")).await;
        assert_eq!(bytes("hidden_writer").await, foreign);
        assert_eq!(bytes("fp_never").await, foreign);
    }
}

//! What is looked up because somebody asks for it.

mod away;
mod wallets;

use futures::future::join_all;
use serde_json::{Value, json};
use thesis_proto::v1::Environment;

use super::{ADDRESS, SMALL, assert_public, new, without_backfill};
use crate::harness::{
    ALL_SCOPES, Following, SOON, Store, Upstream, assert_fields, eventually, iso, now_ms, profile_id, reference, text,
};

on_stores_of_their_own![what_is_asked_for_is_looked_up_once];

/// Seconds after which what is cached is looked up again.
const REFRESH: u64 = 2;
/// Clients that ask at once.
const AT_ONCE: usize = 10;

async fn what_is_asked_for_is_looked_up_once(store: Store) {
    let settings = |setup| {
        let setup = without_backfill(setup).set("WALLETS_API_ENABLED", "true");
        setup.set("SVC_UPSTREAM_REFRESH_SECONDS", &REFRESH.to_string())
    };
    let mut live = Following::start(&store, Upstream::start(SMALL).await, settings).await;
    an_unknown_handle_is_asked_for_once(&live).await;
    every_reference_is_looked_up(&live).await;
    a_token_is_looked_up_by_its_address(&live).await;
    lists_filters_and_test_keys_look_nothing_up(&live).await;
    let scopes = [ALL_SCOPES, &["wallets:read"][..]].concat();
    let holder = live.project.key(Environment::Live, &scopes).await.client;
    live.service.settle().await;
    wallets::only_public_and_authorized_ones_are_shown(&live, &holder).await;
    misses_are_remembered(&mut live).await;
    away::what_is_cached_is_stale_and_the_rest_is_refused(&live).await;
    away::the_breaker_stops_look_ups(&live).await;
    away::a_refresh_without_a_find_keeps_the_row(&live).await;
}

async fn an_unknown_handle_is_asked_for_once(live: &Following) {
    let profile = live.upstream.profile("Quiet_One").await;
    let before = live.upstream.all_look_ups().await;
    let asking = (0..AT_ONCE).map(|_| live.client.get("/v1/profiles?handle=quiet_ONE"));
    for answer in join_all(asking).await {
        let found = answer.ok(200);
        assert_eq!((text(&found, "id"), text(&found, "handle")), (&*profile_id(&profile), "@Quiet_One"));
        assert_eq!(
            (text(&found, "bio"), text(&found, "source"), &found["livemode"]),
            ("first", "upstream", &json!(true))
        );
        assert_eq!(found["source_updated_at"], profile["updated_at"]);
        assert!(found.get("stale").is_none() && found.get("wallet").is_none(), "{found}");
        assert_public(&answer.text);
    }
    assert_eq!(live.upstream.look_ups("profile_by_handle").await, 1);
    // A refresh may have come on top if they took that long.
    assert!(live.upstream.all_look_ups().await <= before + 2);
}

async fn every_reference_is_looked_up(live: &Following) {
    for path in ["/v1/profiles?upstream_user_id=", "/v1/profiles/"] {
        let profile = live.upstream.profile(&format!("By_id_{}", path.len())).await;
        let found = live.client.get(&format!("{path}{}", text(&profile, "id"))).await.ok(200);
        assert_eq!(text(&found, "id"), profile_id(&profile), "{path}");
        assert_eq!(
            live.client.get(&format!("/v1/profiles?id={}", profile_id(&profile))).await.ok(200)["id"],
            found["id"]
        );
    }
    for path in ["/v1/profiles/by_ref_13", "/v1/profiles/@By_Ref_14"] {
        let profile = live.upstream.profile(path.trim_start_matches("/v1/profiles/").trim_start_matches('@')).await;
        assert_eq!(live.client.get(path).await.ok(200)["id"], profile_id(&profile), "{path}");
    }
    // The service's own ids mean nothing to the upstream.
    let unknown = live.upstream.profile("By_fp").await;
    let before = live.upstream.all_look_ups().await;
    live.client.get(&format!("/v1/profiles?id={}", profile_id(&unknown))).await.error(404, "PROFILE_NOT_FOUND");
    assert_eq!(live.upstream.all_look_ups().await, before);
}

async fn a_token_is_looked_up_by_its_address(live: &Following) {
    let on = live.upstream.token("ethereum", ADDRESS, "quietETH").await;
    for path in ["/v1/tokens/quietETH", &format!("/v1/tokens/{ADDRESS}"), "/v1/tokens/QUIETeth/activity"] {
        live.client.get(path).await.error(404, "TOKEN_NOT_FOUND");
    }
    assert_eq!((live.upstream.look_ups("token").await, live.upstream.look_ups("tokens_by_symbol").await), (0, 0));
    let upper = format!("ethereum:0x{}", ADDRESS[2..].to_uppercase());
    let path = format!("/v1/tokens/{upper}");
    let asking = (0..AT_ONCE).map(|_| live.client.get(&path));
    for answer in join_all(asking).await {
        let found = answer.ok(200);
        assert_eq!((text(&found, "symbol"), text(&found, "address")), ("$quietETH", ADDRESS));
        assert_eq!((&found["thesis_count"], &found["last_activity_at"]), (&json!(0), &Value::Null));
        assert!(found.get("stale").is_none(), "{found}");
        assert_public(&answer.text);
    }
    assert!((1..=2).contains(&live.upstream.look_ups("token").await));
    assert_eq!(live.client.get("/v1/tokens/QUIETeth").await.ok(200)["address"], ADDRESS);
    let other = live.upstream.token("base", "0x00000000000000000000000000000000000000bb", "quietTWO").await;
    let activity = live.client.get(&format!("/v1/tokens/{}/activity", reference(&other))).await.ok(200);
    assert_eq!((&activity["thesis_count_24h"], text(&activity["token"], "symbol")), (&json!(0), "$quietTWO"));
    let third = live.upstream.token("base", "0x00000000000000000000000000000000000000cc", "quietTHREE").await;
    let velocity = live.client.get(&format!("/v1/tokens/{}/thesis-velocity", reference(&third))).await.ok(200);
    assert_eq!((&velocity["last_1h"], text(&velocity["token"], "symbol")), (&json!(0), "$quietTHREE"));
    // A thesis on it counts.
    let author = live.upstream.profile("Counted").await;
    live.post(&new(&author, &on, "x")).await;
    assert_eq!(live.client.get(&path).await.ok(200)["thesis_count"], 1);
}

async fn lists_filters_and_test_keys_look_nothing_up(live: &Following) {
    live.upstream.profile("Never_asked").await;
    let on = live.upstream.token("base", "0x00000000000000000000000000000000000000dd", "quietFOUR").await;
    let before = live.upstream.all_look_ups().await;
    for filter in ["handle=never_asked".to_owned(), "profile=u_99999".to_owned(), format!("token={}", reference(&on))] {
        assert!(live.client.all(&format!("/v1/theses?{filter}")).await.is_empty(), "{filter}");
    }
    assert!(live.client.all("/v1/events?handle=never_asked").await.is_empty());
    let found = live.client.search("/v1/search?q=never_asked").await.ok(200);
    assert_eq!(found["profiles"], json!([]));
    let test = live.project.test().await;
    test.get("/v1/profiles?handle=never_asked").await.error(404, "PROFILE_NOT_FOUND");
    test.get(&format!("/v1/tokens/{}", reference(&on))).await.error(404, "TOKEN_NOT_FOUND");
    let since = iso(now_ms() - 60_000);
    let claim = json!({"handle": "never_asked", "token": reference(&on), "created_after": since});
    let verdict = test.post("/v1/verify/thesis", &claim).await.ok(200);
    assert_eq!(text(&verdict, "reason"), "PROFILE_NOT_FOUND");
    assert_eq!(live.upstream.all_look_ups().await, before);
}

async fn misses_are_remembered(live: &mut Following) {
    let (nobody, nothing) =
        ("/v1/profiles?handle=Nobody_here", "/v1/tokens/base:0x00000000000000000000000000000000000000ee");
    let before = live.upstream.look_ups("profile_by_handle").await;
    for answer in join_all((0..AT_ONCE).map(|_| live.client.get(nobody))).await {
        answer.error(404, "PROFILE_NOT_FOUND");
    }
    // Who looked here before the answer was kept may ask once more.
    assert!((1..=2).contains(&(live.upstream.look_ups("profile_by_handle").await - before)));
    live.client.get("/v1/profiles?upstream_user_id=u_424242").await.error(404, "PROFILE_NOT_FOUND");
    live.client.get("/v1/profiles/nobody_by_ref").await.error(404, "PROFILE_NOT_FOUND");
    live.client.get(nothing).await.error(404, "TOKEN_NOT_FOUND");
    let before = live.upstream.all_look_ups().await;
    for restart in [false, true] {
        if restart {
            live.service.end(0, "TERM").await;
            live.service.start_again(0).await;
            live.service.is_ready().await;
            live.is_up().await;
        }
        for path in [nobody, "/v1/profiles?handle=@nobody_HERE", "/v1/profiles?upstream_user_id=u_424242"] {
            live.client.get(path).await.error(404, "PROFILE_NOT_FOUND");
        }
        live.client.get("/v1/profiles/nobody_by_ref").await.error(404, "PROFILE_NOT_FOUND");
        live.client.get(nothing).await.error(404, "TOKEN_NOT_FOUND");
        assert_eq!(live.upstream.all_look_ups().await, before, "after a restart: {restart}");
    }
    // What is seen meanwhile is there no less.
    let profile = live.upstream.add_profile(&json!({"handle": "nobody_HERE"})).await;
    let found = async || Some(live.client.get(nobody).await).filter(|answer| answer.status == 200);
    let found = eventually("an observation clears the miss", SOON, found).await.ok(200);
    assert_eq!(text(&found, "id"), profile_id(&profile));
}

/// The wallets of an answer: address and network of each.
fn wallets_of(answer: &Value) -> Vec<(&str, &str)> {
    let wallets = answer["wallets"].as_array().unwrap();
    for wallet in wallets {
        assert_fields(wallet, &["address", "network", "observed_at"]);
    }
    wallets.iter().map(|wallet| (text(wallet, "address"), text(wallet, "network"))).collect()
}

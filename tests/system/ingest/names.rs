//! Symbols, addresses and handles: shown in the upstream's letters, found in any case, and replaced by newer ones.

use serde_json::{Value, json};
use thesis_proto::v1::{self, observation::Observed};

use super::{HOUR_MS, start, told};
use crate::harness::{
    Client, SOON, Service, eventually, ids,
    ingest::{author, revision, seen_at, thesis, token},
    iso, now_ms, text,
};

on_both_stores![
    names_keep_the_upstreams_letters_and_are_found_in_any_case,
    a_new_symbol_replaces_the_old_one_and_events_keep_it,
    a_symbol_may_change_its_case_alone,
    news_of_a_token_and_a_profile_show_everywhere,
];

/// An address with the checksum of EIP-55.
const ADDRESS: &str = "0x7f39C581F595B53c5cb19bD0b3f8dA6c935E2Ca0";

async fn on_token(client: &Client, path: &str) -> Value {
    client.get(&format!("/v1/tokens/{path}")).await.ok(200)
}

async fn names_keep_the_upstreams_letters_and_are_found_in_any_case(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let mut stream = client.stream("?types=thesis.created&token=WSTETH").await;
    let (by, on) = (author("u-letters", "letters"), token("ethereum", ADDRESS, "wstETH"));
    let id = service.post(&dataset, thesis("letters", &by, &on, "x", now_ms())).await;
    let shown = |token: &Value| (text(token, "symbol").to_owned(), text(token, "address").to_owned());
    let expected = ("$wstETH".to_owned(), ADDRESS.to_owned());
    let streamed = stream.next().await.data;
    assert_eq!(shown(&streamed["data"]["token"]), expected);
    let (lower, upper) = (ADDRESS.to_lowercase(), ADDRESS.to_uppercase());
    for reference in
        [ADDRESS, &lower, &upper, &format!("ethereum:{upper}"), "$wstETH", "$WSTETH", "$wsteth", "wstETH", "WsTeTh"]
    {
        assert_eq!(shown(&on_token(&client, reference).await), expected, "{reference}");
        let activity = on_token(&client, &format!("{reference}/activity")).await;
        assert_eq!(shown(&activity["token"]), expected, "{reference}");
        let listed = client.all(&format!("/v1/theses?token={reference}")).await;
        assert_eq!(ids(&listed), [&*id], "{reference}");
        assert_eq!(shown(&listed[0]["token"]), expected, "{reference}");
        assert_eq!(told(&client, &format!("token={reference}")).await, std::slice::from_ref(&streamed), "{reference}");
        let asked = json!({"handle": "LETTERS", "token": reference, "created_after": iso(now_ms() - HOUR_MS)});
        let verdict = client.post("/v1/verify/thesis", &asked).await.ok(200);
        assert_eq!((&verdict["thesis_id"], text(&verdict, "token")), (&json!(id), "$wstETH"), "{reference}");
    }
    // A test thesis keeps its upper case, and does not meet a token of another chain.
    let made = client.thesis("letters", "wstETH", "ours").await.0;
    assert_eq!((text(&made["token"], "symbol"), text(&made["token"], "chain")), ("$WSTETH", "sandbox"));
}

async fn a_new_symbol_replaces_the_old_one_and_events_keep_it(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let (by, address) = (author("u-anew", "anew"), "0xAbC1");
    let named = |symbol: &str| token("ethereum", address, symbol);
    let at = now_ms() - HOUR_MS;
    let before = service.post(&dataset, thesis("before", &by, &named("oldName"), "x", at)).await;
    service.learn(&dataset, revision(1, Observed::Token(named("newName")))).await;
    let after = service.post(&dataset, thesis("after", &by, &named("newName"), "x", at + 1_000)).await;
    client.get("/v1/tokens/oldname").await.error(404, "TOKEN_NOT_FOUND");
    assert!(client.all("/v1/theses?token=OLDNAME").await.is_empty());
    assert_eq!(text(&on_token(&client, "NEWNAME").await, "symbol"), "$newName");
    let listed = client.all("/v1/theses?token=$newname").await;
    assert_eq!(ids(&listed), [&*after, &*before]);
    assert!(listed.iter().all(|thesis| thesis["token"]["symbol"] == "$newName"));
    // An event is found by what it says.
    for (symbol, shown, id) in [("OLDNAME", "$oldName", &before), ("newname", "$newName", &after)] {
        let events = told(&client, &format!("token={symbol}")).await;
        assert_eq!(events.len(), 1, "{symbol}");
        let data = &events[0]["data"];
        assert_eq!((text(&data["token"], "symbol"), &data["thesis_id"]), (shown, &json!(id)), "{symbol}");
    }
    assert_eq!(told(&client, &format!("token={address}")).await.len(), 2);
}

async fn a_symbol_may_change_its_case_alone(service: &Service) {
    let (_, client, dataset) = start(service).await;
    for (number, symbol) in (1..).zip(["PEPE", "pepe", "Pepe"]) {
        let id = service.learn(&dataset, revision(number, Observed::Token(token("solana", "PepeMint", symbol)))).await;
        for reference in ["PEPE", "$pepe", "PepeMint"] {
            let found = on_token(&client, reference).await;
            assert_eq!((text(&found, "id"), text(&found, "symbol")), (&*id, &*format!("${symbol}")), "{reference}");
        }
    }
    // Base58 tells cases apart.
    client.get("/v1/tokens/pepemint").await.error(404, "TOKEN_NOT_FOUND");
}

async fn news_of_a_token_and_a_profile_show_everywhere(service: &Service) {
    let project = service.project_on("huge").await;
    let (client, dataset) = (project.test().await, project.dataset());
    let by = |name: &str| v1::ProfileObservation { display_name: Some(name.to_owned()), ..author("u-news", "newsy") };
    let on = |symbol: &str, name: &str| v1::TokenObservation {
        name: Some(name.to_owned()),
        ..token("solana", "NewsMint", symbol)
    };
    let (first, at) = ((by("Quondam"), on("quondam", "Quondam coin")), now_ms() - 5_000);
    let posted = thesis("news", &first.0, &first.1, "newsworthy", at);
    service.learn(&dataset, seen_at(at, Observed::Thesis(posted))).await;
    // Everything is read once, so that what is kept in memory would show.
    let shown = async || {
        let listed = client.all("/v1/theses?token=NewsMint").await.remove(0);
        let activity = on_token(&client, "NewsMint/activity").await;
        let recent = activity["recent_theses"][0].clone();
        let tokens = [&listed["token"], &activity["token"], &recent["token"], &on_token(&client, "NewsMint").await]
            .map(|token| (text(token, "symbol").to_owned(), text(token, "name").to_owned()));
        let profile = client.get("/v1/profiles/newsy").await.ok(200);
        let profiles = [&listed["profile"], &recent["profile"], &profile];
        (tokens, profiles.map(|profile| text(profile, "display_name").to_owned()))
    };
    let token_as = |symbol: &str, name: &str| (symbol.to_owned(), name.to_owned());
    let all = |token: (String, String), author: &str| {
        (std::array::from_fn::<_, 4, _>(|_| token.clone()), std::array::from_fn::<_, 3, _>(|_| author.to_owned()))
    };
    assert_eq!(shown().await, all(token_as("$quondam", "Quondam coin"), "Quondam"));
    for seen in [Observed::Profile(by("Hodiern")), Observed::Token(on("hodiern", "Hodiern coin"))] {
        service.learn(&dataset, seen_at(now_ms(), seen)).await;
    }
    assert_eq!(shown().await, all(token_as("$hodiern", "Hodiern coin"), "Hodiern"));
    // The search follows soon: found by the new words, and no more by the old ones.
    let found = async |word: &str| {
        let result = client.search(&format!("/v1/search?q={word}")).await.ok(200);
        ["profiles", "tokens"].map(|kind| result[kind].as_array().map_or(0, Vec::len))
    };
    let follows = async || (found("hodiern").await == [1, 1] && found("quondam").await == [0, 0]).then_some(());
    eventually("the search knows the new names", SOON, follows).await;
}

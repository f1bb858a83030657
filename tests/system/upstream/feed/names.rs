//! Names that change, and names that several have.

use serde_json::{Value, json};

use super::super::{new, quiet};
use crate::harness::{Following, SOON, eventually, ids, profile_id, text, thesis_id};

pub(super) async fn a_rename_is_told_and_found(live: &Following, author: &Value, thesis: &Value) {
    let client = &live.client;
    let mut stream = client.stream("?types=profile.updated").await;
    live.upstream.change_profile(author, &json!({"handle": "Anatwo"})).await;
    let event = stream.next().await.data;
    assert_eq!((text(&event, "source"), &event["livemode"]), ("upstream", &json!(true)));
    let profile = client.get("/v1/profiles?handle=ANATWO").await.ok(200);
    assert_eq!(event["data"], json!({"profile": profile, "changed": ["handle"]}));
    assert_eq!((text(&profile, "id"), text(&profile, "handle")), (&*profile_id(author), "@Anatwo"));
    assert_eq!(live.row(thesis, |_| true).await["profile"]["handle"], "@Anatwo");
    client.get("/v1/profiles?handle=anafeed").await.error(404, "PROFILE_NOT_FOUND");
    assert!(client.all("/v1/theses?handle=anafeed").await.is_empty());
    assert!(ids(&client.all("/v1/theses?handle=anatwo").await).contains(&&*thesis_id(thesis)));
    let search = async || {
        let [new, old] = [
            client.search("/v1/search?q=anatwo&types=profiles").await.ok(200),
            client.search("/v1/search?q=anafeed&types=profiles").await.ok(200),
        ];
        let is_old = |profile: &Value| text(profile, "handle") == "@Anafeed";
        let has_new = ids(new["profiles"].as_array().unwrap()).contains(&text(&profile, "id"));
        (has_new && !old["profiles"].as_array().unwrap().iter().any(is_old)).then_some(())
    };
    eventually("the search knows the new handle alone", SOON, search).await;

    live.upstream.change_profile(author, &json!({"bio": "second\nline", "verified": true})).await;
    let event = stream.next().await.data;
    assert_eq!(event["data"]["changed"], json!(["bio", "verified"]));
    assert_eq!(
        (text(&event["data"]["profile"], "bio"), &event["data"]["profile"]["verified"]),
        ("second\nline", &json!(true))
    );
    // An older observation changes nothing and is told to nobody; nor is one that repeats what is known.
    live.upstream.tell("profile.updated", author).await;
    live.upstream.change_profile(author, &json!({"verified": true})).await;
    // Another takes the handle that is free now: the first thesis of theirs clears the remembered miss.
    let heir = live.upstream.profile("anaFEED").await;
    live.post(&new(&heir, &thesis["token"], "mine now")).await;
    let found = client.get("/v1/profiles?handle=anafeed").await.ok(200);
    assert_eq!((text(&found, "id"), text(&found, "handle")), (&*profile_id(&heir), "@anaFEED"));
    assert_eq!(client.get(&format!("/v1/profiles/{}", text(author, "id"))).await.ok(200)["handle"], "@Anatwo");
    let told = client.all("/v1/events?types=profile.updated").await;
    assert_eq!(told.len(), 2, "{told:?}");
}

pub(super) async fn a_token_changes_its_symbol(live: &Following, on: &Value, thesis: &Value) {
    let client = &live.client;
    live.upstream.change_token(on, &json!({"symbol": "sfrxETH", "name": null})).await;
    let row = live.row(thesis, |row| row["token"]["symbol"] == "$sfrxETH").await;
    assert_eq!(row["token"]["name"], Value::Null);
    let found = client.get("/v1/tokens/SFRXeth").await.ok(200);
    assert_eq!((text(&found, "symbol"), text(&found, "id")), ("$sfrxETH", text(&row["token"], "id")));
    client.get("/v1/tokens/frxeth").await.error(404, "TOKEN_NOT_FOUND");
    assert!(ids(&client.all("/v1/theses?token=$sfrxeth").await).contains(&text(&row, "id")));
    assert!(client.all("/v1/theses?token=frxeth").await.is_empty());
    // Its event stays as it was.
    let events = client.all("/v1/events?types=thesis.created&limit=100").await;
    let event = events.iter().find(|event| event["data"]["thesis_id"] == row["id"]).unwrap();
    assert_eq!(event["data"]["token"]["symbol"], "$frxETH");
    // An older observation changes nothing.
    live.upstream.tell("token.updated", on).await;
    live.has_read_all().await;
    assert_eq!(live.row(thesis, |_| true).await["token"]["symbol"], "$sfrxETH");
}

pub(super) async fn symbols_clash(live: &Following, author: &Value, on: &Value) {
    let address = text(on, "address").replace("AbC", "DeF");
    let other = live.upstream.token("base", &address, "SFRXETH").await;
    let (_, row) = live.post(&new(author, &other, "on another chain")).await;
    assert_eq!(row["token"]["symbol"], "$SFRXETH");
    let listed = live.client.all("/v1/theses?token=sfrxeth").await;
    assert!(listed.len() > 1 && listed.contains(&row), "{listed:?}");
    assert_eq!(live.client.all("/v1/theses?token=sfrxeth&chain=base").await, [row]);
    let error = live.client.get("/v1/tokens/sfrxeth").await.error(409, "AMBIGUOUS_TOKEN");
    assert_eq!(error["details"]["candidates"].as_array().unwrap().len(), 2, "{error}");
    let narrowed = live.client.get("/v1/tokens/sfrxeth?chain=base").await.ok(200);
    assert_eq!(text(&narrowed, "address"), address);
    // A symbol that nobody told of is unknown, though the upstream has it: symbols are never looked up.
    let unknown = live.upstream.token("base", "0x00000000000000000000000000000000000000aa", "NEVERTOLD").await;
    live.upstream.post(&quiet(author, &unknown, "not told")).await;
    live.client.get("/v1/tokens/NEVERTOLD").await.error(404, "TOKEN_NOT_FOUND");
    assert_eq!(live.upstream.look_ups("tokens_by_symbol").await, 0);
}

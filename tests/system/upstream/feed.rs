//! What the feed tells reaches every operation.

mod names;
mod public;

use serde_json::{Value, json};

use super::{ADDRESS, MINT, SMALL, new, quiet, without_backfill};
use crate::harness::{Following, SOON, Store, Upstream, eventually, ids, profile_id, reference, text, thesis_id};

on_stores_of_their_own![what_the_feed_tells_reaches_every_operation];

async fn what_the_feed_tells_reaches_every_operation(store: Store) {
    let live = Following::start(&store, Upstream::start(SMALL).await, without_backfill).await;
    // What was there before is not fetched, so the first thesis is alone.
    let author = live.upstream.profile("Anafeed").await;
    let on = live.upstream.token("ethereum", ADDRESS, "frxETH").await;
    let thesis = a_thesis_arrives(&live, &author, &on).await;
    letters_of_an_address_count_where_the_chain_says_so(&live, &author).await;
    an_edit_changes_the_row_and_no_event(&live, &thesis).await;
    engagement_changes_figures(&live, &thesis).await;
    names::a_rename_is_told_and_found(&live, &author, &thesis).await;
    names::a_token_changes_its_symbol(&live, &on, &thesis).await;
    names::symbols_clash(&live, &author, &on).await;
    public::derived_events_say_so(&live, &author).await;
    public::nothing_else_is_told(&live, &author, &on, &thesis).await;
    a_deletion_is_for_good(&live, &author, &on, &thesis).await;
    a_deletion_may_come_first(&live, &author, &on).await;
}

/// The history of theses about a token.
async fn created(live: &Following, on: &Value) -> Vec<Value> {
    live.client.all(&format!("/v1/events?types=thesis.created&limit=100&token={}", reference(on))).await
}

async fn a_thesis_arrives(live: &Following, author: &Value, on: &Value) -> Value {
    let mut stream = live.client.stream("?types=thesis.created&token=FRXeth").await;
    let (thesis, row) = live.post(&new(author, on, "Quartz emissions fall 🚀\nsoon")).await;
    let expected = json!({
        "object": "thesis", "id": thesis_id(&thesis),
        "profile": {
            "id": profile_id(author), "handle": "@Anafeed", "display_name": author["display_name"],
            "avatar_url": author["avatar_url"],
        },
        "token": {
            "id": row["token"]["id"], "symbol": "$frxETH", "name": "A Name", "chain": "ethereum", "address": ADDRESS,
        },
        "text": "Quartz emissions fall 🚀\nsoon", "public_url": null, "likes": thesis["likes"],
        "replies": thesis["replies"], "created_at": thesis["created_at"], "updated_at": thesis["updated_at"],
        "source": "upstream", "livemode": true,
    });
    assert_eq!(row, expected);
    let event = stream.next().await.data;
    assert_eq!((text(&event, "source"), &event["livemode"], event.get("test")), ("upstream", &json!(true), None));
    let data = json!({
        "thesis_id": row["id"], "profile": row["profile"], "token": row["token"], "text": row["text"],
        "created_at": row["created_at"], "public_url": null,
    });
    assert_eq!(event["data"], data);
    assert_eq!(live.client.get(&format!("/v1/events/{}", text(&event, "id"))).await.ok(200), event);
    assert_eq!(created(live, on).await, [event]);

    assert_eq!(live.client.all("/v1/theses?limit=100").await, std::slice::from_ref(&row));
    let (lower, upper) = (ADDRESS.to_lowercase(), format!("0x{}", ADDRESS[2..].to_uppercase()));
    for filter in [
        "token=FRXETH".to_owned(),
        "token=$frxeth&chain=ethereum".to_owned(),
        format!("token={lower}"),
        format!("token=ethereum:{upper}"),
        "handle=anafeed".to_owned(),
        "handle=@ANAFEED".to_owned(),
        format!("profile={}", text(author, "id")),
        format!("profile={}", profile_id(author)),
    ] {
        assert_eq!(live.client.all(&format!("/v1/theses?{filter}")).await, std::slice::from_ref(&row), "{filter}");
    }
    let search = async || {
        let found = live.client.search("/v1/search?q=quartz%20emissions&types=theses").await.ok(200);
        (found["theses"] == json!([row])).then_some(())
    };
    eventually("the search finds it", SOON, search).await;
    let counted = live.client.get(&format!("/v1/tokens/ethereum:{upper}")).await.ok(200);
    assert_eq!((text(&counted, "symbol"), text(&counted, "address")), ("$frxETH", ADDRESS));
    assert_eq!((&counted["thesis_count"], &counted["unique_thesis_authors"]), (&json!(1), &json!(1)));
    assert_eq!((&counted["chain_id"], text(&counted, "source")), (&json!(1), "upstream"));

    let test = live.project.test().await;
    test.get(&format!("/v1/theses/{}", thesis_id(&thesis))).await.error(404, "THESIS_NOT_FOUND");
    test.get("/v1/profiles/anafeed").await.error(404, "PROFILE_NOT_FOUND");
    assert!(test.all("/v1/theses?token=frxETH").await.is_empty());
    thesis
}

async fn letters_of_an_address_count_where_the_chain_says_so(live: &Following, author: &Value) {
    let on = live.upstream.token("solana", MINT, "caseSOL").await;
    let (_, row) = live.post(&new(author, &on, "x")).await;
    assert_eq!((text(&row["token"], "symbol"), text(&row["token"], "address")), ("$caseSOL", MINT));
    for (token, is_found) in [("CASEsol", true), (MINT, true), (&*MINT.to_lowercase(), false)] {
        let listed = live.client.all(&format!("/v1/theses?token={token}")).await;
        assert_eq!(listed.contains(&row), is_found, "{token}");
    }
    live.client.get(&format!("/v1/tokens/{}", MINT.to_lowercase())).await.error(404, "TOKEN_NOT_FOUND");
}

async fn an_edit_changes_the_row_and_no_event(live: &Following, thesis: &Value) {
    let events = created(live, &thesis["token"]).await;
    let edited = live.upstream.edit(thesis, &json!({"text": "Sapphire emissions rise"})).await;
    let row = live.row(thesis, |row| row["text"] == "Sapphire emissions rise").await;
    assert_eq!((&row["updated_at"], &row["created_at"]), (&edited["updated_at"], &thesis["created_at"]));
    assert_eq!(created(live, &thesis["token"]).await, events);
    assert_eq!(events[0]["data"]["text"], thesis["text"]);
    let search = async || {
        let found = live.client.search("/v1/search?q=sapphire&types=theses").await.ok(200);
        let old = live.client.search("/v1/search?q=quartz&types=theses").await.ok(200);
        (found["theses"] == json!([row]) && old["theses"] == json!([])).then_some(())
    };
    eventually("the search finds the new text alone", SOON, search).await;
}

async fn engagement_changes_figures(live: &Following, thesis: &Value) {
    let before = live.row(thesis, |_| true).await;
    for (likes, replies) in [(json!(7), json!(3)), (json!(4), json!(3)), (json!(null), json!(5_000_000_000_i64))] {
        live.upstream.edit(thesis, &json!({"likes": likes, "replies": replies})).await;
        let row = live.row(thesis, |row| row["likes"] == likes && row["replies"] == replies).await;
        assert_eq!((&row["text"], &row["created_at"]), (&before["text"], &before["created_at"]));
    }
    assert_eq!(created(live, &thesis["token"]).await.len(), 1);
}

async fn a_deletion_is_for_good(live: &Following, author: &Value, on: &Value, thesis: &Value) {
    let events = created(live, on).await;
    live.upstream.delete(thesis).await;
    live.is_gone(thesis).await;
    let row = thesis_id(thesis);
    assert!(!ids(&live.client.all("/v1/theses?limit=100").await).contains(&&*row));
    assert_eq!(created(live, on).await, events);
    let claim = json!({
        "profile_id": author["id"], "token": reference(on), "created_after": thesis["created_at"],
        "created_before": thesis["created_at"],
    });
    let verdict = live.client.post("/v1/verify/thesis", &claim).await.ok(200);
    assert_eq!((text(&verdict, "reason"), text(&verdict, "thesis_id")), ("THESIS_DELETED", &*row));
    // What was told before it, or is told of it again, brings nothing back.
    live.upstream.tell("thesis.created", thesis).await;
    let later = live.upstream.edit(&live.post(&new(author, on, "later")).await.0, &json!({"likes": 9})).await;
    live.upstream
        .tell("thesis.engagement", &json!({"id": thesis["id"], "likes": 1, "updated_at": later["updated_at"]}))
        .await;
    let mut again = thesis.clone();
    again["updated_at"] = later["updated_at"].clone();
    live.upstream.tell("thesis.updated", &again).await;
    live.has_read_all().await;
    live.is_gone(thesis).await;
}

async fn a_deletion_may_come_first(live: &Following, author: &Value, on: &Value) {
    let events = created(live, on).await;
    let mut never = Vec::new();
    for bare in [true, false] {
        let made = live.upstream.post(&quiet(author, on, "never seen")).await;
        let mut tombstone = live.upstream.delete_quietly(&made).await;
        if bare {
            tombstone = json!({"id": made["id"], "deleted": true, "updated_at": tombstone["updated_at"]});
        }
        live.upstream.tell("thesis.deleted", &tombstone).await;
        live.upstream.tell("thesis.created", &made).await;
        never.push(made);
    }
    live.has_read_all().await;
    for thesis in &never {
        live.is_gone(thesis).await;
    }
    assert_eq!(created(live, on).await, events);
}

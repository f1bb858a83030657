//! The names by which a claim means its author and its token.

use serde_json::json;
use thesis_proto::v1;

use super::{MINUTE_MS, ask, claim, expect, written};
use crate::harness::{
    Service,
    ingest::{author, revision, thesis, token},
    iso, now_ms, text,
};

on_both_stores![an_author_and_a_token_have_many_names, an_id_is_never_taken_for_a_handle, an_ambiguous_symbol_is_told,];

async fn an_author_and_a_token_have_many_names(service: &Service) {
    let (client, dataset, made) = written(service, &[(300, "x")]).await;
    let profile = client.get("/v1/profiles/author").await.ok(200);
    let on = client.get("/v1/tokens/VER").await.ok(200);
    let mut asked = claim("@AUTHOR", "VER", made[0].1, made[0].1);
    for reference in ["ver", "$Ver", "VerMint", "solana:VerMint", text(&on, "id")] {
        asked["token"] = json!(reference);
        expect(&client, &asked, "VERIFIED", [true; 5], None).await;
        let narrowed = json!({
            "handle": "author", "token": reference, "chain": "solana", "created_after": asked["created_after"],
        });
        expect(&client, &narrowed, "VERIFIED", [true; 5], None).await;
    }
    asked.as_object_mut().unwrap().remove("handle");
    for reference in [text(&profile, "id"), "u-author"] {
        asked["profile_id"] = json!(reference);
        expect(&client, &asked, "VERIFIED", [true; 5], None).await;
    }
    // The author has another handle now, and nobody has the old one.
    let renamed = v1::observation::Observed::Profile(author("u-author", "renamed"));
    service.learn(&dataset, revision(i64::MAX / 2, renamed)).await;
    expect(&client, &asked, "VERIFIED", [true; 5], None).await;
    let (new, old) = (claim("renamed", "VER", made[0].1, made[0].1), claim("author", "VER", made[0].1, made[0].1));
    expect(&client, &new, "VERIFIED", [true; 5], None).await;
    expect(&client, &old, "PROFILE_NOT_FOUND", [false; 5], None).await;
}

async fn an_id_is_never_taken_for_a_handle(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    let (on, at) = (token("solana", "IdMint", "IDS"), now_ms() - MINUTE_MS);
    // The author's handle is another's upstream id, and then nobody's id.
    let poster = service.post(&dataset, thesis("ids", &author("u-poster", "u-other"), &on, "x", at)).await;
    service.learn(&dataset, revision(1, v1::observation::Observed::Profile(author("u-other", "other")))).await;
    let asked = |field: &str, name: &str| json!({field: name, "token": "IDS", "created_after": iso(at)});
    let verdict = expect(&client, &asked("profile_id", "u-poster"), "VERIFIED", [true; 5], None).await;
    assert_eq!(verdict["thesis_id"], poster);
    expect(&client, &asked("handle", "u-other"), "VERIFIED", [true; 5], None).await;
    let never = [true, true, false, false, false];
    expect(&client, &asked("profile_id", "u-other"), "NO_THESIS_IN_WINDOW", never, None).await;
    let renamed = v1::observation::Observed::Profile(author("u-poster", "nobodys_id"));
    service.learn(&dataset, revision(2, renamed)).await;
    expect(&client, &asked("handle", "nobodys_id"), "VERIFIED", [true; 5], None).await;
    for name in ["nobodys_id", "@nobodys_id", "other"] {
        expect(&client, &asked("profile_id", name), "PROFILE_NOT_FOUND", [false; 5], None).await;
    }
}

async fn an_ambiguous_symbol_is_told(service: &Service) {
    let (client, dataset, made) = written(service, &[(300, "x")]).await;
    let other = v1::observation::Observed::Token(token("ethereum", "0x1", "VER"));
    service.learn(&dataset, revision(1, other)).await;
    let mut asked = claim("author", "VER", made[0].1, made[0].1);
    let error = ask(&client, &asked).await.error(409, "AMBIGUOUS_TOKEN");
    assert_eq!(error["details"]["candidates"].as_array().unwrap().len(), 2);
    asked["chain"] = json!("solana");
    expect(&client, &asked, "VERIFIED", [true; 5], None).await;
    asked["chain"] = json!("ethereum");
    expect(&client, &asked, "NO_THESIS_IN_WINDOW", [true, true, false, false, false], None).await;
}

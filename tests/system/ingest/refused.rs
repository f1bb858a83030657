//! The observations that `IngestService` refuses, and its errors.

use thesis_proto::{
    time::from_millis,
    v1::{self, ingest_service_client::IngestServiceClient, observation::Observed},
};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::{HOUR_MS, get, on_chain, one, posted, start};
use crate::harness::{
    Service, TEST_KEY,
    ingest::{author, deletion, engagement, revision, seen_at, thesis, token},
    now_ms, text,
};

on_both_stores![
    only_the_credential_may_bring_anything,
    what_is_wrong_is_named_and_nothing_is_kept,
    every_field_is_checked,
    another_thesis_under_the_same_id_is_refused,
    many_refusals_fit_into_one_answer,
];

async fn only_the_credential_may_bring_anything(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let seen = vec![revision(1, Observed::Thesis(posted("x", "x", now_ms())))];
    let message = v1::IngestRequest { dataset, observations: seen };
    let mut bringing = IngestServiceClient::new(service.channel());
    let mut with_key = Request::new(message.clone());
    with_key.metadata_mut().insert("authorization", format!("Bearer {TEST_KEY}").parse().unwrap());
    let mut guessed = Request::new(message.clone());
    guessed.metadata_mut().insert("x-service-token", "guessed-guessed-guessed-guessed-1234".parse().unwrap());
    for request in [Request::new(message), with_key, guessed] {
        assert_eq!(bringing.ingest(request).await.unwrap_err().code(), Code::Unauthenticated);
    }
    assert!(client.all("/v1/theses?handle=writer").await.is_empty());
}

/// The fields that a refusal names.
pub(crate) fn named(refused: &Status) -> Vec<String> {
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "VALIDATION_FAILED");
    details.bad_request().unwrap().field_violations.iter().map(|violation| violation.field.clone()).collect()
}

async fn what_is_wrong_is_named_and_nothing_is_kept(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let now = now_ms();
    let good = || revision(1, Observed::Thesis(posted("good", "good", now)));
    for wrong in ["", "Live", "project/", "projects/1", "alerts/prj_1/live"] {
        assert_eq!(named(&service.try_ingest(wrong, vec![good()]).await.unwrap_err()), ["dataset"], "{wrong}");
    }
    let a_thesis = |change: &dyn Fn(&mut v1::ThesisObservation)| {
        let mut wrong = posted("wrong", "wrong", now);
        change(&mut wrong);
        revision(1, Observed::Thesis(wrong))
    };
    let long = |length: usize| "x".repeat(length);
    let cases = [
        (v1::Observation::default(), &["observed_at", "observed"][..]),
        (v1::Observation { observed_at: None, ..good() }, &["observed_at"]),
        (a_thesis(&|seen| seen.upstream_id.clear()), &["thesis.upstream_id"]),
        (a_thesis(&|seen| seen.upstream_id = long(65)), &["thesis.upstream_id"]),
        (a_thesis(&|seen| seen.text.clear()), &["thesis.text"]),
        (a_thesis(&|seen| seen.text = long(10_001)), &["thesis.text"]),
        (a_thesis(&|seen| seen.text = "nul\0".to_owned()), &["thesis.text"]),
        (a_thesis(&|seen| seen.created_at = None), &["thesis.created_at"]),
        (a_thesis(&|seen| seen.profile = None), &["thesis.profile"]),
        (a_thesis(&|seen| seen.token = None), &["thesis.token"]),
        (
            a_thesis(&|seen| seen.profile = Some(author("", &long(65)))),
            &["thesis.profile.upstream_user_id", "thesis.profile.handle"],
        ),
        (
            a_thesis(&|seen| seen.token = Some(token("a:b", "", ""))),
            &["thesis.token.address", "thesis.token.symbol", "thesis.token.chain"],
        ),
        (a_thesis(&|seen| (seen.likes, seen.replies) = (Some(-1), Some(-1))), &["thesis.likes", "thesis.replies"]),
        (revision(1, engagement("", -1, 0)), &["engagement.upstream_id", "engagement.likes"]),
        (revision(1, deletion("")), &["deletion.upstream_id"]),
        (revision(1, Observed::Profile(author("u", ""))), &["profile.handle"]),
        (revision(1, Observed::Token(token("", "a", "A"))), &["token.chain"]),
    ];
    for (wrong, fields) in cases {
        let refused = service.try_ingest(&dataset, vec![good(), wrong]).await.unwrap_err();
        let mut expected: Vec<String> = fields.iter().map(|field| format!("observations[1].{field}")).collect();
        let mut found = named(&refused);
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
    let many = vec![good(); 1_001];
    assert_eq!(named(&service.try_ingest(&dataset, many).await.unwrap_err()), ["observations"]);
    assert!(client.all("/v1/theses?handle=writer").await.is_empty());
    assert!(service.ingest(&dataset, Vec::new()).await.is_empty());
}

/// Every rule of every field, at the border of what it allows.
async fn every_field_is_checked(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let now = now_ms();
    let profile = |change: &dyn Fn(&mut v1::ProfileObservation)| {
        let mut seen = author("u", "h");
        change(&mut seen);
        Observed::Profile(seen)
    };
    let coin = |change: &dyn Fn(&mut v1::TokenObservation)| {
        let mut seen = on_chain();
        change(&mut seen);
        Observed::Token(seen)
    };
    let text_of = |change: &dyn Fn(&mut v1::ThesisObservation)| {
        let mut seen = posted("x", "x", now);
        change(&mut seen);
        Observed::Thesis(seen)
    };
    let long = |length: usize| "é".repeat(length);
    let wallet = |address: &str, network: &str, observed_at: Option<i64>| {
        let (address, network) = (address.to_owned(), network.to_owned());
        vec![v1::ObservedWallet { address, network, observed_at: observed_at.map(from_millis) }]
    };
    let at = |seconds: i64, nanos: i32| Some(prost_types::Timestamp { seconds, nanos });
    let later = Some(from_millis(now + 25 * HOUR_MS));
    let length = "must have ";
    let (spaces, control, link) =
        ("must not contain spaces", "must not contain control", "must be an http or https URL");
    let (when, many) = ("must be a time from 1970 to a day ahead", "must be from 0 to 9007199254740991");
    let cases = [
        (profile(&|seen| seen.upstream_user_id = long(65)), "profile.upstream_user_id", length),
        (profile(&|seen| seen.upstream_user_id = "a b".to_owned()), "profile.upstream_user_id", spaces),
        (profile(&|seen| seen.handle = long(65)), "profile.handle", length),
        (profile(&|seen| seen.handle = "@".to_owned()), "profile.handle", "must have something"),
        (profile(&|seen| seen.handle = "a\n".to_owned()), "profile.handle", spaces),
        (profile(&|seen| seen.handle = "a\u{7}".to_owned()), "profile.handle", control),
        (profile(&|seen| seen.display_name = Some(long(2_049))), "profile.display_name", length),
        (profile(&|seen| seen.display_name = Some("a\nb".to_owned())), "profile.display_name", control),
        (profile(&|seen| seen.bio = Some(long(2_049))), "profile.bio", length),
        (profile(&|seen| seen.bio = Some("\0".to_owned())), "profile.bio", control),
        (profile(&|seen| seen.avatar_url = Some("a.png".to_owned())), "profile.avatar_url", link),
        (profile(&|seen| seen.avatar_url = Some(String::new())), "profile.avatar_url", link),
        (profile(&|seen| seen.profile_url = Some("javascript:alert(1)".to_owned())), "profile.profile_url", link),
        (profile(&|seen| seen.profile_url = Some("https://a/\n".to_owned())), "profile.profile_url", link),
        (profile(&|seen| seen.profile_url = Some(format!("https://a/{}", long(2_040)))), "profile.profile_url", length),
        (profile(&|seen| seen.created_at = later), "profile.created_at", when),
        (profile(&|seen| seen.source_updated_at = at(-1, 0)), "profile.source_updated_at", when),
        (profile(&|seen| seen.wallets = wallet("", "a", Some(now))), "profile.wallets[0].address", length),
        (profile(&|seen| seen.wallets = wallet("a", &long(33), Some(now))), "profile.wallets[0].network", length),
        (profile(&|seen| seen.wallets = wallet("a", "a", None)), "profile.wallets[0].observed_at", "is required"),
        (
            profile(&|seen| seen.wallets = vec![wallet("a", "a", Some(now)).remove(0); 101]),
            "profile.wallets",
            "must be at most 100",
        ),
        (coin(&|seen| seen.chain = long(33)), "token.chain", length),
        (coin(&|seen| seen.chain = "a:b".to_owned()), "token.chain", "must not contain `:`"),
        (coin(&|seen| seen.address = long(141)), "token.address", length),
        (coin(&|seen| seen.address = "0x 1".to_owned()), "token.address", spaces),
        (coin(&|seen| seen.symbol = "$".to_owned()), "token.symbol", "must have something"),
        (coin(&|seen| seen.symbol = "A\tB".to_owned()), "token.symbol", control),
        (coin(&|seen| seen.name = Some("\u{9f}".to_owned())), "token.name", control),
        (coin(&|seen| seen.chain_id = Some(-1)), "token.chain_id", many),
        (coin(&|seen| seen.logo_url = Some("ipfs://a".to_owned())), "token.logo_url", link),
        (coin(&|seen| seen.platform_url = Some("https://".to_owned())), "token.platform_url", link),
        (coin(&|seen| seen.source_updated_at = at(i64::MAX, 0)), "token.source_updated_at", when),
        (text_of(&|seen| seen.upstream_id = "a b".to_owned()), "thesis.upstream_id", spaces),
        (text_of(&|seen| seen.text = long(10_001)), "thesis.text", length),
        (text_of(&|seen| seen.created_at = later), "thesis.created_at", when),
        (text_of(&|seen| seen.created_at = at(1, -1)), "thesis.created_at", when),
        (text_of(&|seen| seen.created_at = at(i64::MIN, 0)), "thesis.created_at", when),
        (
            text_of(&|seen| seen.updated_at = Some(from_millis(now - 1))),
            "thesis.updated_at",
            "must not be before created_at",
        ),
        (text_of(&|seen| seen.likes = Some(1 << 53)), "thesis.likes", many),
        (engagement("x", 0, i64::MIN), "engagement.replies", many),
        (deletion(" "), "deletion.upstream_id", spaces),
    ];
    for (wrong, field, rule) in cases {
        let refused = service.try_ingest(&dataset, vec![revision(1, wrong)]).await.unwrap_err();
        let details = refused.get_error_details();
        let found = &details.bad_request().unwrap().field_violations;
        assert_eq!(named(&refused), [format!("observations[0].{field}")], "{rule}");
        assert!(found[0].description.starts_with(rule), "{field}: {}", found[0].description);
    }
    let early = seen_at(now + 25 * HOUR_MS, deletion("x"));
    assert_eq!(named(&service.try_ingest(&dataset, vec![early]).await.unwrap_err()), ["observations[0].observed_at"]);
    // Lengths count characters, and values at the border are accepted.
    let mut widest = posted(&long(64), &long(10_000), 0);
    let told = widest.profile.as_mut().unwrap();
    (told.upstream_user_id, told.handle, told.bio) = (long(64), long(64), Some(format!("{}\n", long(2_047))));
    let on = widest.token.as_mut().unwrap();
    (on.chain, on.address, on.symbol) = (long(32), long(140), "TWO WORDS".to_owned());
    (widest.likes, widest.updated_at) = (Some((1 << 53) - 1), Some(from_millis(now + 23 * HOUR_MS)));
    service.learn(&dataset, revision(i64::MAX, Observed::Thesis(widest))).await;
    assert!(client.all("/v1/theses?handle=writer").await.is_empty());
}

async fn another_thesis_under_the_same_id_is_refused(service: &Service) {
    let (_, client, dataset) = start(service).await;
    let at = now_ms() - HOUR_MS;
    let id = service.learn(&dataset, revision(1, Observed::Thesis(posted("one", "first", at)))).await;
    let other = |change: &dyn Fn(&mut v1::ThesisObservation)| {
        let mut seen = posted("one", "second", at);
        change(&mut seen);
        revision(2, Observed::Thesis(seen))
    };
    let cases = [
        (other(&|seen| seen.profile = Some(author("u-other", "writer"))), "thesis.profile.upstream_user_id"),
        (other(&|seen| seen.token = Some(token("base", "IngestMint", "ING"))), "thesis.token"),
        (other(&|seen| seen.created_at = Some(from_millis(at + 1))), "thesis.created_at"),
    ];
    for (wrong, field) in cases {
        let beside = revision(2, Observed::Thesis(posted(field, "beside", at)));
        let refused = service.try_ingest(&dataset, vec![beside.clone(), wrong]).await.unwrap_err();
        assert_eq!(named(&refused), [format!("observations[1].{field}")]);
        // The rest of the call is written.
        assert!(!one(service, &dataset, beside).await.applied);
    }
    assert_eq!(get(&client, &id).await["text"], "first");
    client.get("/v1/profiles/u-other").await.error(404, "PROFILE_NOT_FOUND");
    // The same author under another handle, and the same address written differently, are the same.
    let same = other(&|seen| seen.profile = Some(author("u-writer", "renamed")));
    assert!(one(service, &dataset, same).await.applied);
    let row = get(&client, &id).await;
    assert_eq!((text(&row, "text"), text(&row["profile"], "handle")), ("second", "@renamed"));
}

async fn many_refusals_fit_into_one_answer(service: &Service) {
    let (_project, _client, dataset) = start(service).await;
    let on = token("sandbox", "refusals", "REF");
    let theses = |by: &str, at: i64| {
        let by = author(by, by);
        let theses = (0..100).map(|number| thesis(&format!("ref-{number}"), &by, &on, "x", at));
        theses.map(|thesis| seen_at(now_ms(), Observed::Thesis(thesis))).collect::<Vec<_>>()
    };
    let at = now_ms() - 1_000;
    service.ingest(&dataset, theses("one", at)).await;
    let refused = service.try_ingest(&dataset, theses("two", at)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
}

//! What each operation answers over gRPC, beside its answer over REST.

use serde_json::Value;
use thesis_proto::{
    json as canonical,
    v1::{
        self, event_service_client::EventServiceClient, meta_service_client::MetaServiceClient,
        profile_service_client::ProfileServiceClient, search_service_client::SearchServiceClient,
        test_data_service_client::TestDataServiceClient, thesis_service_client::ThesisServiceClient,
        token_service_client::TokenServiceClient, webhook_service_client::WebhookServiceClient,
    },
};
use tonic::Code;

use super::{assert_failure, customer, json, new_thesis, with_key};
use crate::harness::{Client, SOON, Service, eventually, rows, text};

on_both_stores![
    reading_answers_what_rest_answers,
    lists_have_the_same_bytes,
    profiles_and_tokens_are_the_same,
    a_verdict_is_the_same,
    creating_does_what_rest_does,
    webhooks_are_the_same,
];

async fn reading_answers_what_rest_answers(service: &Service) {
    let (key, rest) = customer(service).await;
    let rest = rest.at_one_edge();
    let made = rest.thesis("writer", "BOTH", "x").await;
    let mut meta = MetaServiceClient::new(service.first_core());
    let me = meta.get_me(with_key(&key, v1::GetMeRequest {})).await.unwrap().into_inner().key.unwrap();
    assert_eq!(json(canonical::KeyInfo::from(&me)), rest.get("/v1/me").await.ok(200));
    let usage = meta.get_usage(with_key(&key, v1::GetUsageRequest {})).await.unwrap().into_inner().usage.unwrap();
    let over_rest = rest.get("/v1/me/usage").await.ok(200);
    let used = |usage: &Value| usage["month"]["used"].as_i64().unwrap();
    assert_eq!(used(&json(canonical::Usage::from(&usage))) + 1, used(&over_rest));

    let mut theses = ThesisServiceClient::new(service.channel());
    let request = v1::ListThesesRequest {
        token: Some("RUN".to_owned()),
        sort: v1::ThesisSort::CreatedAtAsc.into(),
        limit: Some(3),
        ..v1::ListThesesRequest::default()
    };
    let page = theses.list_theses(with_key(&key, request.clone())).await.unwrap().into_inner();
    let list = "/v1/theses?token=RUN&sort=created_at_asc&limit=3";
    let over_rest = rest.get(list).await.ok(200);
    assert_eq!(json(canonical::ThesisList::from(&page))["data"], over_rest["data"]);
    // A cursor is valid on both.
    let cursor = page.next_cursor.unwrap();
    let next = v1::ListThesesRequest { cursor: Some(cursor.clone()), ..request };
    let next = theses.list_theses(with_key(&key, next)).await.unwrap().into_inner();
    let over_rest = rest.get(&format!("{list}&cursor={cursor}")).await.ok(200);
    assert_eq!(json(canonical::ThesisList::from(&next)), over_rest);
    let id = text(&made.0, "id").to_owned();
    let thesis = theses.get_thesis(with_key(&key, v1::GetThesisRequest { id })).await.unwrap().into_inner();
    assert_eq!(json(canonical::Thesis::from(&thesis.thesis.unwrap())), made.0);

    let mut events = EventServiceClient::new(service.channel());
    let request = v1::ListEventsRequest {
        types: vec![v1::EventType::ThesisCreated.into()],
        filters: Some(v1::EventFilters { handle: vec!["sbx_scout".to_owned()], ..v1::EventFilters::default() }),
        limit: Some(4),
        ..v1::ListEventsRequest::default()
    };
    let page = events.list_events(with_key(&key, request)).await.unwrap().into_inner();
    let over_rest = rest.get("/v1/events?types=thesis.created&handle=sbx_scout&limit=4").await.ok(200);
    // The cursor tells how far the log was read, and the thesis's derived events may come between the two calls.
    assert_eq!(json(canonical::EventList::from(&page))["data"], over_rest["data"]);
    let id = text(&made.1, "id").to_owned();
    let event = events.get_event(with_key(&key, v1::GetEventRequest { id })).await.unwrap().into_inner();
    assert_eq!(json(canonical::Event::from(&event.event.unwrap())), made.1);
}

/// An edge in core's process writes rows that core has rendered. Others write messages, as gRPC has them.
async fn lists_have_the_same_bytes(service: &Service) {
    let (key, rest) = customer(service).await;
    rest.thesis("writer", "BYTES", "\"<é>\" \\ \u{1f680}").await;
    let theses = ThesisServiceClient::new(service.channel());
    let over_grpc = async |cursor: Option<String>| {
        let request = v1::ListThesesRequest { cursor, limit: Some(10), ..v1::ListThesesRequest::default() };
        let page = theses.clone().list_theses(with_key(&key, request)).await.unwrap().into_inner();
        serde_json::to_string(&canonical::ThesisList::from(&page)).unwrap()
    };
    same_bytes(&rest, "/v1/theses?limit=10", over_grpc).await;
    let events = EventServiceClient::new(service.channel());
    let over_grpc = async |cursor: Option<String>| {
        let request = v1::ListEventsRequest { cursor, limit: Some(10), ..v1::ListEventsRequest::default() };
        let page = events.clone().list_events(with_key(&key, request)).await.unwrap().into_inner();
        serde_json::to_string(&canonical::EventList::from(&page)).unwrap()
    };
    same_bytes(&rest, "/v1/events?limit=10", over_grpc).await;
}

/// Compares the text of a list's first page over REST with that over gRPC, and then the page after it.
async fn same_bytes(rest: &Client, list: &str, over_grpc: impl AsyncFn(Option<String>) -> String) {
    let mut cursor: Option<String> = None;
    for _ in 0..2 {
        let path = cursor.as_ref().map_or_else(|| list.to_owned(), |cursor| format!("{list}&cursor={cursor}"));
        let (over_rest, expected) = eventually("no event comes between the reads", SOON, async || {
            let before = without_cursor(&over_grpc(cursor.clone()).await);
            let over_rest = rest.get(&path).await;
            let after = without_cursor(&over_grpc(cursor.clone()).await);
            (before == after).then_some((over_rest, after))
        })
        .await;
        let page = over_rest.ok(200);
        assert_eq!(rows(&page).len(), 10, "{path}");
        assert_eq!(without_cursor(&over_rest.text), expected, "{path}");
        cursor = Some(text(&page, "next_cursor").to_owned());
    }
}

/// A page without its cursor, which has the time of the first read.
fn without_cursor(page: &str) -> String {
    let parsed: Value = serde_json::from_str(page).unwrap();
    page.replace(text(&parsed, "next_cursor"), "")
}

async fn profiles_and_tokens_are_the_same(service: &Service) {
    let (key, rest) = customer(service).await;
    rest.thesis("sbx_runner", "RUN", "x").await;
    let mut profiles = ProfileServiceClient::new(service.channel());
    let over_rest = rest.get("/v1/profiles/sbx_runner").await.ok(200);
    let of = |name: &str| Some(name.to_owned());
    for request in [
        v1::GetProfileRequest { r#ref: of("@SBX_Runner"), ..v1::GetProfileRequest::default() },
        v1::GetProfileRequest { id: of(text(&over_rest, "id")), ..v1::GetProfileRequest::default() },
        v1::GetProfileRequest { handle: of("sbx_runner"), ..v1::GetProfileRequest::default() },
        v1::GetProfileRequest { upstream_user_id: of("sbx_1"), ..v1::GetProfileRequest::default() },
    ] {
        let found = profiles.get_profile(with_key(&key, request)).await.unwrap().into_inner().profile.unwrap();
        assert_eq!(json(canonical::Profile::from(&found)), over_rest);
    }
    let two = v1::GetProfileRequest { r#ref: of("a"), handle: of("a"), ..v1::GetProfileRequest::default() };
    for wrong in [v1::GetProfileRequest::default(), two] {
        let failure = profiles.get_profile(with_key(&key, wrong)).await.unwrap_err();
        assert_failure(&failure, Code::InvalidArgument, "VALIDATION_FAILED");
    }
    let unknown = v1::GetProfileRequest { r#ref: of("nobody"), ..v1::GetProfileRequest::default() };
    assert_failure(
        &profiles.get_profile(with_key(&key, unknown)).await.unwrap_err(),
        Code::NotFound,
        "PROFILE_NOT_FOUND",
    );
    let wallets = v1::GetProfileWalletsRequest { r#ref: "sbx_1".to_owned() };
    let failure = profiles.get_profile_wallets(with_key(&key, wallets)).await.unwrap_err();
    assert_failure(&failure, Code::NotFound, "FEATURE_DISABLED");

    let mut tokens = TokenServiceClient::new(service.channel());
    let (reference, chain) = ("$run".to_owned(), of("sandbox"));
    let request = v1::GetTokenRequest { r#ref: reference.clone(), chain: chain.clone(), as_of: None };
    let found = tokens.get_token(with_key(&key, request)).await.unwrap().into_inner().token.unwrap();
    assert_eq!(json(canonical::Token::from(&found)), rest.get("/v1/tokens/RUN").await.ok(200));
    let request =
        v1::GetTokenActivityRequest { r#ref: reference.clone(), chain: chain.clone(), recent: Some(3), as_of: None };
    let found = tokens.get_token_activity(with_key(&key, request)).await.unwrap().into_inner().activity.unwrap();
    let (found, over_rest) =
        (json(canonical::TokenActivity::from(&found)), rest.get("/v1/tokens/RUN/activity?recent=3").await.ok(200));
    // Each is counted at its own moment.
    for field in ["token", "recent_theses", "last_activity_at", "metrics_scope", "livemode"] {
        assert_eq!(found[field], over_rest[field], "{field}");
    }
    let request = v1::GetThesisVelocityRequest { r#ref: reference, chain, as_of: None };
    let found = tokens.get_thesis_velocity(with_key(&key, request)).await.unwrap().into_inner().velocity.unwrap();
    let found = json(canonical::ThesisVelocity::from(&found));
    assert_eq!(found["token"], over_rest["token"]);
    assert!(found["last_5m"].as_i64().unwrap() > 0);
    let unknown = v1::GetTokenRequest { r#ref: "RUN".to_owned(), chain: of("solana"), as_of: None };
    assert_failure(&tokens.get_token(with_key(&key, unknown)).await.unwrap_err(), Code::NotFound, "TOKEN_NOT_FOUND");

    let mut search = SearchServiceClient::new(service.channel());
    let failure = search.semantic_search(with_key(&key, v1::SemanticSearchRequest::default())).await.unwrap_err();
    assert_failure(&failure, Code::NotFound, "FEATURE_DISABLED");
}

async fn a_verdict_is_the_same(service: &Service) {
    let (key, rest) = customer(service).await;
    let thesis = rest.thesis("writer", "VERDICT", "To The Moon").await.0;
    let bound = thesis_proto::time::parse_iso8601(text(&thesis, "created_at"));
    let mut theses = ThesisServiceClient::new(service.channel());
    for (contains, reason) in [("THE moon", "VERIFIED"), ("sun", "TEXT_NOT_FOUND")] {
        let request = v1::VerifyThesisRequest {
            handle: Some("writer".to_owned()),
            token: Some("verdict".to_owned()),
            created_after: bound,
            created_before: bound,
            contains: Some(contains.to_owned()),
            ..v1::VerifyThesisRequest::default()
        };
        let verdict = theses.verify_thesis(with_key(&key, request)).await.unwrap().into_inner().verification.unwrap();
        let body = json!({
            "handle": "writer", "token": "verdict", "created_after": thesis["created_at"],
            "created_before": thesis["created_at"], "contains": contains,
        });
        let mut verdicts =
            [json(canonical::ThesisVerification::from(&verdict)), rest.post("/v1/verify/thesis", &body).await.ok(200)];
        for verdict in &mut verdicts {
            verdict["freshness"]["checked_at"].take();
            assert_eq!(text(verdict, "reason"), reason);
        }
        assert_eq!(verdicts[0], verdicts[1]);
    }
    let failure = theses.verify_thesis(with_key(&key, v1::VerifyThesisRequest::default())).await.unwrap_err();
    assert_failure(&failure, Code::InvalidArgument, "VALIDATION_FAILED");
}

async fn creating_does_what_rest_does(service: &Service) {
    let (key, rest) = customer(service).await;
    let mut stream = rest.stream("?types=thesis.created").await;
    let mut client = TestDataServiceClient::new(service.channel());
    let made = client.create_test_thesis(with_key(&key, new_thesis("over gRPC"))).await.unwrap().into_inner();
    let made = json(canonical::TestThesisResult::from(&made.result.unwrap()));
    assert_eq!(stream.next().await.data, made["event"]);
    let over_rest = rest.get(&format!("/v1/theses/{}", text(&made["thesis"], "id"))).await.ok(200);
    assert_eq!(over_rest, made["thesis"]);
}

async fn webhooks_are_the_same(service: &Service) {
    let (key, rest) = customer(service).await;
    let mut client = WebhookServiceClient::new(service.channel());
    let request = v1::CreateWebhookRequest {
        url: Some("http://127.0.0.1:19999/".to_owned()),
        events: vec![v1::EventType::TokenActivity.into()],
        ..v1::CreateWebhookRequest::default()
    };
    let made = client.create_webhook(with_key(&key, request)).await.unwrap().into_inner();
    let webhook = made.webhook.unwrap();
    assert!(made.secret.starts_with("whsec_"));
    let over_rest = rest.get(&format!("/v1/webhooks/{}", webhook.id)).await.ok(200);
    assert_eq!(json(canonical::Webhook::from(&webhook)), over_rest);
    let listed = client.list_webhooks(with_key(&key, v1::ListWebhooksRequest::default())).await.unwrap().into_inner();
    assert_eq!(listed.data, std::slice::from_ref(&webhook));
    let (id, webhook_since) = (webhook.id, webhook.created_at);
    let read = client.get_webhook(with_key(&key, v1::GetWebhookRequest { id: id.clone() })).await.unwrap();
    assert_eq!(read.into_inner().webhook.unwrap(), listed.data[0]);
    // The end of time is as far as tomorrow.
    let created_to = Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 });
    let log = v1::ListDeliveriesRequest { id: id.clone(), created_to, ..v1::ListDeliveriesRequest::default() };
    assert!(client.list_deliveries(with_key(&key, log)).await.unwrap().into_inner().data.is_empty());
    let insight = client.get_webhook_insight(with_key(&key, v1::GetWebhookInsightRequest { id: id.clone() })).await;
    let insight = insight.unwrap().into_inner().insight.unwrap();
    assert_eq!((&insight.webhook_id, insight.last_day.unwrap().attempts, insight.replay), (&id, 0, None));
    let request = v1::StartWebhookReplayRequest { id: id.clone(), since: webhook_since, status: 0 };
    let begun = client.start_webhook_replay(with_key(&key, request)).await.unwrap().into_inner().replay.unwrap();
    assert_eq!((begun.status(), begun.since), (v1::DeliveryStatus::Failed, webhook_since));
    client.delete_webhook(with_key(&key, v1::DeleteWebhookRequest { id: id.clone() })).await.unwrap();
    rest.get(&format!("/v1/webhooks/{id}")).await.error(404, "WEBHOOK_NOT_FOUND");
}

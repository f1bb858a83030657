//! The same operations over gRPC, for callers with a key: the same answers, limits and errors as over REST.

mod answers;
mod internal;
mod receipts;
mod subscribe;
mod surface;

use serde::Serialize;
use serde_json::{Value, json};
use thesis_proto::{
    json as canonical,
    v1::{
        self, meta_service_client::MetaServiceClient, test_data_service_client::TestDataServiceClient,
        thesis_service_client::ThesisServiceClient, webhook_service_client::WebhookServiceClient,
    },
};
use tonic::{Code, Request, Status, metadata::MetadataMap};
use tonic_types::StatusExt as _;

use crate::harness::{Client, SERVICE_TOKEN, Service, TEST_KEY, ids, now_ms, text};

on_both_stores![
    errors_say_the_same,
    the_window_is_shared_with_rest,
    an_idempotency_key_works_on_both,
    bounds_are_times_of_four_digit_years,
    a_strangers_word_is_not_believed,
    internal_services_need_the_credential,
];

/// A request of an API key.
pub(crate) fn with_key<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

fn json<T: Serialize>(resource: T) -> Value {
    serde_json::to_value(resource).unwrap()
}

/// A new project's key, and a REST client with it.
async fn customer(service: &Service) -> (String, Client) {
    let key = service.project().await.key(v1::Environment::Test, crate::harness::ALL_SCOPES).await;
    (key.raw, key.client)
}

fn new_thesis(said: &str) -> v1::CreateTestThesisRequest {
    v1::CreateTestThesisRequest {
        handle: Some("writer".to_owned()),
        token: Some("GRPC".to_owned()),
        text: Some(said.to_owned()),
    }
}

/// Demands a failure with this code and reason, and its request id in metadata and details.
fn assert_failure(status: &Status, code: Code, reason: &str) {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("{status:?}"));
    assert_eq!((status.code(), info.reason.as_str(), info.domain.as_str()), (code, reason, "trade-thesis"));
    let request_id = status.metadata().get("x-service-request-id").unwrap().to_str().unwrap();
    assert!(request_id.starts_with("req_"));
    assert_eq!(details.request_info().unwrap().request_id, request_id);
    assert!(!status.message().is_empty());
}

async fn errors_say_the_same(service: &Service) {
    let project = service.project().await;
    let key = project.key(v1::Environment::Test, &["theses:read"]).await.raw;
    let mut theses = ThesisServiceClient::new(service.channel());
    let failure = theses.list_theses(v1::ListThesesRequest::default()).await.unwrap_err();
    assert_failure(&failure, Code::Unauthenticated, "MISSING_API_KEY");
    let failure = theses.list_theses(with_key("svc_test_x", v1::ListThesesRequest::default())).await.unwrap_err();
    assert_failure(&failure, Code::Unauthenticated, "INVALID_API_KEY");
    let request = v1::GetThesisRequest { id: "th_unknown".to_owned() };
    let failure = theses.get_thesis(with_key(&key, request)).await.unwrap_err();
    assert_failure(&failure, Code::NotFound, "THESIS_NOT_FOUND");
    assert!(failure.metadata().contains_key("x-ratelimit-remaining"));
    let wrong = v1::ListThesesRequest {
        limit: Some(0),
        chain: Some(String::new()),
        since: Some("soon".to_owned()),
        sort: 99,
        ..v1::ListThesesRequest::default()
    };
    let failure = theses.list_theses(with_key(&key, wrong)).await.unwrap_err();
    assert_failure(&failure, Code::InvalidArgument, "VALIDATION_FAILED");
    let details = failure.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    let fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(fields, ["chain", "since", "sort", "limit"]);
    let cursor = v1::ListThesesRequest { cursor: Some("x".to_owned()), ..v1::ListThesesRequest::default() };
    let failure = theses.list_theses(with_key(&key, cursor)).await.unwrap_err();
    assert_failure(&failure, Code::InvalidArgument, "INVALID_CURSOR");
    let old = v1::ListThesesRequest { since: Some("999d".to_owned()), ..v1::ListThesesRequest::default() };
    let failure = theses.list_theses(with_key(&key, old)).await.unwrap_err();
    assert_failure(&failure, Code::PermissionDenied, "HISTORY_LIMIT");
    let mut webhooks = WebhookServiceClient::new(service.channel());
    let failure = webhooks.list_webhooks(with_key(&key, v1::ListWebhooksRequest::default())).await.unwrap_err();
    assert_failure(&failure, Code::PermissionDenied, "INSUFFICIENT_SCOPE");
    project.approve().await;
    let live = project.key(v1::Environment::Live, &[]).await.raw;
    let mut data = TestDataServiceClient::new(service.channel());
    let failure = data.create_test_thesis(with_key(&live, new_thesis("x"))).await.unwrap_err();
    assert_failure(&failure, Code::PermissionDenied, "TEST_KEY_REQUIRED");
}

fn remaining(metadata: &MetadataMap) -> i64 {
    metadata.get("x-ratelimit-remaining").unwrap().to_str().unwrap().parse().unwrap()
}

async fn the_window_is_shared_with_rest(service: &Service) {
    let key = service.project_on("few").await.key(v1::Environment::Test, &[]).await;
    let mut meta = MetaServiceClient::new(service.first_core());
    let over_rest = key.client.at_one_edge().get("/v1/me").await;
    let answer = meta.get_me(with_key(&key.raw, v1::GetMeRequest {})).await.unwrap();
    let reset = answer.metadata().get("x-ratelimit-reset").unwrap().to_str().unwrap();
    if over_rest.header("x-ratelimit-reset") == reset {
        assert_eq!(remaining(answer.metadata()), over_rest.number("x-ratelimit-remaining") - 1);
    }
    assert_eq!(answer.metadata().get("x-ratelimit-limit").unwrap(), "300");
    assert_eq!(answer.metadata().get("ratelimit-policy").unwrap(), "\"standard\";q=300;w=60");
    // The same holds for the month's quota, of four.
    key.client.get("/v1/me").await.ok(200);
    key.client.get("/v1/me").await.ok(200);
    let failure = meta.get_me(with_key(&key.raw, v1::GetMeRequest {})).await.unwrap_err();
    assert_failure(&failure, Code::ResourceExhausted, "QUOTA_EXCEEDED");
    assert!(failure.get_error_details().retry_info().unwrap().retry_delay.unwrap().as_secs() > 0);
}

async fn an_idempotency_key_works_on_both(service: &Service) {
    let (key, rest) = customer(service).await;
    let mut client = TestDataServiceClient::new(service.channel());
    let once = |said: &str| {
        let mut request = with_key(&key, new_thesis(said));
        request.metadata_mut().insert("idempotency-key", "both".parse().unwrap());
        request
    };
    let first = client.create_test_thesis(once("x")).await.unwrap();
    assert!(!first.metadata().contains_key("idempotent-replayed"));
    let again = client.create_test_thesis(once("x")).await.unwrap();
    assert_eq!(again.metadata().get("idempotent-replayed").unwrap(), "true");
    assert_eq!(first.get_ref(), again.get_ref());
    let body = json!({"handle": "writer", "token": "GRPC", "text": "x"});
    let over_rest = rest.post_once("/v1/test/theses", &body, "both").await;
    assert_eq!(over_rest.header("idempotent-replayed"), "true");
    assert_eq!(over_rest.ok(201), json(canonical::TestThesisResult::from(&first.into_inner().result.unwrap())));
    let failure = client.create_test_thesis(once("y")).await.unwrap_err();
    assert_failure(&failure, Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED");
    // The key must have the same form as over REST.
    for wrong in [&["".as_bytes()][..], &["é".as_bytes()], &[b"a", b"b"]] {
        let mut request = with_key(&key, new_thesis("x")).into_parts();
        for value in wrong {
            let value = reqwest::header::HeaderValue::from_bytes(value).unwrap();
            let mut headers = request.0.into_headers();
            headers.append("idempotency-key", value);
            request.0 = MetadataMap::from_headers(headers);
        }
        let request = Request::from_parts(request.0, request.1, request.2);
        let failure = client.create_test_thesis(request).await.unwrap_err();
        assert_failure(&failure, Code::InvalidArgument, "INVALID_REQUEST");
    }
    // An operation without idempotency ignores the key, right or wrong.
    let mut request = with_key(&key, v1::GetMeRequest {});
    request.metadata_mut().insert("idempotency-key", "".parse().unwrap());
    MetaServiceClient::new(service.channel()).get_me(request).await.unwrap();
}

async fn bounds_are_times_of_four_digit_years(service: &Service) {
    let (key, _) = customer(service).await;
    let at = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
    let mut theses = ThesisServiceClient::new(service.channel());
    let mut list = async |created_after, created_before| {
        let request = v1::ListThesesRequest { created_after, created_before, ..v1::ListThesesRequest::default() };
        theses.list_theses(with_key(&key, request)).await.map(|page| page.into_inner().data.len())
    };
    // A very early time is not malformed.
    assert_eq!(list(None, at(-1, 999_999_999)).await.unwrap(), 0);
    assert_eq!(list(None, at(-62_135_596_800, 0)).await.unwrap(), 0);
    assert_eq!(list(None, at(253_402_300_799, 999_999_999)).await.unwrap(), 25);
    assert_failure(&list(at(-1, 0), None).await.unwrap_err(), Code::PermissionDenied, "HISTORY_LIMIT");
    for odd in [at(-62_135_596_801, 0), at(253_402_300_800, 0), at(i64::MAX, 999_999), at(i64::MIN, 0), at(0, -1)] {
        let failure = list(odd, None).await.unwrap_err();
        assert_failure(&failure, Code::InvalidArgument, "VALIDATION_FAILED");
        let failure = list(None, odd).await.unwrap_err();
        assert_failure(&failure, Code::InvalidArgument, "VALIDATION_FAILED");
    }
    // Parts of a millisecond decide the order too.
    let now = now_ms() / 1_000;
    assert_eq!(list(at(now, 2), at(now, 2)).await.unwrap(), 0);
    let failure = list(at(now, 2), at(now, 1)).await.unwrap_err();
    assert_failure(&failure, Code::InvalidArgument, "VALIDATION_FAILED");
}

async fn a_strangers_word_is_not_believed(service: &Service) {
    let mut meta = MetaServiceClient::new(service.channel());
    let mut request = with_key(TEST_KEY, v1::GetMeRequest {});
    request.metadata_mut().insert("x-service-request-id", "req_forged".parse().unwrap());
    request.metadata_mut().insert("x-service-token", "guessed-guessed-guessed-guessed-1234".parse().unwrap());
    let answer = meta.get_me(request).await.unwrap();
    let id = answer.metadata().get("x-service-request-id").unwrap().to_str().unwrap();
    assert!(id.starts_with("req_") && id != "req_forged");
    // The service credential is no key.
    let mut request = Request::new(v1::GetMeRequest {});
    request.metadata_mut().insert("x-service-token", SERVICE_TOKEN.parse().unwrap());
    assert_failure(&meta.get_me(request).await.unwrap_err(), Code::Unauthenticated, "MISSING_API_KEY");
}

async fn internal_services_need_the_credential(service: &Service) {
    use v1::{
        admin_service_client::AdminServiceClient, delivery_service_client::DeliveryServiceClient,
        gate_service_client::GateServiceClient, stream_service_client::StreamServiceClient,
    };
    let channel = || service.channel();
    let refused = |failure: Option<Status>| {
        assert_failure(&failure.unwrap(), Code::Unauthenticated, "MISSING_API_KEY");
    };
    let list = with_key(TEST_KEY, v1::ListOrganizationsRequest {});
    refused(AdminServiceClient::new(channel()).list_organizations(list).await.err());
    let check = with_key(TEST_KEY, v1::CheckLogRequest { dataset: "sandbox".to_owned() });
    refused(AdminServiceClient::new(channel()).check_log(check).await.err());
    refused(StreamServiceClient::new(channel()).open(with_key(TEST_KEY, v1::OpenRequest::default())).await.err());
    refused(StreamServiceClient::new(channel()).tail(with_key(TEST_KEY, v1::TailRequest::default())).await.err());
    refused(GateServiceClient::new(channel()).refuse(with_key(TEST_KEY, v1::RefuseRequest::default())).await.err());
    refused(DeliveryServiceClient::new(channel()).claim(with_key(TEST_KEY, v1::ClaimRequest::default())).await.err());
    let mut wrong = Request::new(v1::ListOrganizationsRequest {});
    wrong.metadata_mut().insert("x-service-token", format!("{SERVICE_TOKEN}x").parse().unwrap());
    let failure = AdminServiceClient::new(channel()).list_organizations(wrong).await.unwrap_err();
    assert_failure(&failure, Code::Unauthenticated, "INVALID_API_KEY");
}

#[tokio::test]
async fn deadlines_and_large_messages_do_no_harm() {
    let service = crate::harness::embedded().await;
    let (key, rest) = customer(service).await;
    let mut client = TestDataServiceClient::new(service.channel());
    let failure = client.create_test_thesis(with_key(&key, new_thesis(&"x".repeat(300_000)))).await.unwrap_err();
    assert_failure(&failure, Code::InvalidArgument, "PAYLOAD_TOO_LARGE");
    let mut hurried = with_key(&key, new_thesis("in no time"));
    hurried.set_timeout(std::time::Duration::from_nanos(1));
    let started = now_ms();
    let _ = client.create_test_thesis(hurried).await;
    assert!(now_ms() - started < 5_000);
    let made = rest.thesis("writer", "GRPC", "after").await.0;
    assert!(ids(&rest.all("/v1/theses?handle=writer").await).contains(&text(&made, "id")));
}

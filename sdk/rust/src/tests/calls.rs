//! Calls: their requests, their retries, and their errors.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};

use super::{Service, answer, first_line, header, ok, refused};
use crate::{
    Client, CreateWebhook, Error, ErrorCode, ErrorType, Event, EventData, EventType, ListEventsParams,
    ListThesesParams, SearchParams, Thesis, UpdateWebhook, WebhookFilters,
};

const EMPTY_PAGE: &str = r#"{"data":[],"has_more":false,"next_cursor":null}"#;
const DISCOVERY: &str = r#"{"object":"discovery","version":"1","status":"ok"}"#;

fn thesis(id: &str) -> String {
    format!(
        r#"{{"object":"thesis","id":"{id}","text":"moon","public_url":null,"likes":null,"replies":1,"source":"sandbox",
            "created_at":"2026-01-31T12:00:00.123Z","updated_at":"2026-01-31T12:00:00.123Z","livemode":false,"later":1,
            "profile":{{"id":"fp_1","handle":"@a","display_name":null,"avatar_url":null}},
            "token":{{"id":"tk_1","symbol":"$RUN","name":null,"chain":"sandbox","address":"0x1"}}}}"#
    )
}

#[tokio::test]
async fn a_request_carries_the_key_and_the_user_agent() {
    let service = Service::start_with(&[ok(&thesis("th_1"))], |builder| builder.user_agent("bot/1.2")).await;
    let thesis: Thesis = service.client.get_thesis("th/1 ?").await.unwrap();
    assert_eq!((thesis.text.as_str(), thesis.created_at.as_millisecond() % 1000), ("moon", 123));
    let request = &service.requests()[0];
    assert_eq!(first_line(request), "GET /v1/theses/th%2F1%20%3F HTTP/1.1");
    assert_eq!(header(request, "authorization"), Some("Bearer svc_test_key"));
    let agent = concat!("trade-thesis-rust/", env!("CARGO_PKG_VERSION"), " bot/1.2");
    assert_eq!(header(request, "user-agent"), Some(agent));
    assert!(!format!("{:?}", service.client).contains("svc_test_key"));
}

#[test]
fn an_address_or_a_key_of_another_form_is_refused() {
    let others = ["https://a.example/?b", "https://a.example/?", "https://a.example/#b", "https://a.example/#"];
    for address in ["", "api.example.com", "ftp://api.example.com", "https://", ":"].into_iter().chain(others) {
        assert!(Client::new(address, "svc_test_key").is_err(), "{address}");
    }
    for key in ["", "\n", "svc test"] {
        assert!(Client::new("https://api.example.com", key).is_err(), "{key:?}");
    }
    assert!(Client::new("https://api.example.com/", "svc_test_key\n").is_ok());
    assert!(Client::builder_without_key("api.example.com").build().is_err());
}

#[tokio::test]
async fn a_client_without_a_key_sends_none() {
    let service =
        Service::start(&[answer(200, "", "note"), refused(401, "authentication", "MISSING_API_KEY", "")]).await;
    let client = Client::builder_without_key(&service.address).user_agent("bot/1.2").build().unwrap();
    assert_eq!(client.get_checkpoint("live").await.unwrap(), "note");
    assert_eq!(client.get_me().await.unwrap_err().code(), Some(&ErrorCode::MissingApiKey));
    let requests = service.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(header(request, "authorization"), None);
        assert!(header(request, "user-agent").is_some_and(|agent| agent.ends_with(" bot/1.2")), "{request}");
    }
}

#[tokio::test]
async fn an_id_that_names_nothing_is_not_sent() {
    let service = Service::start(&[ok("{}")]).await;
    for id in ["", ".", ".."] {
        assert!(matches!(service.client.get_thesis(id).await, Err(Error::Usage(_))), "{id:?}");
    }
    assert!(service.requests().is_empty());
}

#[tokio::test]
async fn a_refusal_has_its_code_and_request_id() {
    let service = Service::start(&[refused(404, "not_found", "THESIS_NOT_FOUND", "")]).await;
    let error = service.client.get_thesis("th_1").await.unwrap_err();
    assert_eq!((error.code(), error.request_id()), (Some(&ErrorCode::ThesisNotFound), Some("req_1")));
    let refusal = error.api().unwrap();
    assert_eq!((refusal.status, refusal.r#type.as_ref()), (404, Some(&ErrorType::NotFound)));
    assert_eq!(refusal.details.as_ref().unwrap().limit, Some(3));
    assert!(error.to_string().contains("THESIS_NOT_FOUND: no (req_1)"), "{error}");
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn a_later_code_and_the_response_of_a_proxy_are_errors_too() {
    let later = refused(418, "tea", "TEAPOT", "");
    let service = Service::start(&[later, answer(400, "X-Service-Request-Id: req_2\r\n", "<html>")]).await;
    let error = service.client.get_discovery().await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::Unknown("TEAPOT".to_owned())));
    let error = service.client.get_discovery().await.unwrap_err();
    assert_eq!((error.code(), error.request_id(), error.api().unwrap().status), (None, Some("req_2"), 400));
}

#[tokio::test]
async fn a_transient_refusal_is_repeated_after_its_time() {
    let service = Service::start(&[
        refused(429, "rate_limit", "RATE_LIMITED", "Retry-After: 7\r\n"),
        refused(503, "internal", "SERVICE_UNAVAILABLE", "Retry-After: 1\r\n"),
        refused(500, "internal", "INTERNAL_ERROR", ""),
        answer(502, "", "<html>"),
        String::new(),
        ok(DISCOVERY),
    ])
    .await;
    service.client.get_discovery().await.unwrap();
    let pauses = service.pauses();
    assert_eq!(pauses.len(), 5);
    for (place, (pause, min)) in pauses.iter().zip([7250, 1500, 1000, 2000, 4000]).enumerate() {
        let min = Duration::from_millis(min);
        assert!(*pause >= min && *pause < min + Duration::from_millis(250 << place), "{place}: {pause:?}");
    }
}

#[tokio::test]
async fn a_retry_after_of_many_years_is_no_short_one() {
    for seconds in ["9223372037", "18446744073709551615", "99999999999999999999"] {
        let busy = refused(503, "internal", "SERVICE_UNAVAILABLE", &format!("Retry-After: {seconds}\r\n"));
        let service = Service::start(&[busy]).await;
        assert!(service.client.get_discovery().await.is_err());
        assert_eq!(service.requests().len(), 1, "{seconds}");
    }
}

#[tokio::test]
async fn tries_end() {
    let busy = refused(503, "internal", "SERVICE_UNAVAILABLE", "");
    let service = Service::start(std::slice::from_ref(&busy)).await;
    let error = service.client.get_discovery().await.unwrap_err();
    assert_eq!((error.code(), service.requests().len()), (Some(&ErrorCode::ServiceUnavailable), 6));
    let service = Service::start_with(&[busy], |builder| builder.max_retries(0)).await;
    assert!(service.client.get_discovery().await.is_err());
    assert_eq!(service.requests().len(), 1);
    assert!(service.client.get_discovery().max_retries(2).await.is_err());
    assert_eq!(service.requests().len(), 4);
}

#[tokio::test]
async fn a_failure_that_no_retry_can_fix_is_not_repeated() {
    for one in [
        refused(429, "rate_limit", "QUOTA_EXCEEDED", "Retry-After: 60\r\n"),
        refused(429, "rate_limit", "RATE_LIMITED", "Retry-After: 3600\r\n"),
        refused(409, "conflict", "AMBIGUOUS_TOKEN", ""),
        refused(422, "validation", "VALIDATION_FAILED", ""),
        ok("no JSON"),
    ] {
        let service = Service::start(&[one]).await;
        assert!(service.client.get_discovery().await.is_err());
        assert_eq!(service.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_try_without_a_response_ends_at_its_timeout() {
    let silent = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n: silent\n".to_owned();
    let service = Service::start_with(&[silent], |builder| builder.max_retries(0)).await;
    let call = service.client.get_discovery().timeout(Duration::from_millis(50));
    assert!(matches!(call.await, Err(Error::Timeout)));
}

#[tokio::test]
async fn a_change_has_one_idempotency_key_in_all_its_tries() {
    let running = refused(409, "conflict", "IDEMPOTENCY_IN_PROGRESS", "Retry-After: 1\r\n");
    let wrong = refused(422, "validation", "VALIDATION_FAILED", "");
    let service = Service::start(&[running, String::new(), wrong]).await;
    let body = CreateWebhook::new("https://a.example", [EventType::ThesisCreated]);
    for _ in 0..2 {
        service.client.create_webhook(&body).await.unwrap_err();
    }
    service.client.create_webhook(&body).idempotency_key("mine").await.unwrap_err();
    service.client.get_me().idempotency_key("mine").await.unwrap_err();
    let requests = service.requests();
    let keys: Vec<_> = requests.iter().map(|request| header(request, "idempotency-key")).collect();
    assert_eq!(keys.len(), 6);
    assert_eq!(keys[0].map(str::len), Some(36));
    assert_eq!((keys[0], keys[1]), (keys[1], keys[2]));
    assert_ne!(keys[2], keys[3]);
    assert_eq!((keys[4], keys[5]), (Some("mine"), None));
    let body = r#"{"url":"https://a.example","events":["thesis.created"]}"#;
    assert!(requests[..5].iter().all(|request| request.ends_with(body)), "{requests:?}");
}

#[tokio::test]
async fn parameters_are_written_as_the_service_reads_them() {
    let service = Service::start(&[ok(EMPTY_PAGE)]).await;
    let params = ListEventsParams::default()
        .types([EventType::ThesisCreated, EventType::TokenActivity])
        .token(["$RUN", "SEEK"])
        .text(["moon", "a, b"])
        .created_after("2026-01-31T13:00:00.005999+01:00".parse().unwrap())
        .limit(5);
    service.client.list_events(&params).await.unwrap();
    service.client.search("to the moon", &SearchParams::default()).await.unwrap_err();
    let requests = service.requests();
    assert_eq!(
        first_line(&requests[0]),
        "GET /v1/events?types=thesis.created%2Ctoken.activity&token=%24RUN%2CSEEK&text=moon&text=a%2C+b\
         &created_after=2026-01-31T12%3A00%3A00.005Z&limit=5 HTTP/1.1"
    );
    assert_eq!(first_line(&requests[1]), "GET /v1/search?q=to+the+moon HTTP/1.1");
}

#[test]
fn a_field_is_left_alone_cleared_or_set() {
    let headers = [("A".to_owned(), None)].into();
    for (body, json) in [
        (UpdateWebhook::default(), "{}"),
        (UpdateWebhook::default().clear_description(), r#"{"description":null}"#),
        (UpdateWebhook::default().description("a"), r#"{"description":"a"}"#),
        (
            UpdateWebhook::default().filters(WebhookFilters::default()).headers(headers),
            r#"{"filters":{},"headers":{"A":null}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&body).unwrap(), json);
    }
}

#[tokio::test]
async fn an_iterator_reads_all_pages() {
    let page = |ids: &[&str], next: &str| {
        let rows: Vec<String> = ids.iter().map(|id| thesis(id)).collect();
        ok(&format!(r#"{{"data":[{}],"has_more":{},"next_cursor":{next}}}"#, rows.join(","), next != "null"))
    };
    let service = Service::start(&[
        page(&["th_1", "th_2"], r#""one""#),
        page(&[], r#""two""#),
        page(&["th_3"], "null"),
        refused(400, "invalid_request", "INVALID_CURSOR", ""),
    ])
    .await;
    let params = ListThesesParams::default().token("RUN");
    let rows: Vec<Thesis> = service.client.iterate_theses(&params).try_collect().await.unwrap();
    let ids: Vec<&str> = rows.iter().map(|thesis| thesis.id.as_str()).collect();
    assert_eq!(ids, ["th_1", "th_2", "th_3"]);
    let requests = service.requests();
    let lines: Vec<&str> = requests.iter().map(|request| first_line(request)).collect();
    assert_eq!(
        lines,
        [
            "GET /v1/theses?token=RUN&limit=100 HTTP/1.1",
            "GET /v1/theses?token=RUN&limit=100&cursor=one HTTP/1.1",
            "GET /v1/theses?token=RUN&limit=100&cursor=two HTTP/1.1",
        ]
    );
    let outcomes: Vec<_> = service.client.iterate_theses(&params).collect().await;
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].as_ref().unwrap_err().code(), Some(&ErrorCode::InvalidCursor));
}

#[tokio::test]
async fn a_download_is_read_in_pieces() {
    let service = Service::start(&[answer(206, "", "PAR1")]).await;
    let call = service.client.get_archive_file("2026-01-31", "theses.parquet").range("bytes=0-3");
    assert_eq!(call.await.unwrap().bytes().await.unwrap(), "PAR1");
    assert_eq!(header(&service.requests()[0], "range"), Some("bytes=0-3"));
}

#[test]
fn an_event_has_the_data_of_its_type() {
    let common = r#""object":"event","id":"evt_1","created_at":"2026-01-31T12:00:00.000Z","livemode":false"#;
    let read = |rest: &str| serde_json::from_str::<Event>(&format!("{{{common},{rest}}}")).unwrap();
    let velocity = read(
        r#""type":"token.thesis_velocity","source":"derived","data":{"last_5m":1,"last_1h":2,"previous_1h":0,
            "change_pct":null,"computed_at":"2026-01-31T12:00:00.000Z",
            "token":{"id":"tk_1","symbol":"$RUN","name":null,"chain":"sandbox","address":"0x1"}}"#,
    );
    assert!(matches!(&velocity.data, EventData::TokenThesisVelocity(data) if data.last_1h == 2), "{velocity:?}");
    let thin = read(r#""type":"thesis.created""#);
    assert_eq!((&thin.data, &thin.source), (&EventData::Thin, &None));
    assert!(!serde_json::to_string(&thin).unwrap().contains("data"));
    let later = read(r#""type":"thesis.pinned","data":{"a":[1]}"#);
    assert_eq!(later.data, EventData::Unknown(serde_json::json!({"a": [1]})));
    assert!(serde_json::to_string(&later).unwrap().contains(r#""data":{"a":[1]}"#));
}

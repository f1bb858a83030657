//! Rate windows, the month's quota, failed authentications.

use reqwest::Method;
use serde_json::json;
use thesis_proto::v1::{Environment, GetMeRequest, meta_service_client::MetaServiceClient};
use tonic::Code;

use crate::harness::{Answer, Client, LIVE_KEY, Service, TEST_KEY, now_ms};

on_both_stores![
    every_accepted_answer_tells_the_window,
    the_window_ends_at_its_limit,
    a_window_is_its_projects_and_environments,
    the_months_quota_ends,
    failed_authentications_are_limited_per_address,
    an_ipv6_client_is_its_network,
];

/// The rate headers, which must agree with each other: limit, remaining, reset.
fn window(answer: &Answer) -> (i64, i64, i64) {
    let (limit, remaining) = (answer.number("x-ratelimit-limit"), answer.number("x-ratelimit-remaining"));
    let reset = answer.number("x-ratelimit-reset");
    assert_eq!(reset % 60, 0);
    assert!((-1..=60).contains(&(reset - now_ms() / 1_000)), "{answer:?}");
    assert_eq!(answer.header("ratelimit-policy"), format!("\"standard\";q={limit};w=60"));
    let draft = answer.header("ratelimit");
    let left: i64 = draft.strip_prefix(&format!("\"standard\";r={remaining};t=")).unwrap().parse().unwrap();
    assert!((0..=60).contains(&left), "{answer:?}");
    (limit, remaining, reset)
}

fn has_no_window(answer: &Answer) {
    assert!(!answer.headers.keys().any(|name| name.as_str().contains("ratelimit")), "{answer:?}");
}

async fn every_accepted_answer_tells_the_window(service: &Service) {
    let project = service.project().await;
    let client = project.test().await.at_one_edge();
    let counted = [
        client.get("/v1/me").await,
        client.get("/v1/theses/th_unknown").await,
        client.get("/v1/theses?limit=0").await,
        client.get("/v1/theses?token=%zz").await,
        client.get("/v1/theses?since=999d").await,
        client.post("/v1/webhooks", &json!({"url": "http://10.0.0.1/", "events": ["thesis.created"]})).await,
        client.post("/v1/test/theses", &json!({"handle": "writer", "token": "X", "text": "x"})).await,
        client.send(client.request(Method::POST, "/v1/webhooks").body("x".repeat(70_000))).await,
    ];
    let windows: Vec<_> = counted.iter().map(window).collect();
    for pair in windows.windows(2) {
        let ((limit, before, reset), (_, after, next)) = (pair[0], pair[1]);
        assert_eq!(limit, 1_200);
        assert!(after == before - 1 || (next > reset && after == 1_199), "{windows:?}");
    }
    let stream = client.stream("").await;
    assert!(stream.headers.contains_key("x-ratelimit-remaining"));
    // Refused after the key and before the rate: the window is told, and the request not counted.
    let narrow = project.key(Environment::Test, &["search:read"]).await.client.at_one_edge();
    let refused = [narrow.get("/v1/theses").await, narrow.get("/v1/events").await];
    let [first, second] = refused.each_ref().map(window);
    assert!(second.1 == first.1 || second.2 > first.2);
    // No accepted key: no window.
    let nobody = service.anonymous();
    has_no_window(&nobody.get("/v1/theses").await);
    has_no_window(&nobody.get("/v1/nothing").await);
    has_no_window(&client.get("/v1").await);
    has_no_window(&client.get("/v1/me?key=1").await);
}

/// Uses up a client's window; gives the first refusal.
async fn use_up(client: &Client, path: &str) -> Answer {
    let (mut used, mut reset) = (0, 0);
    loop {
        let answer = client.get(path).await;
        let (limit, remaining, ends) = window(&answer);
        if ends != reset {
            (used, reset) = (0, ends);
        }
        if answer.status == 429 {
            assert_eq!((used, remaining), (limit, 0));
            return answer;
        }
        used += 1;
        assert_eq!(remaining, limit - used);
    }
}

async fn the_window_ends_at_its_limit(service: &Service) {
    let client = service.project_on("free").await.test().await.at_one_edge();
    let refused = use_up(&client, "/v1/me").await;
    assert_eq!(refused.number("x-ratelimit-limit"), 300);
    refused.error(429, "RATE_LIMITED");
    let (wait, reset) = (refused.number("retry-after"), refused.number("x-ratelimit-reset"));
    assert!((1..=60).contains(&wait) && (reset - now_ms() / 1_000 - wait).abs() <= 2);
    // Every route of the class is refused, before the shape is checked.
    let broken = client.request(Method::POST, "/v1/webhooks").body("{");
    let answers = [
        client.get("/v1/theses").await,
        client.get("/v1/theses?limit=0").await,
        client.get("/v1/events/stream").await,
        client.send(broken).await,
    ];
    for answer in answers {
        // Unless the minute has just ended.
        if answer.number("x-ratelimit-reset") == reset {
            answer.error(429, "RATE_LIMITED");
        }
    }
}

async fn a_window_is_its_projects_and_environments(service: &Service) {
    let project = service.project_on("free").await;
    let (one, other) = (project.test().await.at_one_edge(), project.test().await.at_one_edge());
    let live = project.live().await;
    let refused = use_up(&one, "/v1/me").await;
    let answer = other.get("/v1/me").await;
    if answer.number("x-ratelimit-reset") == refused.number("x-ratelimit-reset") {
        answer.error(429, "RATE_LIMITED");
    }
    live.get("/v1/me").await.ok(200);
    service.project_on("free").await.test().await.get("/v1/me").await.ok(200);
}

async fn the_months_quota_ends(service: &Service) {
    let project = service.project_on("few").await;
    let (client, live) = (project.test().await, project.live().await);
    client.get("/v1/me").await.ok(200);
    // Errors of shape, rate and key do not count.
    for _ in 0..6 {
        client.get("/v1/theses?limit=0").await.invalid(&["limit"]);
        client.with_key(Some("svc_test_")).get("/v1/me").await.error(401, "INVALID_API_KEY");
        client.get("/v1/me?key=1").await.error(400, "INVALID_REQUEST");
    }
    client.get("/v1/theses/th_unknown").await.error(404, "THESIS_NOT_FOUND");
    // All environments and projects of the organization together.
    live.get("/v1/theses").await.ok(200);
    let usage = client.get("/v1/me/usage").await.ok(200);
    assert_eq!((&usage["month"]["used"], &usage["month"]["remaining"]), (&json!(4), &json!(0)));
    for client in [&client, &live] {
        let refused = client.get("/v1/me").await;
        refused.error(429, "QUOTA_EXCEEDED");
        window(&refused);
        assert!(refused.number("retry-after") > 0);
        // The shape comes before it; history and look-up after.
        client.get("/v1/theses?limit=0").await.invalid(&["limit"]);
        client.get("/v1/theses?since=99d").await.error(429, "QUOTA_EXCEEDED");
        client.get("/v1/theses/th_unknown").await.error(429, "QUOTA_EXCEEDED");
        client.get("/v1/events/stream").await.error(429, "QUOTA_EXCEEDED");
    }
}

/// Fails to authenticate until refused; tells after how many failures, all in one minute.
async fn failures_until_refused(next: impl Fn() -> Client) -> (usize, Client, Answer) {
    loop {
        let client = next().at_one_edge();
        let (minute, mut failures) = (now_ms() / 60_000, 0);
        let refused = loop {
            let answer = client.with_key(Some("svc_live_nobody")).get("/v1/me").await;
            if answer.status == 429 {
                break answer;
            }
            answer.error(401, "INVALID_API_KEY");
            failures += 1;
        };
        if now_ms() / 60_000 == minute {
            return (failures, client, refused);
        }
    }
}

async fn failed_authentications_are_limited_per_address(service: &Service) {
    let (failures, client, refused) = failures_until_refused(|| service.anonymous()).await;
    assert_eq!(failures, 20);
    refused.error(429, "RATE_LIMITED");
    assert!((1..=60).contains(&refused.number("retry-after")));
    has_no_window(&refused);
    // A valid key still passes from there, and failures elsewhere still get 401.
    client.with_key(Some(TEST_KEY)).get("/v1/me").await.ok(200);
    client.with_key(Some(LIVE_KEY)).get("/v1/me").await.ok(200);
    service.anonymous().get("/v1/me").await.error(401, "MISSING_API_KEY");
    // Addresses to the left of the one that the proxy saw can be invented.
    let invented = client.at(&format!("192.0.2.7, {}", client.address));
    let answer = invented.get("/v1/me").await;
    assert!(answer.status == 429 || now_ms() % 60_000 < 5_000, "{}", answer.text);
}

#[tokio::test]
async fn a_forged_header_does_not_evade_the_limit() {
    // No proxy is trusted: whatever the header says, all this comes from one address.
    let service = Service::embedded(|setup| setup.set("SVC_TRUSTED_PROXIES", "192.0.2.0/24"));
    let (failures, client, _) = failures_until_refused(|| service.anonymous()).await;
    assert!(failures <= 20, "{failures}");
    let minute = now_ms() / 60_000;
    let answer = service.anonymous().get("/v1/me").await;
    assert!(answer.status == 429 || now_ms() / 60_000 > minute, "{}", answer.text);
    client.with_key(Some(TEST_KEY)).get("/v1/me").await.ok(200);

    // The same over gRPC: only an edge, with the credential, may name a client address.
    let mut meta = MetaServiceClient::new(service.channel());
    let mut codes = Vec::new();
    for number in 0..60 {
        let mut request = tonic::Request::new(GetMeRequest {});
        let address = format!("198.51.100.{number}").parse().unwrap();
        request.metadata_mut().insert("x-client-address", address);
        codes.push(meta.get_me(request).await.unwrap_err().code());
    }
    // Sixty failures lie in two minutes at most.
    let refused = codes.iter().filter(|code| **code == Code::ResourceExhausted).count();
    assert!(refused >= 20, "{codes:?}");
}

#[tokio::test]
async fn behind_a_trusted_proxy_only_what_it_saw_counts() {
    let service = Service::embedded(|setup| setup);
    let (failures, client, _) = failures_until_refused(|| service.anonymous()).await;
    assert_eq!(failures, 20);
    let minute = now_ms() / 60_000;
    // The proxy appends the address it saw, to the client's header or in one of its own.
    let invented = client.at("192.0.2.7");
    let request = invented.request(Method::GET, "/v1/me").header("x-forwarded-for", &client.address);
    let refused = invented.send(request).await;
    assert!(refused.status == 429 || now_ms() / 60_000 > minute, "{}", refused.text);
    // Another client is not punished for naming the first.
    let other = service.anonymous();
    let request = client.request(Method::GET, "/v1/me").header("x-forwarded-for", &other.address);
    other.send(request).await.error(401, "MISSING_API_KEY");
}

async fn an_ipv6_client_is_its_network(service: &Service) {
    let network = || format!("2001:db8:{:x}:{:x}", now_ms() & 0xffff, std::process::id() & 0xffff);
    let (failures, client, _) = failures_until_refused(|| service.anonymous().at(&format!("{}::1", network()))).await;
    assert_eq!(failures, 20);
    let neighbour = client.at(&client.address.replace("::1", ":1:2:3:4"));
    let answer = neighbour.get("/v1/me").await;
    assert!(answer.status == 429 || now_ms() % 60_000 < 5_000, "{}", answer.text);
}

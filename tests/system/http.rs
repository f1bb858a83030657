//! `ETag`, `HEAD`, compression, pages of other origins, and features that are off.

use std::io::Read as _;

use flate2::read::GzDecoder;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use thesis_proto::v1::{Environment, observation::Observed};

use crate::harness::{
    Client, Service,
    ingest::{author, engagement, revision, thesis, token},
    now_ms, text,
};

on_both_stores![
    a_known_resource_is_not_sent_again,
    a_tag_follows_the_resource,
    only_single_resources_have_tags,
    the_description_is_sent_once,
    head_answers_as_get_without_the_body,
    long_answers_are_compressed_as_asked,
    pages_of_any_origin_may_call,
    semantic_search_is_off,
];

/// Sends a request with headers; reads nothing of the answer.
async fn send(client: &Client, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = client.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("no {name} in {response:?}")).to_str().unwrap()
}

/// One path of each single resource.
async fn resources(client: &Client) -> Vec<String> {
    let (thesis, event) = client.thesis("sbx_runner", "HTTPS", "x").await;
    let webhook = client.webhook("http://127.0.0.1:19998/", &["thesis.created"]).await;
    vec![
        "/v1/me".to_owned(),
        "/v1/profiles/sbx_runner".to_owned(),
        "/v1/profiles?handle=sbx_runner".to_owned(),
        format!("/v1/theses/{}", text(&thesis, "id")),
        "/v1/tokens/HTTPS".to_owned(),
        format!("/v1/events/{}", text(&event, "id")),
        format!("/v1/webhooks/{}", text(&webhook, "id")),
    ]
}

async fn a_known_resource_is_not_sent_again(service: &Service) {
    let client = service.test_client().await;
    for path in resources(&client).await {
        let first = client.get(&path).await;
        first.ok(200);
        let tag = first.header("etag").to_owned();
        assert!(tag.trim_start_matches("W/").starts_with('"') && tag.ends_with('"'), "{tag}");
        // Weak or strong, alone or in a list, the tag names the same state.
        let strong = tag.trim_start_matches("W/").to_owned();
        for known in [tag.clone(), strong, format!("\"other\", {tag}"), "*".to_owned()] {
            for method in [Method::GET, Method::HEAD] {
                let answer = send(&client, method, &path, &[("if-none-match", &known)]).await;
                assert_eq!((answer.status().as_u16(), header(&answer, "etag")), (304, &*tag), "{path}");
                assert!(header(&answer, "x-service-request-id").starts_with("req_"));
                assert!(answer.headers().contains_key("x-ratelimit-remaining"));
                // The headers that a cache needs, as with 200.
                for name in ["cache-control", "vary"] {
                    assert_eq!(header(&answer, name), first.header(name), "{path}");
                }
                assert!(!answer.headers().contains_key("content-type"), "{path}");
                assert!(answer.bytes().await.unwrap().is_empty());
            }
        }
        let other = send(&client, Method::GET, &path, &[("if-none-match", "\"other\"")]).await;
        assert_eq!((other.status().as_u16(), header(&other, "etag")), (200, &*tag));
        assert_eq!(other.text().await.unwrap(), first.text);
        // A caller without access gets no 304 either.
        let stranger = send(&client.with_key(None), Method::GET, &path, &[("if-none-match", "*")]).await;
        assert_eq!(stranger.status().as_u16(), 401);
    }
}

async fn a_tag_follows_the_resource(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    let seen = thesis("tagged", &author("u-tag", "tagged"), &token("solana", "TagMint", "TAGGED"), "x", now_ms());
    let id = service.learn(&dataset, revision(1, Observed::Thesis(seen.clone()))).await;
    let paths = [format!("/v1/theses/{id}"), "/v1/tokens/TagMint".to_owned(), "/v1/profiles/u-tag".to_owned()];
    let tags = async || {
        let mut tags = Vec::new();
        for path in &paths {
            tags.push(client.get(path).await.header("etag").to_owned());
        }
        tags
    };
    let changed = async |observed: Observed, expected: [bool; 3]| {
        let before = tags().await;
        assert_eq!(before, tags().await);
        service.learn(&dataset, revision(now_ms(), observed)).await;
        let after = tags().await;
        for ((path, expected), (before, after)) in paths.iter().zip(expected).zip(before.iter().zip(&after)) {
            assert_eq!(before != after, expected, "{path}");
            let known = send(&client, Method::GET, path, &[("if-none-match", before)]).await;
            assert_eq!(known.status().as_u16(), if expected { 200 } else { 304 });
        }
    };
    changed(engagement("tagged", 1, 1), [true, false, false]).await;
    changed(Observed::Profile(author("u-tag", "renamed")), [true, false, true]).await;
    changed(Observed::Token(token("solana", "TagMint", "ANEW")), [true, true, false]).await;
    let another = thesis("another", &author("u-tag", "renamed"), &token("solana", "TagMint", "ANEW"), "x", now_ms());
    changed(Observed::Thesis(another), [false, true, false]).await;
}

async fn only_single_resources_have_tags(service: &Service) {
    let client = service.test_client().await;
    for path in
        ["/v1/theses", "/v1/events", "/v1/tokens/RUN/activity", "/v1/tokens/RUN/thesis-velocity", "/v1/me/usage"]
    {
        let answer = send(&client, Method::GET, path, &[("if-none-match", "*")]).await;
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        assert!(!answer.headers().contains_key("etag"), "{path}");
    }
    let missing = send(&client, Method::GET, "/v1/profiles/nobody", &[("if-none-match", "*")]).await;
    assert!(missing.status().as_u16() == 404 && !missing.headers().contains_key("etag"));
}

async fn the_description_is_sent_once(service: &Service) {
    // The document names the edge that serves it.
    let client = service.anonymous().moved_to(&service.edges[0]);
    let path = "/v1/openapi.json";
    let plain = client.get(path).await;
    for asked in ["gzip", "zstd", ""] {
        let first = send(&client, Method::GET, path, &[("accept-encoding", asked)]).await;
        let encoding = first.headers().get("content-encoding").map_or("", |name| name.to_str().unwrap());
        assert_eq!((first.status().as_u16(), encoding, header(&first, "etag")), (200, asked, plain.header("etag")));
        let tag = header(&first, "etag").to_owned();
        assert!(tag.starts_with("W/\"") && header(&first, "vary") == "Accept-Encoding");
        let known = send(&client, Method::GET, path, &[("accept-encoding", asked), ("if-none-match", &tag)]).await;
        assert_eq!((known.status().as_u16(), header(&known, "etag")), (304, &*tag));
        assert!(known.bytes().await.unwrap().is_empty());
    }
}

async fn head_answers_as_get_without_the_body(service: &Service) {
    let client = service.test_client().await;
    for edge in &service.edges {
        client.moved_to(edge).search("/v1/search?q=run").await.ok(200);
    }
    // The description names the edge that serves it.
    let client = client.moved_to(&service.edges[0]);
    let mut paths = resources(&client).await;
    let webhook = paths[paths.len() - 1].clone();
    paths.push(format!("{webhook}/deliveries"));
    paths.push(format!("{webhook}/insight"));
    let others = [
        "/v1",
        "/v1/openapi.json",
        "/v1/asyncapi.json",
        "/v1/me/usage",
        "/v1/theses?limit=2",
        "/v1/tokens/RUN/activity",
        "/v1/tokens/RUN/thesis-velocity",
        "/v1/search?q=run",
        // Those derived from the theses may still come.
        "/v1/events?limit=2&types=thesis.created",
        "/v1/webhooks",
        "/v1/alerts",
        "/v1/alerts/al_unknown",
        "/v1/profiles/sbx_runner/wallets",
        "/v1/theses/th_unknown/receipt",
        "/v1/archive",
        "/v1/archive/2020-01-01/theses.parquet",
        "/v1/archive/2020-01-01/theses/receipt",
        "/v1/status",
        "/v1/log/keys",
        "/v1/log/sandbox/checkpoint",
        "/v1/log/sandbox/tile/0/000.p/1",
    ];
    paths.extend(others.map(str::to_owned));
    // Each path that answers GET is in `paths`, except the two of streams.
    let document = client.get("/v1/openapi.json").await.ok(200);
    let described = document["paths"].as_object().unwrap().values().filter(|item| item.get("get").is_some()).count();
    assert_eq!(paths.len(), described - 2);
    paths.extend(["/v1/theses?limit=0", "/v1/theses/th_unknown", "/v1/nothing"].map(str::to_owned));
    for path in paths {
        let got = send(&client, Method::GET, &path, &[]).await;
        let head = send(&client, Method::HEAD, &path, &[]).await;
        assert_eq!(head.status(), got.status(), "{path}");
        // A checkpoint may be signed between the two.
        let tag = if path.ends_with("/checkpoint") { "cache-control" } else { "etag" };
        // The status counts these requests.
        let length = if path == "/v1/status" { "content-type" } else { "content-length" };
        let fixed = |response: &Response| {
            let names = ["content-type", length, tag, "x-ratelimit-limit", "vary"];
            names.map(|name| response.headers().get(name).cloned())
        };
        // All request ids have the same length.
        assert_eq!(fixed(&head), fixed(&got), "{path}");
        assert!(header(&head, "x-service-request-id").starts_with("req_"));
        assert!(head.bytes().await.unwrap().is_empty() && !got.bytes().await.unwrap().is_empty());
    }
    for stream in ["/v1/events/stream", "/v1/stream"] {
        let head = send(&client, Method::HEAD, stream, &[]).await;
        assert_eq!(head.status().as_u16(), 200);
        assert!(head.bytes().await.unwrap().is_empty());
    }
    let usage = client.get("/v1/me/usage").await.ok(200);
    assert_eq!(usage["streams"]["open"], 0, "they take no place");
}

async fn long_answers_are_compressed_as_asked(service: &Service) {
    let client = service.test_client().await;
    let path = "/v1/theses?limit=100&token=RUN";
    let plain = client.get(path).await;
    assert!(!plain.headers.contains_key("content-encoding"));
    for (asked, encoding) in [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0.1, gzip", "gzip"),
        ("zstd;q=0, gzip;q=0.5", "gzip"),
        ("*, zstd;q=0", "gzip"),
    ] {
        let answer = send(&client, Method::GET, path, &[("accept-encoding", asked)]).await;
        assert_eq!(header(&answer, "content-encoding"), encoding, "{asked}");
        assert!(header(&answer, "vary").to_ascii_lowercase().contains("accept-encoding"));
        assert_eq!(header(&answer, "content-type"), "application/json");
        let length: usize = header(&answer, "content-length").parse().unwrap();
        let packed = answer.bytes().await.unwrap();
        assert!(packed.len() == length && length < plain.text.len() / 2, "{length} of {}", plain.text.len());
        let text = match encoding {
            "gzip" => {
                let mut text = String::new();
                GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
                text
            }
            _ => String::from_utf8(zstd::decode_all(&*packed).unwrap()).unwrap(),
        };
        assert_eq!(text, plain.text);
    }
    for asked in ["", "identity", "br", "gzip;q=0", "gzip;q=0, zstd;q=0.0", "*;q=0", "gzip;q=0.1, identity"] {
        let answer = send(&client, Method::GET, path, &[("accept-encoding", asked)]).await;
        assert!(!answer.headers().contains_key("content-encoding"), "{asked}");
        assert_eq!(answer.text().await.unwrap(), plain.text);
    }
    // Events leave one by one, as they are.
    let stream = send(&client, Method::GET, "/v1/events/stream", &[("accept-encoding", "gzip, zstd")]).await;
    assert!(!stream.headers().contains_key("content-encoding"));
}

async fn pages_of_any_origin_may_call(service: &Service) {
    let client = service.test_client().await;
    let origin = ("origin", "https://page.example");
    for (path, method, allowed) in [
        ("/v1/theses", "GET", vec!["GET", "HEAD"]),
        ("/v1/webhooks", "POST", vec!["GET", "HEAD", "POST"]),
        ("/v1/alerts", "POST", vec!["GET", "HEAD", "POST"]),
        ("/v1/alerts/al_1", "PATCH", vec!["DELETE", "GET", "HEAD", "PATCH"]),
        ("/v1/webhooks/wh_1", "PATCH", vec!["DELETE", "GET", "HEAD", "PATCH"]),
        ("/v1/verify/thesis", "POST", vec!["POST"]),
        ("/v1/events/stream", "GET", vec!["GET"]),
        ("/v1", "GET", vec!["GET", "HEAD"]),
    ] {
        // A preflight has no key.
        let asked = [
            origin,
            ("access-control-request-method", method),
            ("access-control-request-headers", "authorization,content-type,idempotency-key"),
        ];
        let answer = send(&client.with_key(None), Method::OPTIONS, path, &asked).await;
        assert_eq!(answer.status().as_u16(), 204, "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), "*");
        let listed = |name: &str| -> Vec<String> {
            header(&answer, name).split(',').map(|item| item.trim().to_ascii_lowercase()).collect()
        };
        let methods = listed("access-control-allow-methods");
        assert!(allowed.iter().all(|method| methods.contains(&method.to_ascii_lowercase())), "{path}: {methods:?}");
        let names = listed("access-control-allow-headers");
        for name in ["authorization", "content-type", "idempotency-key", "if-none-match", "last-event-id"] {
            assert!(names.contains(&name.to_owned()), "{names:?}");
        }
        assert!(header(&answer, "access-control-max-age").parse::<u32>().unwrap() > 0);
        assert!(header(&answer, "x-service-request-id").starts_with("req_"));
        assert!(!answer.headers().contains_key("access-control-allow-credentials"));
        assert!(answer.bytes().await.unwrap().is_empty());
    }
    // Answers may be read, failures too.
    for (client, path, status) in [
        (&client, "/v1/theses?limit=1", 200),
        (&client, "/v1/theses?limit=0", 422),
        (&client, "/v1/nothing", 404),
        (&client, "/v1/events/stream", 200),
        (&client.with_key(None), "/v1/me", 401),
    ] {
        let answer = send(client, Method::GET, path, &[origin]).await;
        assert_eq!((answer.status().as_u16(), header(&answer, "access-control-allow-origin")), (status, "*"), "{path}");
        let exposed = header(&answer, "access-control-expose-headers").to_ascii_lowercase();
        for name in ["x-service-request-id", "x-ratelimit-remaining", "retry-after", "etag"] {
            assert!(exposed.contains(name), "{exposed}");
        }
    }
    let unknown = send(&client, Method::OPTIONS, "/v1/nothing", &[origin]).await;
    assert_eq!(unknown.status().as_u16(), 404);
    let elsewhere = send(&client, Method::GET, "/elsewhere", &[origin]).await;
    assert!(!elsewhere.headers().contains_key("access-control-allow-origin"));
}

async fn semantic_search_is_off(service: &Service) {
    let project = service.project().await;
    let path = "/v1/search/semantic";
    let narrow = project.key(Environment::Test, &["theses:read"]).await.client;
    for client in [project.test().await, project.live().await, narrow] {
        for body in [json!({"query": "moon"}), json!({}), json!({"query": 7, "limit": 900, "x": 1}), Value::Null] {
            client.post(path, &body).await.error(404, "FEATURE_DISABLED");
        }
        let broken = client.request(Method::POST, path).header("content-type", "application/json").body("{");
        client.send(broken).await.error(404, "FEATURE_DISABLED");
        let large = client.request(Method::POST, path).body("x".repeat(70_000));
        client.send(large).await.error(404, "FEATURE_DISABLED");
        client.send(client.request(Method::POST, path)).await.error(404, "FEATURE_DISABLED");
    }
    service.anonymous().post(path, &json!({"query": "moon"})).await.error(401, "MISSING_API_KEY");
}

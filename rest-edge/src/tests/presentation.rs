//! The presentation of responses: tags, `HEAD`, compression, and CORS headers.

use std::{io::Read as _, sync::Arc};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use thesis_proto::v1;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeCore, ask, edge, reply, simply};
use crate::{
    edge::Edge,
    route::{Route, SuccessResponse},
    v1::routes,
};

type Whole = (StatusCode, HeaderMap, Bytes);

/// Sends a request with headers.
async fn send(core: &Arc<FakeCore>, method: &str, target: &str, headers: &[(&str, &str)]) -> Whole {
    send_at(&edge(core, CancellationToken::new()), method, target, headers).await
}

/// Sends a request to an edge that serves many, and leaves out the request id, which always differs.
async fn send_again(edge: &Edge, method: &str, target: &str, headers: &[(&str, &str)]) -> Whole {
    let (status, mut headers, body) = send_at(edge, method, target, headers).await;
    assert!(headers.remove("x-service-request-id").is_some());
    (status, headers, body)
}

async fn send_at(edge: &Edge, method: &str, target: &str, headers: &[(&str, &str)]) -> Whole {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response: Response<_> = edge.respond([192, 0, 2, 1].into(), request).await;
    let (head, body) = response.into_parts();
    (head.status, head.headers, body.collect().await.unwrap().to_bytes())
}

fn plain() -> Edge {
    edge(&FakeCore::plain(), CancellationToken::new())
}

fn target(route: &Route) -> String {
    let path = route.path.replace("{id}", "id_1").replace("{ref}", "ref_1").replace("{dataset}", "sandbox");
    let path = path.replace("{date}", "2026-01-31").replace("{file}", "theses.parquet");
    path.replace("{*tile}", "0/000")
}

fn is_get(route: &Route) -> bool {
    route.method == http::Method::GET && !matches!(route.answers, SuccessResponse::Events | SuccessResponse::Upgrade)
}

/// A core whose thesis has this many characters.
fn thesis(characters: usize) -> Arc<FakeCore> {
    FakeCore::new(move |_, _| {
        let thesis = v1::Thesis { text: "long text ".repeat(characters / 10), ..Default::default() };
        reply(v1::GetThesisResponse { thesis: Some(thesis) })
    })
}

#[tokio::test]
async fn single_resources_have_a_tag_and_are_left_out_when_known() {
    let tagged: Vec<_> = routes().into_iter().filter(|route| route.tagged).collect();
    let paths: Vec<_> = tagged.iter().map(|route| route.path).collect();
    let expected = [
        "/v1/openapi.json",
        "/v1/asyncapi.json",
        "/v1/me",
        "/v1/profiles",
        "/v1/profiles/{ref}",
        "/v1/theses/{id}",
        "/v1/log/{dataset}/checkpoint",
        "/v1/log/{dataset}/tile/{*tile}",
        "/v1/tokens/{ref}",
        "/v1/events/{id}",
        "/v1/webhooks/{id}",
        "/v1/alerts/{id}",
    ];
    assert_eq!(paths, expected);
    let edge = plain();
    for route in &tagged {
        let (status, mut first, body) = send_again(&edge, "GET", &target(route), &[]).await;
        assert!(status == 200 && !body.is_empty(), "{}", route.path);
        let tag = first["etag"].to_str().unwrap().to_owned();
        assert!(tag.starts_with("W/\"") && tag.len() == 36, "{tag}");
        let list = format!("\"other\" , {}, W/\"x\"", tag.trim_start_matches("W/"));
        first.remove("content-type");
        first.remove("content-length");
        for known in [tag.as_str(), list.as_str(), "*"] {
            for method in ["GET", "HEAD"] {
                let (status, headers, body) =
                    send_again(&edge, method, &target(route), &[("if-none-match", known)]).await;
                assert_eq!((status.as_u16(), body.len()), (304, 0), "{} {known}", route.path);
                assert_eq!(headers, first);
            }
        }
        for other in ["W/\"0\"", "", &tag[..20], tag.trim_start_matches("W/").trim_matches('"')] {
            let (status, ..) = send_again(&edge, "GET", &target(route), &[("if-none-match", other)]).await;
            assert_eq!(status, 200, "{other}");
        }
    }
}

#[tokio::test]
async fn the_description_is_built_once_in_every_encoding() {
    let edge = plain();
    let path = "/v1/openapi.json";
    let (_, bare_headers, bare) = send_at(&edge, "GET", path, &[]).await;
    for (accepted, encoding) in [("gzip", "gzip"), ("zstd, gzip", "zstd")] {
        let accept = ("accept-encoding", accepted);
        let (_, headers, first) = send_at(&edge, "GET", path, &[accept]).await;
        assert_eq!(
            (&headers["content-encoding"], &headers["etag"]),
            (&encoding.parse().unwrap(), &bare_headers["etag"])
        );
        assert_eq!(
            (&headers["vary"], &headers["cache-control"]),
            (&bare_headers["vary"], &bare_headers["cache-control"])
        );
        let mut text = Vec::new();
        match encoding {
            "gzip" => drop(GzDecoder::new(&first[..]).read_to_end(&mut text).unwrap()),
            _ => text = zstd::decode_all(&first[..]).unwrap(),
        }
        assert_eq!(text, bare);
        // Both responses share the same bytes in memory.
        let (_, _, again) = send_at(&edge, "GET", path, &[accept]).await;
        assert_eq!((first.as_ptr(), first.len()), (again.as_ptr(), again.len()));
        let (status, headers, body) =
            send_at(&edge, "GET", path, &[accept, ("if-none-match", headers["etag"].to_str().unwrap())]).await;
        assert_eq!((status.as_u16(), body.len()), (304, 0));
        assert!(!headers.contains_key("content-encoding"));
    }
}

#[tokio::test]
async fn a_tag_follows_the_resource_and_nothing_else() {
    let tag = async |core, encoding| {
        let (_, headers, _) = send(&core, "GET", "/v1/theses/a", &[("accept-encoding", encoding)]).await;
        headers["etag"].clone()
    };
    assert_eq!(tag(thesis(2000), "gzip").await, tag(thesis(2000), "").await);
    assert_ne!(tag(thesis(2000), "").await, tag(thesis(2010), "").await);
}

#[tokio::test]
async fn what_is_no_single_resource_or_failed_has_no_tag() {
    for target in ["/v1/theses", "/v1/events", "/v1/tokens/a/activity", "/v1/me/usage", "/v1/theses/%zz", "/v1/x"] {
        let (status, headers, _) = send(&FakeCore::plain(), "GET", target, &[("if-none-match", "*")]).await;
        assert!(status != 304 && !headers.contains_key("etag"), "{target}");
    }
}

#[tokio::test]
async fn head_answers_as_get_does_without_the_body() {
    let edge = plain();
    for route in routes().iter().filter(|route| is_get(route)) {
        for encoding in ["", "gzip"] {
            let headers = [("accept-encoding", encoding)];
            let (status, expected, body) = send_again(&edge, "GET", &target(route), &headers).await;
            assert_eq!(expected["content-length"], body.len().to_string());
            let head = send_again(&edge, "HEAD", &target(route), &headers).await;
            assert_eq!(head, (status, expected, Bytes::new()), "{}", route.path);
        }
    }
    let (status, headers, body) = send(&FakeCore::plain(), "HEAD", "/v1/theses?limit=x", &[]).await;
    assert_eq!((status.as_u16(), body.len()), (422, 0));
    assert_ne!(headers["content-length"], "0");
}

#[tokio::test]
async fn what_has_no_get_has_no_head() {
    for (target, allow) in [("/v1/verify/thesis", "POST, OPTIONS"), ("/v1/me", "GET, HEAD, OPTIONS")] {
        let method = if target == "/v1/me" { "POST" } else { "HEAD" };
        let (status, headers, _) = simply(&FakeCore::plain(), method, target).await;
        assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (405, allow));
    }
}

#[tokio::test]
async fn large_bodies_are_compressed_as_requested() {
    let core = thesis(2000);
    let (_, bare_headers, bare) = send(&core, "GET", "/v1/theses/a", &[]).await;
    assert!(!bare_headers.contains_key("content-encoding"));
    assert_eq!(bare_headers["vary"], "Accept-Encoding");
    for (accepted, given) in [("gzip", "gzip"), ("zstd", "zstd"), ("gzip, deflate, br, zstd", "zstd")] {
        let (status, headers, body) = send(&core, "GET", "/v1/theses/a", &[("accept-encoding", accepted)]).await;
        assert_eq!((status.as_u16(), headers["content-encoding"].to_str().unwrap()), (200, given));
        assert_eq!(
            (&headers["vary"], &headers["content-type"]),
            (&bare_headers["vary"], &bare_headers["content-type"])
        );
        assert!(body.len() < bare.len() / 4 && headers["content-length"] == body.len().to_string());
        let mut text = Vec::new();
        match given {
            "gzip" => drop(GzDecoder::new(&body[..]).read_to_end(&mut text).unwrap()),
            _ => text = zstd::decode_all(&body[..]).unwrap(),
        }
        assert_eq!(text, bare);
    }
    let (_, headers, small) = send(&thesis(100), "GET", "/v1/theses/a", &[("accept-encoding", "gzip")]).await;
    assert!(!headers.contains_key("content-encoding") && small.starts_with(b"{"));
}

#[tokio::test]
async fn large_failures_are_compressed_too() {
    let core = FakeCore::new(|_, _| {
        let error = thesis_proto::error::ApiError::new(thesis_proto::error::ErrorCode::AmbiguousToken, "many");
        Err(error.with_details(json!({"candidates": vec!["same"; 900]})).to_status("req_core"))
    });
    let (status, headers, body) = send(&core, "GET", "/v1/tokens/$RUN", &[("accept-encoding", "zstd")]).await;
    assert_eq!((status.as_u16(), headers["content-encoding"].to_str().unwrap()), (409, "zstd"));
    let envelope: Value = serde_json::from_slice(&zstd::decode_all(&body[..]).unwrap()).unwrap();
    assert_eq!(envelope["error"]["request_id"], headers["x-service-request-id"].to_str().unwrap());
}

#[tokio::test]
async fn pages_of_any_origin_may_ask_first_and_read_every_answer() {
    let core = FakeCore::plain();
    let edge = edge(&core, CancellationToken::new());
    for route in routes() {
        let headers = [("origin", "https://page.test"), ("access-control-request-method", route.method.as_str())];
        let (status, headers, body) = send_again(&edge, "OPTIONS", &target(&route), &headers).await;
        assert_eq!((status.as_u16(), body.len()), (204, 0), "{}", route.path);
        let text = |name: &str| headers[name].to_str().unwrap();
        assert_eq!(text("access-control-allow-origin"), "*");
        assert!(text("access-control-allow-methods").split(", ").any(|method| method == route.method.as_str()));
        assert!(text("access-control-allow-headers").contains("Authorization"));
        assert_eq!(text("access-control-max-age"), "86400");
        assert!(!headers.contains_key("access-control-allow-credentials"));
        assert!(core.seen.lock().is_empty(), "{}", route.path);
    }
    for target in ["/v1", "/v1/me", "/v1/events/stream", "/v1/nowhere", "/v1/me?key=1", "/v1/theses?limit=x"] {
        let (_, headers, _) = simply(&FakeCore::plain(), "GET", target).await;
        assert_eq!(headers["access-control-allow-origin"], "*", "{target}");
        let exposed = headers["access-control-expose-headers"].to_str().unwrap();
        for name in ["X-Service-Request-Id", "X-RateLimit-Remaining", "Retry-After"] {
            assert!(exposed.contains(name), "{name}");
        }
    }
    let (status, headers, _) = simply(&FakeCore::plain(), "OPTIONS", "/v1/nowhere").await;
    assert_eq!((status.as_u16(), &headers["access-control-allow-origin"]), (404, &"*".parse().unwrap()));
    let (status, headers, _) = simply(&FakeCore::plain(), "OPTIONS", "/nowhere").await;
    assert!(status == 404 && !headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn no_answer_is_kept_unless_it_says_how_and_none_is_sniffed() {
    for (method, target, kept) in [
        ("GET", "/v1", "no-store"),
        ("GET", "/v1/theses", "no-store"),
        ("GET", "/v1/theses/th_1", "private, no-cache"),
        ("GET", "/v1/openapi.json", "public, no-cache"),
        ("GET", "/v1/log/sandbox/checkpoint", "public, no-cache"),
        ("GET", "/v1/log/sandbox/tile/0/000", "public, max-age=31536000, immutable"),
        ("GET", "/v1/log/sandbox/tile/%zz", "no-store"),
        ("GET", "/v1/log/keys", "no-store"),
        ("GET", "/v1/status", "public, max-age=1"),
        ("GET", "/v1/status?key=1", "no-store"),
        ("GET", "/v1/nowhere", "no-store"),
        ("GET", "/v1/me?key=1", "no-store"),
        ("GET", "/v1/theses?limit=x", "no-store"),
        ("PUT", "/v1/me", "no-store"),
        ("OPTIONS", "/v1/me", "no-store"),
    ] {
        let (_, headers, _) = send_again(&plain(), method, target, &[]).await;
        assert_eq!(headers["cache-control"], kept, "{method} {target}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{method} {target}");
    }
}

#[tokio::test]
async fn references_reach_core_decoded() {
    use prost::Message as _;
    for (path, reference) in [
        ("$RUN", "$RUN"),
        ("%24RUN", "$RUN"),
        ("sandbox:0xAB", "sandbox:0xAB"),
        ("sandbox%3a0xAB", "sandbox:0xAB"),
        ("a%2Fb+c", "a/b+c"),
        ("%F0%9F%9A%80", "🚀"),
    ] {
        for end in ["", "/activity?recent=7", "/thesis-velocity"] {
            let core = FakeCore::plain();
            let (status, ..) = simply(&core, "GET", &format!("/v1/tokens/{path}{end}")).await;
            let message = core.seen.lock()[0].message.clone();
            // The three requests begin with the same fields.
            let request = v1::GetTokenActivityRequest::decode(message).unwrap();
            assert_eq!((status.as_u16(), request.r#ref.as_str()), (200, reference));
            assert_eq!(request.recent, end.contains("recent").then_some(7));
        }
    }
    for (target, expected) in [
        ("/v1/profiles/%40sbx_a", v1::GetProfileRequest { r#ref: Some("@sbx_a".to_owned()), ..Default::default() }),
        (
            "/v1/profiles?handle=@sbx_a",
            v1::GetProfileRequest { handle: Some("@sbx_a".to_owned()), ..Default::default() },
        ),
        ("/v1/profiles", v1::GetProfileRequest::default()),
    ] {
        let core = FakeCore::plain();
        simply(&core, "GET", target).await;
        assert_eq!(v1::GetProfileRequest::decode(core.seen.lock()[0].message.clone()).unwrap(), expected);
    }
}

#[tokio::test]
async fn verification_and_semantic_search_ignore_an_idempotency_key() {
    for target in ["/v1/verify/thesis", "/v1/search/semantic"] {
        let core = FakeCore::plain();
        for key in ["k", ""] {
            let request = Request::post(target).header("idempotency-key", key).body("").unwrap();
            assert_eq!(ask(&core, request).await.0, StatusCode::OK, "{target}");
        }
        assert!(core.seen.lock().iter().all(|seen| !seen.headers.contains_key("idempotency-key")));
    }
}

#[tokio::test]
async fn public_pages_are_guarded_and_cached() {
    let core = FakeCore::plain();
    for path in ["/design", "/verify"] {
        let (status, headers, body) = send(&core, "GET", path, &[]).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && policy.ends_with("; frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(body.starts_with(b"<!doctype html>"), "{path}");
        let (status, _, body) = send(&core, "GET", path, &[("if-none-match", headers["etag"].to_str().unwrap())]).await;
        assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
        let (status, headers, _) = send(&core, "POST", path, &[]).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(headers["allow"], "GET, HEAD");
    }
}

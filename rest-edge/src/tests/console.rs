//! The entrance of the console: the guard of forms, the headers of every response, and redirects.

mod cookies;
mod device;
mod refused;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use rest_edge_console::{assets, loggable_path};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    time::from_millis,
    v1,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    EdgeConfig,
    edge::Edge,
    tests::fake::{FakeCore, Reply, reply, sources},
};

const SESSION: &str = "ses_usr_1_0123456789";
const DEVICE: &str = "dev_0123456789";

/// A core with one user. Every password but `wrong` is right.
fn core() -> Arc<FakeCore> {
    FakeCore::new(answer)
}

fn answer(operation: &str, message: &Bytes) -> Reply {
    let email_confirmed_at = Some(from_millis(0));
    let user =
        v1::User { id: "usr_1".into(), email: "ada@example.com".into(), email_confirmed_at, ..Default::default() };
    match operation {
        "AccountService/SignIn" if message.windows(5).any(|part| part == b"wrong") => {
            Err(ApiError::new(ErrorCode::SignInFailed, "e-mail or password is wrong").to_status("req_core"))
        }
        "AccountService/SignIn" => {
            let (token, device) = (SESSION.into(), DEVICE.into());
            let session = v1::NewSession { token, device, user: Some(user), ..Default::default() };
            reply(v1::SignInResponse { session: Some(session), challenge: String::new() })
        }
        "AccountService/GetAccount" => reply(v1::GetAccountResponse { user: Some(user), ..Default::default() }),
        "AccountService/GetLink" => {
            Err(ApiError::new(ErrorCode::LinkNotFound, "this link was used, or is too old").to_status("req_core"))
        }
        _ => reply(()),
    }
}

fn edge(core: &Arc<FakeCore>, public_url: &str) -> Edge {
    let (clock, ids) = sources();
    Edge::new(core.services(), EdgeConfig::new(public_url), clock, ids, CancellationToken::new())
}

async fn ask(edge: &Edge, request: Request<String>) -> (StatusCode, HeaderMap, String) {
    let response = edge.respond([192, 0, 2, 1].into(), request.map(Full::from)).await;
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(edge: &Edge, target: &str, cookie: &str) -> (StatusCode, HeaderMap, String) {
    ask(edge, Request::get(target).header("cookie", cookie).body(String::new()).unwrap()).await
}

fn post(target: &str, cookie: &str, body: &str) -> Request<String> {
    Request::post(target)
        .header("host", "edge.test")
        .header("cookie", cookie)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.to_owned())
        .unwrap()
}

/// The hidden token of a page's forms.
fn csrf(page: &str) -> &str {
    page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap()
}

/// A visitor's cookie and the token of their forms.
async fn visitor(edge: &Edge) -> (String, String) {
    let (_, headers, page) = get(edge, "/console/sign-in", "").await;
    let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    (cookie, csrf(&page).to_owned())
}

fn calls(core: &FakeCore, operation: &str) -> usize {
    core.seen.lock().iter().filter(|seen| seen.operation == operation).count()
}

#[tokio::test]
async fn a_form_needs_the_token_of_its_browser() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (cookie, token) = visitor(&edge).await;
    let (_, of_another) = visitor(&edge).await;
    assert_ne!(token, of_another);
    let fields = "email=ada%40example.com&password=right";
    let forged = [
        fields.to_owned(),
        format!("{fields}&csrf="),
        format!("{fields}&csrf=zz"),
        format!("{fields}&csrf={of_another}"),
        format!("{fields}&csrf={}", &token[..32]),
    ];
    for body in forged {
        let (status, _, page) = ask(&edge, post("/console/sign-in", &cookie, &body)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
        assert!(page.contains("out of date"), "{page}");
    }
    // The token is wrong for visitors without the cookie, and for a session.
    for cookie in ["", "session=ses_usr_2_x"] {
        let body = format!("{fields}&csrf={token}");
        assert_eq!(ask(&edge, post("/console/sign-in", cookie, &body)).await.0, StatusCode::FORBIDDEN);
    }
    assert_eq!(calls(&core, "AccountService/SignIn"), 0);
    let (status, headers, _) = ask(&edge, post("/console/sign-in", &cookie, &format!("{fields}&csrf={token}"))).await;
    assert_eq!((status, &headers["location"]), (StatusCode::SEE_OTHER, &"/console".parse().unwrap()));
    assert_eq!(calls(&core, "AccountService/SignIn"), 1);
}

#[tokio::test]
async fn a_form_of_another_site_is_refused() {
    let core = core();
    let edge = edge(&core, "https://data.example");
    let (cookie, token) = visitor(&edge).await;
    let body = format!("email=a&password=right&csrf={token}");
    let status = async |origin: &str| {
        let mut request = post("/console/sign-in", &cookie, &body);
        request.headers_mut().insert("origin", origin.parse().unwrap());
        ask(&edge, request).await.0
    };
    for origin in [
        "https://evil.test",
        "null",
        "https://data.example.evil.test",
        "http://data.example",
        "http://edge.test",
        "edge.test",
    ] {
        assert_eq!(status(origin).await, StatusCode::FORBIDDEN, "{origin}");
    }
    assert_eq!(calls(&core, "AccountService/SignIn"), 0);
    for origin in ["https://data.example", "https://EDGE.test"] {
        assert_eq!(status(origin).await, StatusCode::SEE_OTHER, "{origin}");
    }
}

#[tokio::test]
async fn an_unreadable_form_is_reported() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (cookie, token) = visitor(&edge).await;
    let (status, headers, _) = ask(&edge, post("/console/sign-in", &cookie, &format!("csrf={token}"))).await;
    assert_eq!((status, &headers["location"]), (StatusCode::SEE_OTHER, &"/console/sign-in".parse().unwrap()));
    let refused = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let (status, _, page) = get(&edge, "/console/sign-in", &format!("{cookie}; {refused}")).await;
    assert!(status == StatusCode::UNPROCESSABLE_ENTITY && page.contains("could not be read"), "{status} {page}");
    let large = format!("csrf={token}&email={}", "a".repeat(64 * 1024));
    let (status, _, page) = ask(&edge, post("/console/sign-in", &cookie, &large)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(page.contains("<h1>"), "{page}");
}

#[tokio::test]
async fn who_is_not_signed_in_is_led_to_it_and_back() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (status, headers, _) = get(&edge, "/console/account?done=a", "").await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    assert_eq!(headers["location"], "/console/sign-in?next=%2Fconsole%2Faccount%3Fdone%3Da");
    let (cookie, token) = visitor(&edge).await;
    let (status, headers, _) = ask(&edge, post("/console/account", &cookie, &format!("csrf={token}"))).await;
    assert_eq!((status, &headers["location"]), (StatusCode::SEE_OTHER, &"/console/sign-in".parse().unwrap()));
    assert!(core.seen.lock().is_empty());

    let (_, _, page) = get(&edge, "/console/sign-in?next=%2Fconsole%2Faccount", &cookie).await;
    assert!(page.contains("name=\"next\" value=\"/console/account\""), "{page}");
    for (next, expected) in [
        ("%2Fconsole%2Faccount", "/console/account"),
        ("https%3A%2F%2Fevil.test", "/console"),
        ("%2F%2Fevil.test", "/console"),
        ("%2Fconsole%2F%2Fevil.test", "/console"),
    ] {
        let body = format!("email=a&password=right&csrf={token}&next={next}");
        let (_, headers, _) = ask(&edge, post("/console/sign-in", &cookie, &body)).await;
        assert_eq!(headers["location"], expected, "{next}");
    }
}

#[tokio::test]
async fn a_slash_more_leads_to_the_address_without_it() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    for (target, expected) in [
        ("/console/", "/console"),
        ("/console//", "/console"),
        ("/console/account/?done=a", "/console/account?done=a"),
        ("/console//evil.test/", "/console//evil.test"),
        ("/console/nowhere/", "/console/nowhere"),
    ] {
        let (status, headers, _) = get(&edge, target, "").await;
        assert_eq!((status, &headers["location"]), (StatusCode::PERMANENT_REDIRECT, &expected.parse().unwrap()));
    }
    assert!(core.seen.lock().is_empty());
}

#[tokio::test]
async fn a_session_that_ended_leads_to_sign_in() {
    let core =
        FakeCore::new(|_, _| Err(ApiError::new(ErrorCode::SignInRequired, "sign in to go on").to_status("req_core")));
    let edge = edge(&core, "http://edge.test");
    let (status, headers, _) = get(&edge, "/console/account", &format!("session={SESSION}")).await;
    assert_eq!(
        (status, headers["location"].to_str().unwrap()),
        (StatusCode::SEE_OTHER, "/console/sign-in?next=%2Fconsole%2Faccount")
    );
}

#[tokio::test]
async fn every_answer_has_the_headers_of_safety() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let style = format!("{}/site.css", assets::folder());
    for (method, target, expected) in [
        ("GET", "/console", 303),
        ("GET", "/console/sign-in", 200),
        ("HEAD", "/console/sign-in", 200),
        ("GET", "/console/sign-in?next=%ff&next=a", 404),
        ("GET", "/console/nowhere", 404),
        ("GET", "/console/", 308),
        ("POST", "/console/", 404),
        ("DELETE", "/console/sign-in", 405),
        ("POST", "/console/sign-in", 403),
        ("GET", style.as_str(), 200),
        ("GET", "/console/assets/old/console.js", 200),
        ("GET", "/console/assets/old/other.js", 404),
    ] {
        let request = Request::builder().method(method).uri(target).header("origin", "http://edge.test");
        let (status, headers, _) = ask(&edge, request.body(String::new()).unwrap()).await;
        assert_eq!(status.as_u16(), expected, "{method} {target}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "same-origin");
        assert_eq!(headers["x-service-request-id"].len(), 28);
        assert!(!headers.contains_key("access-control-allow-origin"));
        let cache = match target {
            _ if target == style => "public, max-age=31536000, immutable",
            "/console/assets/old/console.js" => "no-cache",
            _ => "no-store",
        };
        assert_eq!(headers["cache-control"], cache, "{target}");
    }
}

#[tokio::test]
async fn a_failure_is_a_page_with_the_request_id() {
    let down = FakeCore::new(|_, _| Err(Status::unavailable("connection refused")));
    let broken = FakeCore::new(|operation, _| {
        assert!(!operation.starts_with("AccountService"), "a fault of the test's core");
        reply(())
    });
    let session = format!("session={SESSION}");
    for (core, target, expected) in [
        (&down, "/console/account", 503),
        (&broken, "/console/account", 500),
        (&core(), "/console/nowhere", 404),
        (&core(), "/console/links/inv_1.secret", 404),
    ] {
        let edge = edge(core, "http://edge.test");
        let (status, headers, page) = get(&edge, target, &session).await;
        assert_eq!(status.as_u16(), expected, "{target}");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        let id = headers["x-service-request-id"].to_str().unwrap();
        assert!(page.contains(&format!("<code>{id}</code>")), "{page}");
        assert_eq!(page.matches("<h1>").count(), 1);
        assert!(!page.contains("connection refused") && !page.contains("fault of the test"));
    }
}

#[tokio::test]
async fn what_was_typed_is_text_and_a_password_is_not_kept() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let (cookie, token) = visitor(&edge).await;
    let body = format!("email=%22%3E%3Cscript%3Ea&password=wrong-secret&csrf={token}");
    // The form redirects to its page, for which a cookie has it for one read, at this address and in this session.
    let (status, headers, _) = ask(&edge, post("/console/sign-in", &cookie, &body)).await;
    assert_eq!((status, headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, "/console/sign-in"));
    let refused = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let both = format!("{cookie}; {refused}");
    let (other, _) = visitor(&edge).await;
    let (forged, elsewhere) = (format!("{both}0"), format!("{other}; {refused}"));
    for (path, cookies) in
        [("/console/sign-up", &both), ("/console/sign-in", &forged), ("/console/sign-in", &elsewhere)]
    {
        let (status, _, page) = get(&edge, path, cookies).await;
        assert!(status == StatusCode::OK && !page.contains("password is wrong"), "{path} {cookies}");
    }
    let (status, headers, page) = get(&edge, "/console/sign-in", &both).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(headers["set-cookie"].to_str().unwrap().starts_with("refused=; "), "{headers:?}");
    assert!(page.contains("E-mail or password is wrong."), "{page}");
    assert!(!page.contains("<script>a") && page.contains("script&#62;a"), "{page}");
    assert!(!page.contains("wrong-secret"));
    assert_eq!(calls(&core, "AccountService/SignIn"), 1);
}

#[tokio::test]
async fn the_root_is_a_page_for_people_and_discovery_for_programs() {
    let core = core();
    let edge = edge(&core, "http://edge.test");
    let ask_for = async |method: &str, accept: &str| {
        let request = Request::builder().method(method).uri("/").header("accept", accept);
        ask(&edge, request.body(String::new()).unwrap()).await
    };
    let (status, headers, page) = ask_for("GET", "text/html,application/xhtml+xml,*/*;q=0.8").await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, "text/html; charset=utf-8"));
    assert!(page.contains("<h1") && page.contains("http://edge.test/v1/verify/thesis"), "{page}");
    assert_eq!(headers["vary"], "Accept, Accept-Encoding");
    for accept in ["*/*", "application/json", ""] {
        let (status, headers, body) = ask_for("GET", accept).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers["content-type"], "application/json");
        assert!(body.contains("/v1/openapi.json"), "{body}");
    }
    assert_eq!(ask_for("HEAD", "*/*").await.0, StatusCode::OK);
    assert_eq!(ask_for("POST", "text/html").await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn logs_do_not_show_the_secret_of_a_link() {
    assert_eq!(loggable_path("/console/links/inv_1.secret"), "/console/links/");
    assert_eq!(loggable_path("/console/account"), "/console/account");
}

#[tokio::test]
async fn strict_transport_security_is_sent_only_for_https_on_the_default_port() {
    for (public_url, is_sent) in [
        ("https://theses.example/", true),
        ("https://theses.example:443", true),
        ("https://theses.example:8443", false),
        ("http://theses.example", false),
    ] {
        let (_, headers, _) = get(&edge(&core(), public_url), "/console/sign-in", "").await;
        assert_eq!(headers.contains_key("strict-transport-security"), is_sent, "{public_url}");
    }
}

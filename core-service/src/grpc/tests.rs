//! Tests of calls that no operation answers.

mod entrance;
mod given_up;
mod new_names;
mod web;

use axum::{Router, body::Body, extract::Request, response::Response, routing::any};
use http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::tests::harness::{self, LogLines, ManualClock, SERVICE_TOKEN, TEST_KEY};

fn routes(core: &Arc<Core>) -> Routes {
    guarded(services(core), Guard::new(core, Exposure::All, Vec::new()))
}

async fn core() -> Arc<Core> {
    let clock = ManualClock::new();
    harness::core(harness::memory(&clock), &clock, 0).await
}

/// A message in its frame.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

fn request(path: &str, headers: &[(&str, &str)], message: &[u8]) -> Request {
    let mut request = Request::post(path).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    request.body(Body::from(framed(message))).unwrap()
}

/// Checks for a failure with everything that failures have, and gives its message.
fn assert_failure(headers: &HeaderMap, code: Code, reason: &str) -> String {
    let status = Status::from_header_map(headers).unwrap();
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("{status:?}"));
    assert_eq!((status.code(), info.reason.as_str(), info.domain.as_str()), (code, reason, "trade-thesis"));
    let id = &details.request_info().unwrap().request_id;
    assert!(id.starts_with("req_") && !status.message().is_empty(), "{status:?}");
    status.message().to_owned()
}

#[tokio::test]
async fn every_failure_has_details_before_the_gate_too() {
    let routes = routes(&core().await);
    let key = format!("Bearer {TEST_KEY}");
    let (key, credential) = (("authorization", key.as_str()), ("x-service-token", SERVICE_TOKEN));
    for (path, headers, message, code, reason) in [
        ("Nothing/Get", &[][..], &[][..], Code::Unimplemented, "METHOD_NOT_ALLOWED"),
        ("MetaService/Nothing", &[key], &[], Code::Unimplemented, "METHOD_NOT_ALLOWED"),
        ("ThesisService/GetThesis", &[], b"\x0a\x01\xff", Code::InvalidArgument, "INVALID_REQUEST"),
        ("ThesisService/GetThesis", &[("grpc-timeout", "soon")], &[], Code::InvalidArgument, "INVALID_REQUEST"),
        ("ThesisService/GetThesis", &[("grpc-timeout", "0n")], &[], Code::DeadlineExceeded, "SERVICE_UNAVAILABLE"),
        (
            "TestDataService/CreateTestThesis",
            &[key, ("idempotency-key", "é")],
            &[],
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
        (
            "TestDataService/CreateTestThesis",
            &[key, ("idempotency-key", "a"), ("idempotency-key", "b")],
            &[],
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
        ("AdminService/ListOrganizations", &[key], &[], Code::Unauthenticated, "MISSING_API_KEY"),
        ("GateService/Refuse", &[("x-service-token", "x")], &[], Code::Unauthenticated, "INVALID_API_KEY"),
        ("GateService/Refuse", &[credential], &[], Code::InvalidArgument, "INVALID_REQUEST"),
        ("AdminService/CreateKey", &[credential], &[], Code::InvalidArgument, "VALIDATION_FAILED"),
        // A report without an outcome.
        ("DeliveryService/Report", &[credential], b"\x0a\x00", Code::InvalidArgument, "INVALID_REQUEST"),
    ] {
        let answer = routes.clone().oneshot(request(&format!("/thesis.v1.{path}"), headers, message)).await.unwrap();
        assert_failure(answer.headers(), code, reason);
        let status = Status::from_header_map(answer.headers()).unwrap();
        let reported_id = status.get_error_details().request_info().unwrap().request_id.clone();
        assert_eq!(answer.headers()["x-service-request-id"], reported_id, "{path}");
        // A wrong service credential says nothing about the caller's key.
        let over_rest = ApiError::from_status(&status).code.as_str();
        let expected = if code == Code::Unauthenticated { "INTERNAL_ERROR" } else { reason };
        assert_eq!(over_rest, expected, "{path}");
    }
}

#[tokio::test]
async fn a_panic_is_one_failure_and_the_connection_lives_on() {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    let core = core().await;
    let router = Router::new().route("/panics", any(async || -> Response { panic!("a secret") }));
    let service = guarded(Routes::from(router), Guard::new(&core, Exposure::All, Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let limits = Limits {
        server: "tests",
        connections: 1,
        requests: 1,
        head: MAX_HEADERS,
        given_up: 1,
        untaken: MAX_UNTAKEN,
        lag: Duration::MAX,
        drain: Duration::ZERO,
    };
    let called = ServiceHandler { service, refusal: || Status::unavailable("").into_http(), calls: 1 };
    tokio::spawn(thesis_net::server::serve(listener, None, Arc::new(called), limits, CancellationToken::new()));
    for _ in 0..2 {
        let head = format!(
            "POST /panics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nx-service-token: {SERVICE_TOKEN}\r\n\
             x-service-request-id: req_named\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut text).await.unwrap() > 0);
        }
        let text = String::from_utf8(text).unwrap();
        let fields = text.lines().filter_map(|line| line.split_once(": "));
        let headers: HeaderMap =
            fields.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
        assert_failure(&headers, Code::Internal, "INTERNAL_ERROR");
        assert_eq!(headers["x-service-request-id"], "req_named");
        assert!(!text.contains("secret"));
    }
}

#[tokio::test]
async fn a_panic_is_logged_with_its_requests_id() {
    let core = core().await;
    let router = Router::new().route("/panics", any(async || -> Response { panic!("a secret") }));
    let routes = guarded(Routes::from(router), Guard::new(&core, Exposure::All, Vec::new()));
    let log = LogLines::at(tracing::Level::ERROR);
    let logging = log.listen();
    let named = [("x-service-token", SERVICE_TOKEN), ("x-service-request-id", "req_named")];
    routes.oneshot(request("/panics", &named, &[])).await.unwrap();
    drop(logging);
    let log = log.text();
    assert!(log.contains("req_named") && log.contains("a secret") && log.contains("/panics"), "{log}");
}

#[tokio::test]
async fn work_ends_at_the_clients_deadline() {
    let core = core().await;
    let given_up = CancellationToken::new();
    let guard = given_up.clone().drop_guard();
    let guard = Arc::new(parking_lot::Mutex::new(Some(guard)));
    let sleeps = async move || -> Response {
        let _dropped = guard.lock().take();
        std::future::pending().await
    };
    let routes = guarded(
        Routes::from(Router::new().route("/sleeps", any(sleeps))),
        Guard::new(&core, Exposure::All, Vec::new()),
    );
    let answer = routes.oneshot(request("/sleeps", &[("grpc-timeout", "1m")], &[])).await.unwrap();
    assert_failure(answer.headers(), Code::DeadlineExceeded, "SERVICE_UNAVAILABLE");
    assert!(given_up.is_cancelled());
}

#[tokio::test]
async fn a_trusted_proxys_word_tells_the_address() {
    use tonic::transport::server::TcpConnectInfo;
    let core = core().await;
    let tells = async |request: Request| {
        let address = request.extensions().get::<TcpConnectInfo>().unwrap().remote_addr.unwrap();
        address.ip().to_string()
    };
    let router = || Routes::from(Router::new().route("/address", any(tells)));
    let networks = |networks: &[&str]| networks.iter().map(|network| network.parse().unwrap()).collect();
    for (trusted, expected) in [(&["10.0.0.0/8"][..], "198.51.100.1"), (&["11.0.0.0/8"], "10.0.0.1"), (&[], "10.0.0.1")]
    {
        let mut request = request("/address", &[("x-forwarded-for", "1.1.1.1, 198.51.100.1")], &[]);
        let remote_addr = Some("10.0.0.1:7".parse().unwrap());
        request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
        let answer =
            guarded(router(), Guard::new(&core, Exposure::All, networks(trusted))).oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(Body::new(answer.into_body()), 100).await.unwrap();
        assert_eq!(body, expected);
    }
}

/// The files of the examples that name the paths which a balancer publishes.
const PUBLISHED: [&str; 2] =
    [include_str!("../../../deploy/haproxy.cfg"), include_str!("../../../deploy/kubernetes/ingress.yaml")];

#[tokio::test]
async fn a_public_listener_has_the_public_services_alone() {
    let core = core().await;
    let routes = guarded(public_services(&core), Guard::new(&core, Exposure::Public, Vec::new()));
    let (mut public, mut internal) = (0, 0);
    for (service, method) in descriptors::methods() {
        let path = format!("/{service}/{}", method.name());
        let answer = routes.clone().oneshot(request(&path, &[("x-service-token", SERVICE_TOKEN)], &[])).await.unwrap();
        let code = Status::from_header_map(answer.headers()).map(|status| status.code());
        let is_public = Exposure::Public.has(&service);
        assert_eq!(code != Some(Code::Unimplemented), is_public, "{path}");
        assert!(Exposure::Internal.has(&service) && Exposure::All.has(&service));
        for file in PUBLISHED {
            assert_eq!(file.contains(&format!("/{service}")), is_public, "{service}");
        }
        *(if is_public { &mut public } else { &mut internal }) += 1;
    }
    assert!(public > 10 && internal > 10, "{public} {internal}");
}

#[tokio::test]
async fn the_service_token_counts_for_nothing_at_a_public_listener() {
    let core = core().await;
    let named = [("x-service-token", SERVICE_TOKEN), ("x-service-request-id", "req_named")];
    for (exposure, is_believed) in [(Exposure::All, true), (Exposure::Internal, true), (Exposure::Public, false)] {
        let fails = async || -> Response { Status::unimplemented("").into_http() };
        let tells = async |request: Request| request.headers().contains_key("x-service-token").to_string();
        let router = Router::new().route("/fails", any(fails)).route("/tells", any(tells));
        let routes = guarded(Routes::from(router), Guard::new(&core, exposure, Vec::new()));
        let answer = routes.clone().oneshot(request("/fails", &named, &[])).await.unwrap();
        assert_eq!(answer.headers()["x-service-request-id"] == "req_named", is_believed, "{exposure:?}");
        let answer = routes.oneshot(request("/tells", &named, &[])).await.unwrap();
        let body = axum::body::to_bytes(Body::new(answer.into_body()), 100).await.unwrap();
        assert_eq!(body, is_believed.to_string(), "{exposure:?}");
    }
}

#[tokio::test]
async fn wrong_service_tokens_are_limited_by_address() {
    use tonic::transport::server::TcpConnectInfo;
    let core = core().await;
    let routes = routes(&core);
    let code = async |address: &str, token: &str| {
        let mut request = request("/thesis.v1.GateService/Refuse", &[("x-service-token", token)], &[]);
        let remote_addr = Some(format!("{address}:7").parse().unwrap());
        request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
        let answer = routes.clone().oneshot(request).await.unwrap();
        let status = Status::from_header_map(answer.headers()).unwrap();
        (status.code(), status.get_error_details().retry_info().is_some())
    };
    for _ in 0..20 {
        assert_eq!(code("192.0.2.1", "guessed").await, (Code::Unauthenticated, false));
    }
    assert_eq!(code("192.0.2.1", "guessed").await, (Code::ResourceExhausted, true));
    // Another address is not limited, and the right token passes everywhere. The message is empty.
    assert_eq!(code("192.0.2.2", "guessed").await, (Code::Unauthenticated, false));
    assert_eq!(code("192.0.2.1", SERVICE_TOKEN).await, (Code::InvalidArgument, false));
}

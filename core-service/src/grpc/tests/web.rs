//! Bytes that a browser may send in a call of gRPC-web.

use std::sync::OnceLock;

use http_body_util::BodyExt as _;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
};

use super::*;
use crate::{domain::plan::Plan, grpc::entrance};

thesis_fuzz::fuzz_tests!(grpc_web);

const PATHS: [&str; 4] =
    ["ThesisService/ListTheses", "ThesisService/GetThesis", "SearchService/Search", "EventService/ListEvents"];
const TYPES: [&str; 3] = ["application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"];
/// Maximum bytes of a response with a page of the sandbox.
const MAX_RESPONSE: usize = 256 * 1024;
/// A limit that no run reaches, although the core's clock stands still and so no minute ends.
const UNLIMITED: u32 = 1_000_000_000;

/// A core as browsers call it, which lives as long as the process.
static SERVED: OnceLock<(Runtime, Mutex<Routes>)> = OnceLock::new();

async fn unlimited_core() -> Arc<Core> {
    let (clock, mut settings) = (ManualClock::new(), harness::settings());
    for plan in settings.plans.values_mut() {
        *plan = Plan {
            requests_per_month: UNLIMITED.into(),
            standard_per_minute: UNLIMITED,
            heavy_per_minute: UNLIMITED,
            ..*plan
        };
    }
    Core::start(harness::memory(&clock), settings, clock, harness::ids(0)).await.unwrap()
}

fn served() -> (Runtime, Mutex<Routes>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let routes = runtime.block_on(async {
        let core = unlimited_core().await;
        let entrance = from_fn_with_state(Entrance::new(&core, "tests"), entrance::enter);
        let routes = public_services(&core).into_axum_router().layer(entrance);
        guarded(Routes::from(routes), Guard::new(&core, Exposure::Public, Vec::new()))
    });
    (runtime, Mutex::new(routes))
}

/// Panics at a failure of the service, in the headers or the trailers of a response.
fn checked(response: Response<tonic::body::Body>) -> Response<tonic::body::Body> {
    fn check(headers: &HeaderMap) {
        let Some(status) = Status::from_header_map(headers) else { return };
        // The guard also catches panics. It gives a message that tonic cannot read another code.
        assert_ne!(status.code(), Code::Internal, "{status:?}");
    }
    check(response.headers());
    response.map(|body| {
        tonic::body::Body::new(body.inspect_frame(|frame| {
            if let Some(trailers) = frame.trailers_ref() {
                check(trailers);
            }
        }))
    })
}

#[test]
#[should_panic(expected = "Internal")]
fn a_failure_of_the_service_is_found() {
    checked(error_status(&ApiError::internal(), "req_1").into_http());
}

/// Any bytes have a response, and no byte makes it a failure of the service.
fn grpc_web(input: &[u8]) {
    let (runtime, routes) = SERVED.get_or_init(served);
    let Some((choice, body)) = input.split_first() else { return };
    let (path, kind) = (PATHS[usize::from(choice % 4)], TYPES[usize::from(choice / 4 % 3)]);
    let request = Request::post(format!("/thesis.v1.{path}"))
        .header("content-type", kind)
        .header("authorization", format!("Bearer {TEST_KEY}"))
        .body(Body::from(body.to_vec()))
        .unwrap();
    let response = runtime.block_on(async {
        let routes = routes.lock().await.clone();
        let layers = ServiceBuilder::new().layer(tonic_web::GrpcWebLayer::new()).map_response(checked);
        let response = layers.service(routes).oneshot(request).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    });
    assert!(response.len() <= MAX_RESPONSE, "{} bytes", response.len());
}

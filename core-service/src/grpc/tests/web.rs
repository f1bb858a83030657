//! Bytes that a browser may send in a call of gRPC-web.

use std::sync::OnceLock;

use http_body_util::BodyExt as _;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
};

use super::*;
use crate::grpc::entrance;

thesis_fuzz::fuzz_tests!(grpc_web);

const PATHS: [&str; 4] =
    ["ThesisService/ListTheses", "ThesisService/GetThesis", "SearchService/Search", "EventService/ListEvents"];
const TYPES: [&str; 3] = ["application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"];
/// Maximum bytes of a response to a call that finds nothing.
const MAX_RESPONSE: usize = 16 * 1024;

/// A core as browsers call it, which lives as long as the process.
static SERVED: OnceLock<(Runtime, Mutex<Routes>)> = OnceLock::new();

fn served() -> (Runtime, Mutex<Routes>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let routes = runtime.block_on(async {
        let core = core().await;
        let entrance = from_fn_with_state(Entrance::new(&core, "tests"), entrance::enter);
        let routes = public_services(&core).into_axum_router().layer(entrance);
        guarded(Routes::from(routes), Guard::new(&core, Exposure::Public, Vec::new()))
    });
    (runtime, Mutex::new(routes))
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
        let service = ServiceBuilder::new().layer(tonic_web::GrpcWebLayer::new()).service(routes);
        let response = service.oneshot(request).await.unwrap();
        assert!(!response.status().is_server_error(), "{response:?}");
        response.into_body().collect().await.unwrap().to_bytes()
    });
    assert!(response.len() <= MAX_RESPONSE, "{} bytes", response.len());
}

//! Limits of callers without the service credential.

use std::net::SocketAddr;

use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use thesis_net::server::ConnectionCalls;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use tonic::transport::server::TcpConnectInfo;

use super::*;
use crate::grpc::entrance;

/// Health and reflection as they are served.
async fn entered() -> Routes {
    let core = core().await;
    let (_, health) = tonic_health::server::health_reporter();
    let routes = reflection::add(Routes::new(health), &core).unwrap().into_axum_router();
    let entered = routes.layer(from_fn_with_state(Entrance::new(&core, "tests"), entrance::enter));
    guarded(Routes::from(entered), Guard::new(&core, Exposure::All, Vec::new()))
}

/// A request on a connection that has this many places left.
fn on_connection(mut request: Request, calls: &Arc<Semaphore>) -> Request {
    request.extensions_mut().insert(ConnectionCalls(Arc::clone(calls)));
    request
}

async fn code(routes: &Routes, request: Request) -> (Code, Response) {
    let answer = routes.clone().oneshot(request).await.unwrap().map(Body::new);
    let code = answer.headers().get(Status::GRPC_STATUS).map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()));
    (code, answer)
}

#[tokio::test(start_paused = true)]
async fn a_stranger_has_few_watches_and_each_ends() {
    let routes = entered().await;
    let calls = Arc::new(Semaphore::new(2));
    let watch = |headers| on_connection(request("/grpc.health.v1.Health/Watch", headers, &[]), &calls);
    let began = Instant::now();
    let (first, watched) = code(&routes, watch(&[])).await;
    let (second, other) = code(&routes, watch(&[("x-service-token", "guessed")])).await;
    assert_eq!((first, second), (Code::Ok, Code::Ok));
    let (third, refused) = code(&routes, watch(&[])).await;
    assert_eq!(third, Code::ResourceExhausted);
    assert_failure(refused.headers(), third, "RATE_LIMITED");
    // The roles watch as they like.
    let (trusted, _roles) = code(&routes, watch(&[("x-service-token", SERVICE_TOKEN)])).await;
    assert_eq!(trusted, Code::Ok);
    drop(other);
    assert_eq!(code(&routes, watch(&[])).await.0, Code::Ok);
    let ended = watched.into_body().collect().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 300);
    assert_failure(ended.trailers().unwrap(), Code::DeadlineExceeded, "SERVICE_UNAVAILABLE");
}

#[tokio::test(start_paused = true)]
async fn silent_calls_of_reflection_leave_room_for_other_calls() {
    let routes = entered().await;
    let silent_from = |address: &str| {
        let nothing = futures::stream::pending::<Result<Vec<u8>, axum::Error>>();
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let mut request = request(path, &[], &[]).map(|_| Body::from_stream(nothing));
        let peer = Some(SocketAddr::new(address.parse().unwrap(), 1));
        request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr: peer });
        request
    };
    let mut open = Vec::new();
    for number in 0..8 {
        let (opened, answer) = code(&routes, silent_from("192.0.2.1")).await;
        assert_eq!(opened, Code::Ok, "{number}");
        open.push(answer);
    }
    let (ninth, refused) = code(&routes, silent_from("192.0.2.1")).await;
    assert_failure(refused.headers(), ninth, "SERVICE_UNAVAILABLE");
    assert_eq!(code(&routes, silent_from("192.0.2.2")).await.0, Code::Ok);
    assert_eq!(code(&routes, request("/grpc.health.v1.Health/Check", &[], &[])).await.0, Code::Ok);
    // The places end with their time, although nobody has taken anything of the answers.
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(code(&routes, silent_from("192.0.2.1")).await.0, Code::Ok);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_message_and_a_silent_call_end() {
    let routes = entered().await;
    let incomplete = |path: &str| {
        let begun = futures::stream::iter([Ok::<_, axum::Error>(vec![0, 0])]).chain(futures::stream::pending());
        let calls = Arc::new(Semaphore::new(1));
        on_connection(request(path, &[], &[]).map(|_| Body::from_stream(begun)), &calls)
    };
    let began = Instant::now();
    for path in ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"] {
        assert_eq!(code(&routes, incomplete(path)).await.0, Code::DeadlineExceeded, "{path}");
    }
    assert_eq!(began.elapsed().as_secs(), 20);
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let (code, answer) = code(&routes, incomplete(&path)).await;
        assert_eq!(code, Code::Ok);
        let ended = timeout(Duration::from_secs(31), answer.into_body().collect()).await;
        ended.unwrap_or_else(|_| panic!("{path} goes on")).unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 80);
}

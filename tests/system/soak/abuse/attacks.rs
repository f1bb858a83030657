//! Attacks on processor time, memory, disk, connections and calls. Each goes on until it is dropped.

use std::{convert::Infallible, future::poll_fn, time::Duration};

use futures::{StreamExt as _, future::join_all, stream};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tonic::{
    Code, Response, Status,
    codegen::{Service as _, http},
    transport::Channel,
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_client::ServerReflectionClient};

use super::target::Target;
use crate::{
    harness::Client,
    soak::overload::{drip, host},
};

/// Requests of one key at once: as many as a project may have searches that run or wait.
const REQUESTS_AT_ONCE: usize = 16;
/// Calls at once: more than a connection may have open.
const CALLS_AT_ONCE: usize = 1_000;
/// Requests with wrong keys in one write.
const PIPELINED: u64 = 100;
/// The pause before a lost connection is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// Searches with prefixes for thousands of words: in phrases, all of them, and one of them.
const BROAD_SEARCHES: [&str; 3] =
    ["x-j0* x-j1* x-j2* x-q0* x-q1* x-q2* x-z0* x-z1*", "j* q* z*", "j* OR q* OR z* OR \"x q0001\" -nothing"];
/// Alternatives of one search that has as many as fit.
const ALTERNATIVES: usize = 36;

/// One test key makes searches that cost as much as a search may.
pub(super) async fn broad_searches(target: Target) {
    let client = target.searcher.anew();
    let alternatives: Vec<String> = (0..ALTERNATIVES).map(|number| format!("\"x q{number:04}\"")).collect();
    let alternatives = alternatives.join(" OR ");
    let paths: Vec<String> = BROAD_SEARCHES
        .into_iter()
        .chain([alternatives.as_str()])
        .map(|text| {
            let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("q", text).finish();
            format!("/v1/search?{query}&limit=50")
        })
        .collect();
    let path = |number: u64| &paths[usize::try_from(number).unwrap() % paths.len()];
    target.keep_sending(REQUESTS_AT_ONCE, |number| client.request(Method::GET, path(number))).await;
}

/// One test key posts the largest test theses, each about a new profile and a new token.
pub(super) async fn large_theses(target: Target) {
    let client = target.writer.anew();
    let text = "🚀".repeat(1_980);
    let post = |number: u64| {
        let text = format!("{number} {text}");
        // The plan bounds the names too, so the attack goes on with those it has.
        let name = number % 5;
        let body = json!({"handle": format!("writer{name}"), "token": format!("T{name}"), "text": text});
        client.request(Method::POST, "/v1/test/theses").json(&body)
    };
    target.keep_sending(REQUESTS_AT_ONCE, post).await;
}

/// A stranger sends wrong keys over one connection, without a wait for the answers.
pub(super) async fn wrong_keys(target: Target) {
    let address = Client::new(&target.http, None).address;
    let mut number = 0_u64;
    loop {
        if let Ok(stream) = TcpStream::connect(host(&target.http)).await {
            let (mut reading, mut writing) = stream.into_split();
            let read = async {
                let mut buffer = vec![0; 64 * 1024];
                while reading.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            };
            let write = async {
                loop {
                    let requests: String = (number..number + PIPELINED).map(|key| wrong_key(&address, key)).collect();
                    if writing.write_all(requests.as_bytes()).await.is_err() {
                        return;
                    }
                    target.outcomes.add("sent", PIPELINED);
                    number += PIPELINED;
                }
            };
            tokio::select! {
                () = read => {}
                () = write => {}
            }
        }
        sleep(PAUSE).await;
    }
}

fn wrong_key(address: &str, number: u64) -> String {
    format!(
        "GET /v1/theses/th_x HTTP/1.1\r\nhost: abuse\r\nx-forwarded-for: {address}\r\n\
         authorization: Bearer svc_test_{number:040}\r\n\r\n"
    )
}

/// A stranger holds connections over REST and gRPC: half are silent, the others send a byte a second.
pub(super) async fn connections(target: Target) {
    join_all((0..target.connections).map(|number| hold_connection(&target, number))).await;
}

async fn hold_connection(target: &Target, number: u64) {
    // All of them open within two seconds: a full queue of new connections would be another test.
    sleep(Duration::from_micros(500 * number)).await;
    let (address, head) = if number.is_multiple_of(2) {
        (host(&target.http), "GET /v1/theses HTTP/1.1\r\nhost: abuse\r\n")
    } else {
        (host(&target.grpc), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    };
    let is_silent = number % 4 < 2;
    let mut buffer = Vec::new();
    loop {
        if let Ok(mut stream) = TcpStream::connect(&address).await {
            target.outcomes.add("opened", 1);
            if is_silent {
                while stream.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {}
            } else {
                drip(&mut stream, head.as_bytes()).await;
            }
            target.outcomes.add("ended", 1);
        }
        sleep(PAUSE).await;
    }
}

/// A stranger watches the health over one connection as often as the service lets it.
pub(super) async fn watches(target: Target) {
    let channel = target.connect();
    let watch = || {
        let mut client = HealthClient::new(channel.clone());
        async move { client.watch(HealthCheckRequest::default()).await }
    };
    target.keep_calling(CALLS_AT_ONCE, watch).await;
}

/// A stranger makes calls over two connections and does not finish them: reflection without a message, and messages
/// without their end.
pub(super) async fn unfinished_calls(target: Target) {
    let (one, other) = (target.connect(), target.connect());
    let silent = || {
        let mut client = ServerReflectionClient::new(one.clone());
        async move { client.server_reflection_info(stream::pending::<ServerReflectionRequest>()).await }
    };
    let incomplete = || incomplete_call(other.clone());
    tokio::join!(target.keep_calling(CALLS_AT_ONCE, silent), target.keep_calling(CALLS_AT_ONCE, incomplete));
}

/// A call with the beginning of a message.
async fn incomplete_call(mut channel: Channel) -> Result<Response<()>, Status> {
    let lost = |error: tonic::transport::Error| Status::unknown(error.to_string());
    poll_fn(|context| channel.poll_ready(context)).await.map_err(lost)?;
    let begun = stream::iter([Ok::<_, Infallible>(vec![0_u8, 0])]).chain(stream::pending());
    let body = tonic::body::Body::new(axum::body::Body::from_stream(begun));
    let request = http::Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    let answer = channel.call(request).await.map_err(lost)?;
    match Status::from_header_map(answer.headers()) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(Response::new(())),
    }
}

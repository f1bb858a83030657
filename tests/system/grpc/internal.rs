//! A core whose internal services have a listener of their own: its public listener has none of them, and takes no service
//! token.

use std::time::Duration;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use serde_json::Value;
use thesis_proto::v1::{
    self, FILE_DESCRIPTOR_SET, admin_service_client::AdminServiceClient, meta_service_client::MetaServiceClient,
};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_types::StatusExt as _;

use super::{
    assert_failure,
    surface::{INTERNAL, PUBLIC, named, reflected},
    with_key,
};
use crate::harness::{SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, fetch, http_client};

const WRONG_TOKEN: &str = "guessed-guessed-guessed-guessed-1234";
/// Failures that one of two minutes cannot hold without a refusal.
const TOO_MANY: u32 = 41;
/// gRPC's code for a method that is not there, as a header has it.
const UNIMPLEMENTED: &str = "12";
const UNAUTHENTICATED: &str = "16";

/// A core, and the URLs of its public and its internal listener.
fn start() -> (Service, [String; 2]) {
    let service = Service::embedded(|setup| setup.role("core").set("SVC_INTERNAL_ADDR", "127.0.0.1:0"));
    let urls = ["grpc", "internal"].map(|name| service.processes[0].address(name));
    assert!(urls[0] != urls[1] && service.cores == urls[1..], "{urls:?}");
    (service, urls)
}

fn channel(url: &str) -> Channel {
    Endpoint::from_shared(url.to_owned()).unwrap().connect_lazy()
}

fn with_token<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-service-token", token.parse().unwrap());
    request
}

/// The path of every method of the internal services.
fn internal_methods() -> Vec<String> {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
    let services = files.into_iter().flat_map(|file| file.service);
    let internal = services.filter(|service| INTERNAL.contains(&service.name()));
    let paths = internal.flat_map(|service| {
        let path =
            |method: &prost_types::MethodDescriptorProto| format!("thesis.v1.{}/{}", service.name(), method.name());
        service.method.iter().map(path).collect::<Vec<_>>()
    });
    paths.collect()
}

#[tokio::test]
async fn a_public_listener_has_no_method_of_an_internal_service() {
    let (service, [public, internal]) = start();
    let http = http_client().build().unwrap();
    let code = async |url: &str, path: &str, token: Option<&str>| {
        let request = http.post(format!("{url}/{path}")).header("content-type", "application/grpc-web+proto");
        let request = token.into_iter().fold(request, |request, token| request.header("x-service-token", token));
        let answer = request.body(vec![0; 5]).send().await.unwrap();
        answer.headers()["grpc-status"].to_str().unwrap().to_owned()
    };
    let paths = internal_methods();
    assert!(paths.len() > 40, "{paths:?}");
    for path in &paths {
        for token in [None, Some(WRONG_TOKEN), Some(SERVICE_TOKEN)] {
            assert_eq!(code(&public, path, token).await, UNIMPLEMENTED, "{path}, {token:?}");
        }
        assert_eq!(code(&internal, path, None).await, UNAUTHENTICATED, "{path}");
    }
    // The tokens that the public listener did not take are no failures.
    assert_eq!(code(&internal, "thesis.v1.GateService/Refuse", Some(WRONG_TOKEN)).await, UNAUTHENTICATED);
    service.admin().list_organizations(v1::ListOrganizationsRequest {}).await.unwrap();
    for url in [&public, &internal] {
        MetaServiceClient::new(channel(url)).get_me(with_key(TEST_KEY, v1::GetMeRequest {})).await.unwrap();
    }
}

#[tokio::test]
async fn a_public_listener_tells_of_public_services_alone() {
    let (_service, [public, internal]) = start();
    for (url, internal_status) in [(&public, Err(Code::NotFound)), (&internal, Ok(ServingStatus::Serving))] {
        let mut health = HealthClient::new(channel(url));
        let mut status = async |service: &str| {
            let answer = health.check(HealthCheckRequest { service: service.to_owned() }).await;
            answer.map(|answer| answer.get_ref().status()).map_err(|status| status.code())
        };
        for name in named(&PUBLIC).into_iter().chain([String::new()]) {
            assert_eq!(status(&name).await, Ok(ServingStatus::Serving), "{url} {name}");
        }
        for name in named(&INTERNAL) {
            assert_eq!(status(&name).await, internal_status, "{url} {name}");
        }
        for token in [None, Some(SERVICE_TOKEN)] {
            for (names, _) in reflected(&channel(url), token, &[]).await {
                let shown = named(&INTERNAL).iter().filter(|name| names.contains(name)).count();
                let expected = if url == &internal && token.is_some() { INTERNAL.len() } else { 0 };
                assert_eq!(shown, expected, "{url} {token:?}");
                assert!(named(&PUBLIC).iter().all(|name| names.contains(name)), "{url} {names:?}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_believed_at_a_public_listener_because_of_a_token() {
    let (_service, [public, internal]) = start();
    for (url, is_believed) in [(&public, false), (&internal, true)] {
        let mut meta = MetaServiceClient::new(channel(url));
        let mut call = async |number: u32| {
            let mut request = with_token(SERVICE_TOKEN, v1::GetMeRequest {});
            request.metadata_mut().insert("x-service-request-id", "req_named".parse().unwrap());
            request.metadata_mut().insert("x-client-address", format!("198.51.100.{number}").parse().unwrap());
            meta.get_me(request).await.unwrap_err()
        };
        let mut codes = Vec::new();
        for number in 0..TOO_MANY {
            let failure = call(number).await;
            let id = failure.metadata().get("x-service-request-id").unwrap().to_str().unwrap();
            assert_eq!(id == "req_named", is_believed, "{url} {id}");
            codes.push(failure.code());
        }
        // They come from one address, or from as many as the metadata names.
        let is_refused = codes.contains(&Code::ResourceExhausted);
        assert_eq!(is_refused, !is_believed, "{url} {codes:?}");
    }
}

#[tokio::test]
async fn wrong_service_tokens_are_limited_counted_and_logged() {
    let (service, [_, internal]) = start();
    let mut admin = AdminServiceClient::new(channel(&internal));
    let mut failures: Vec<Status> = Vec::new();
    for _ in 0..TOO_MANY {
        let list = with_token(WRONG_TOKEN, v1::ListOrganizationsRequest {});
        failures.push(admin.list_organizations(list).await.unwrap_err());
    }
    let (first, last) = (&failures[0], failures.iter().find(|failure| failure.code() == Code::ResourceExhausted));
    assert_failure(first, Code::Unauthenticated, "INVALID_API_KEY");
    let last = last.expect("a refusal");
    assert_failure(last, Code::ResourceExhausted, "RATE_LIMITED");
    let wait = last.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert!(wait > Duration::ZERO && wait <= Duration::from_mins(1), "{wait:?}");
    // The right token passes from the same address.
    service.admin().list_organizations(v1::ListOrganizationsRequest {}).await.unwrap();

    let abuse = async || {
        let (code, stdout, _) = service.command(&["admin", "--json", "abuse", "list"]).await;
        let list: Value = serde_json::from_str(&stdout).unwrap();
        (code == Some(0) && list["data"][0]["address"] == "127.0.0.1").then_some(())
    };
    eventually("the address is listed", SOON, abuse).await;
    let metrics = fetch(format!("{}/metrics", service.processes[0].address("ops"))).await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let counted = metrics.lines().find_map(|line| line.strip_prefix("service_tokens_refused_total "));
    assert_eq!(counted, Some(TOO_MANY.to_string().as_str()));
    let log = service.processes[0].log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("a wrong service token")).collect();
    assert!((1..=2).contains(&warnings.len()) && warnings[0].contains("127.0.0.1"), "{warnings:?}");
    assert!(!log.contains(WRONG_TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_names_the_public_listener_says_what_to_name() {
    let (service, [public, _]) = start();
    let role = || Setup::new(service.dir.path()).set("SVC_CORE_URL", &public).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
    let (code, stdout, _) = role().arguments(&["doctor", "--role", "edge"]).run();
    assert!(code == Some(1) && stdout.contains("name core's SVC_INTERNAL_ADDR"), "{stdout}");
    let (code, stdout, _) = role().arguments(&["admin", "--json", "organization", "list"]).run();
    assert!(code == Some(1) && stdout.contains("set SVC_CORE_URL to core's SVC_INTERNAL_ADDR"), "{stdout}");
    let edge = role().role("edge").start();
    let logged = async || edge.log().contains("name core's SVC_INTERNAL_ADDR").then_some(());
    eventually("the edge logs it", SOON, logged).await;
}

//! The gRPC surface beside its operations: reflection, health, deadlines, gRPC-web, and errors of calls that reach no
//! operation.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use prost::Message as _;
use reqwest::Method;
use thesis_proto::{
    json as canonical,
    v1::{
        self, meta_service_client::MetaServiceClient, observation::Observed, token_service_client::TokenServiceClient,
    },
};
use tonic::{Code, Request, Response, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb;
use tonic_types::StatusExt as _;

use super::{assert_failure, json, with_key};
use crate::harness::{
    SERVICE_TOKEN, SOON, Service, TEST_KEY, eventually, http_client,
    ingest::{revision, token},
};

on_both_stores![
    reflection_shows_strangers_what_is_theirs,
    reflection_shows_the_roles_everything,
    health_knows_each_service,
    watches_of_one_network_leave_room_for_other_calls,
    what_reaches_no_operation_has_details_too,
    details_fit_into_a_header,
    a_trusted_proxy_tells_the_address,
    browsers_reach_it_by_grpc_web,
];

/// The services that are described, and the files with these symbols and all that they import.
pub(super) async fn reflected(
    channel: &Channel,
    token: Option<&str>,
    symbols: &[&str],
) -> [(Vec<String>, Vec<String>); 2] {
    [over_v1(channel, token, symbols).await, over_v1alpha(channel, token, symbols).await]
}

/// Reads the description by a version of reflection.
macro_rules! reflection {
    ($name:ident, $version:ident) => {
        async fn $name(channel: &Channel, token: Option<&str>, symbols: &[&str]) -> (Vec<String>, Vec<String>) {
            use pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };
            let ask = async |message: MessageRequest| {
                let ask = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
                let mut request = Request::new(futures::stream::iter([ask]));
                if let Some(token) = token {
                    request.metadata_mut().insert("x-service-token", token.parse().unwrap());
                }
                let mut client = ServerReflectionClient::new(channel.clone());
                let mut answers = client.server_reflection_info(request).await?.into_inner();
                Ok::<_, Status>(answers.message().await?.unwrap().message_response.unwrap())
            };
            let MessageResponse::ListServicesResponse(list) =
                ask(MessageRequest::ListServices(String::new())).await.unwrap()
            else {
                panic!("no list");
            };
            let names = list.service.into_iter().map(|row| row.name).collect();
            let mut wanted: Vec<_> =
                symbols.iter().map(|symbol| MessageRequest::FileContainingSymbol(symbol.to_string())).collect();
            let mut files = HashSet::new();
            while let Some(next) = wanted.pop() {
                let asked = format!("{next:?}");
                let found = match ask(next).await {
                    Ok(MessageResponse::FileDescriptorResponse(found)) => found.file_descriptor_proto,
                    other => panic!("{asked}: {other:?}"),
                };
                for file in found {
                    let file = prost_types::FileDescriptorProto::decode(&*file).unwrap();
                    if files.insert(file.name().to_owned()) {
                        wanted.extend(file.dependency.into_iter().map(MessageRequest::FileByFilename));
                    }
                }
            }
            (names, files.into_iter().collect())
        }
    };
}

reflection!(over_v1, v1);
reflection!(over_v1alpha, v1alpha);

pub(super) const PUBLIC: [&str; 12] = [
    "AlertService",
    "ArchiveService",
    "EventService",
    "LogService",
    "MetaService",
    "ProfileService",
    "SearchService",
    "StatusService",
    "TestDataService",
    "ThesisService",
    "TokenService",
    "WebhookService",
];
pub(super) const INTERNAL: [&str; 7] = [
    "AccountService",
    "AdminService",
    "DeliveryService",
    "GateService",
    "IngestService",
    "PeerService",
    "StreamService",
];

/// Names in the contract's package.
pub(super) fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("thesis.v1.{name}")).collect()
}

async fn reflection_shows_strangers_what_is_theirs(service: &Service) {
    let public = named(&PUBLIC);
    // Clients look up the types of an error's details.
    let errors = ["google.rpc.Status", "google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo"];
    let symbols: Vec<&str> = public.iter().map(String::as_str).chain(errors).collect();
    for wrong in [None, Some("guessed-guessed-guessed-guessed-1234")] {
        // An address may send few wrong tokens.
        let symbols = if wrong.is_none() { &symbols[..] } else { &[] };
        for (names, files) in reflected(&service.first_core(), wrong, symbols).await {
            let mut ours: Vec<&String> = names.iter().filter(|name| name.starts_with("thesis.")).collect();
            ours.sort_unstable();
            assert_eq!(ours, public.iter().collect::<Vec<_>>());
            assert!(names.contains(&"grpc.health.v1.Health".to_owned()), "{names:?}");
            assert!(symbols.is_empty() || files.contains(&"thesis/v1/thesis_service.proto".to_owned()), "{files:?}");
            for internal in ["account", "admin", "delivery", "gate", "ingest", "stream"] {
                assert!(!files.contains(&format!("thesis/v1/{internal}_service.proto")), "{files:?}");
            }
        }
    }
}

async fn reflection_shows_the_roles_everything(service: &Service) {
    let all = [named(&PUBLIC), named(&INTERNAL)].concat();
    let symbols: Vec<&str> = all.iter().map(String::as_str).collect();
    for (names, files) in reflected(&service.first_core(), Some(SERVICE_TOKEN), &symbols).await {
        assert!(all.iter().all(|name| names.contains(name)), "{names:?}");
        assert!(files.contains(&"thesis/v1/admin_service.proto".to_owned()), "{files:?}");
    }
}

async fn health_knows_each_service(service: &Service) {
    let mut client = HealthClient::new(service.channel());
    let all = [named(&PUBLIC), named(&INTERNAL), vec![String::new()]].concat();
    for service in all {
        let answer = client.check(HealthCheckRequest { service: service.clone() }).await.unwrap();
        assert_eq!(answer.get_ref().status(), ServingStatus::Serving, "{service}");
    }
    let failure = client.check(HealthCheckRequest { service: "thesis.v1.Nothing".to_owned() }).await.unwrap_err();
    assert_failure(&failure, Code::NotFound, "ROUTE_NOT_FOUND");
}

async fn watches_of_one_network_leave_room_for_other_calls(service: &Service) {
    let watch = async |channel: &Channel| {
        let answer = HealthClient::new(channel.clone()).watch(HealthCheckRequest::default()).await;
        answer.map(Response::into_inner)
    };
    let get_me = async |channel: &Channel| {
        MetaServiceClient::new(channel.clone()).get_me(with_key(TEST_KEY, v1::GetMeRequest {})).await
    };
    let [watching, other] = [service.first_core(), service.first_core()];
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        match watch(&watching).await {
            Ok(health) => open.push(health),
            Err(failure) => {
                assert_failure(&failure, Code::Unavailable, "SERVICE_UNAVAILABLE");
                refused += 1;
            }
        }
    }
    // One network has this many.
    assert_eq!((open.len(), refused), (64, 36));
    for channel in [&watching, &other] {
        get_me(channel).await.unwrap();
        let answer = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
        assert_eq!(answer.get_ref().status(), ServingStatus::Serving);
    }
    // A watch that ends makes room for another one.
    drop(open.pop());
    eventually("room for a watch", SOON, async || watch(&other).await.ok()).await;
}

async fn what_reaches_no_operation_has_details_too(service: &Service) {
    let http = http_client().build().unwrap();
    let large = vec![b'x'; 300_000];
    for (path, header, message, code, reason) in [
        ("thesis.v1.Nothing/Get", "", &[][..], Code::Unimplemented, "METHOD_NOT_ALLOWED"),
        ("thesis.v1.ThesisService/Nothing", "", &[], Code::Unimplemented, "METHOD_NOT_ALLOWED"),
        ("thesis.v1.ThesisService/GetThesis", "", b"\x0a\x01\xff", Code::InvalidArgument, "INVALID_REQUEST"),
        ("thesis.v1.ThesisService/GetThesis", "", &large, Code::InvalidArgument, "PAYLOAD_TOO_LARGE"),
        ("thesis.v1.ThesisService/GetThesis", "soon", &[], Code::InvalidArgument, "INVALID_REQUEST"),
        ("thesis.v1.ThesisService/GetThesis", "0n", &[], Code::DeadlineExceeded, "SERVICE_UNAVAILABLE"),
        ("thesis.v1.AdminService/ListOrganizations", "", &[], Code::Unauthenticated, "MISSING_API_KEY"),
    ] {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let request = http.post(format!("{}/{path}", service.grpc)).body([&[0], &length[..], message].concat());
        let request = request.header("content-type", "application/grpc-web+proto");
        let request = if header.is_empty() { request } else { request.header("grpc-timeout", header) };
        let answer = request.send().await.unwrap();
        let field = |name: &str| answer.headers()[name].to_str().unwrap();
        let details = STANDARD_NO_PAD.decode(field("grpc-status-details-bin").trim_end_matches('=')).unwrap();
        let status = Status::with_details(Code::from_bytes(field("grpc-status").as_bytes()), "", details.into());
        let details = status.get_error_details();
        let told = details.error_info().map(|info| info.reason.as_str());
        assert_eq!((status.code(), told), (code, Some(reason)), "{path}");
        let id = &details.request_info().unwrap().request_id;
        assert!(id.starts_with("req_") && id == field("x-service-request-id"), "{path}");
    }
    // A malformed idempotency key must not count as none.
    let mut data = v1::test_data_service_client::TestDataServiceClient::new(service.channel());
    let mut request = with_key(TEST_KEY, super::new_thesis("x"));
    request.metadata_mut().insert("idempotency-key", "é".as_bytes().try_into().unwrap());
    assert_failure(&data.create_test_thesis(request).await.unwrap_err(), Code::InvalidArgument, "INVALID_REQUEST");
}

async fn details_fit_into_a_header(service: &Service) {
    let project = service.project().await;
    let key = project.key(v1::Environment::Test, crate::harness::ALL_SCOPES).await;
    let same = (0..50).map(|number| token(&format!("chain{number}"), &"M".repeat(100), "SAME"));
    service.ingest(&project.dataset(), same.map(|token| revision(1, Observed::Token(token))).collect()).await;
    let request = v1::GetTokenRequest { r#ref: "SAME".to_owned(), ..v1::GetTokenRequest::default() };
    let failure = TokenServiceClient::new(service.channel()).get_token(with_key(&key.raw, request)).await.unwrap_err();
    assert_failure(&failure, Code::FailedPrecondition, "AMBIGUOUS_TOKEN");
    let header = STANDARD_NO_PAD.encode(failure.details()).len();
    assert!((3_000..4_096).contains(&header), "{header}");
    // REST gives the same details.
    let over_rest = key.client.get("/v1/tokens/SAME").await.error(409, "AMBIGUOUS_TOKEN");
    let info = failure.get_error_details().error_info().unwrap().clone();
    assert_eq!(info.metadata["details"].parse::<serde_json::Value>().unwrap(), over_rest["details"]);
}

async fn a_trusted_proxy_tells_the_address(service: &Service) {
    let mut meta = MetaServiceClient::new(service.first_core());
    let mut fails = async |address: &str| {
        let mut request = with_key("svc_test_x", v1::GetMeRequest {});
        request.metadata_mut().insert("x-forwarded-for", address.parse().unwrap());
        meta.get_me(request).await.unwrap_err().code()
    };
    // Each client has its own count of failures.
    let [address, other] = ["198.51.100.", "203.0.113."].map(|network| {
        let host = u8::try_from(crate::harness::now_ms() % 200).unwrap();
        format!("192.0.2.1, {network}{host}")
    });
    // Twenty failures, or up to forty if a minute ends in between.
    let mut failures = 0;
    while fails(&address).await != Code::ResourceExhausted {
        failures += 1;
        assert!(failures <= 40);
    }
    assert!(failures >= 20, "{failures}");
    assert_eq!(fails(&other).await, Code::Unauthenticated);
}

async fn browsers_reach_it_by_grpc_web(service: &Service) {
    let http = http_client().build().unwrap();
    let url = format!("{}/thesis.v1.MetaService/GetMe", service.grpc);
    let asked = "authorization,content-type,x-grpc-web,idempotency-key";
    let preflight = http.request(Method::OPTIONS, &url).header("origin", "https://app.test");
    let preflight = preflight.header("access-control-request-method", "POST");
    let answer = preflight.header("access-control-request-headers", asked).send().await.unwrap();
    assert!(answer.status().is_success());
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_lowercase();
    assert_eq!(header("access-control-allow-origin"), "*");
    assert!(header("access-control-allow-methods").contains("post"));
    // A browser does not take `*` for `authorization`.
    for name in asked.split(',') {
        assert!(header("access-control-allow-headers").contains(name), "{}", header("access-control-allow-headers"));
    }

    let call = async |key: &str| {
        let request = http.post(&url).header("origin", "https://app.test").bearer_auth(key).header("x-grpc-web", "1");
        let answer =
            request.header("content-type", "application/grpc-web+proto").body(vec![0; 5]).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap().to_owned();
        for name in
            ["grpc-status", "grpc-message", "grpc-status-details-bin", "x-service-request-id", "x-ratelimit-reset"]
        {
            assert!(exposed.contains(name), "{exposed}");
        }
        (answer.headers().clone(), answer.bytes().await.unwrap())
    };
    let (_, body) = call(TEST_KEY).await;
    let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
    assert_eq!(body[0], 0);
    let me = v1::GetMeResponse::decode(&body[5..5 + length]).unwrap().key.unwrap();
    assert_eq!(json(canonical::KeyInfo::from(&me)), service.client(TEST_KEY).get("/v1/me").await.ok(200));
    let trailers = &body[5 + length..];
    assert_eq!(trailers[0], 0x80);
    assert!(str::from_utf8(&trailers[5..]).unwrap().contains("grpc-status:0"));
    // A failure tells its status in the head or in the trailers.
    let (headers, body) = call("svc_test_wrong").await;
    let in_head = headers.get("grpc-status").is_some_and(|status| status == "16");
    assert!(in_head || str::from_utf8(&body[5..]).unwrap().contains("grpc-status:16"), "{headers:?}");
}

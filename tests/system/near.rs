//! Almost right names: a refusal says what may be meant, of what its reader sees.

use reqwest::Method;
use serde_json::{Value, json};
use thesis_proto::{
    error::ApiError,
    v1::{
        self, profile_service_client::ProfileServiceClient, token_service_client::TokenServiceClient,
        webhook_service_client::WebhookServiceClient,
    },
};
use tonic::Status;

use crate::{
    grpc::with_key,
    harness::{ALL_SCOPES, Client, SOON, Service, eventually, text},
};

on_both_stores![
    near_handles_and_symbols_are_told,
    a_near_name_of_another_project_is_not_told,
    grpc_tells_the_same,
    a_token_on_another_chain_is_told,
    an_id_of_another_kind_is_told,
    a_wrong_path_or_method_names_the_right_ones,
    near_values_are_told,
];

/// The error for an unknown reference, once it tells near names: the index follows a little later.
async fn near(client: &Client, path: &str, code: &str) -> Value {
    let told = async || {
        let error = client.get(path).await.error(404, code);
        (!error["details"]["near"].is_null()).then_some(error)
    };
    eventually(path, SOON, told).await
}

async fn near_handles_and_symbols_are_told(service: &Service) {
    let project = service.project_on("huge").await;
    let client = project.test().await;
    client.thesis("alice_near", "NEARLY", "x").await;
    for path in ["/v1/profiles/alcie_near", "/v1/profiles?handle=@ALICE_NAER", "/v1/profiles/alice_n"] {
        let error = near(&client, path, "PROFILE_NOT_FOUND").await;
        assert_eq!(error["details"], json!({"near": ["@alice_near"]}), "{path}");
        assert!(text(&error, "message").ends_with("; did you mean @alice_near?"), "{error}");
    }
    let error = near(&client, "/v1/profiles/alcie_near", "PROFILE_NOT_FOUND").await;
    assert_eq!(text(&error, "message"), "there is no profile @alcie_near; did you mean @alice_near?");
    for path in
        ["/v1/tokens/NAERLY", "/v1/tokens/$nearl", "/v1/tokens/NEARL/activity", "/v1/tokens/NEARLYS/thesis-velocity"]
    {
        let path = path.replace('$', "%24");
        let error = near(&client, &path, "TOKEN_NOT_FOUND").await;
        assert_eq!(error["details"], json!({"near": ["$NEARLY"]}), "{path}");
    }
    // What everybody sees is told as well.
    let error = near(&client, "/v1/profiles/sbx_runnre", "PROFILE_NOT_FOUND").await;
    assert_eq!(error["details"]["near"][0], "@sbx_runner");
    // What is near to nothing, or is no handle, has no near names.
    for path in ["/v1/profiles/nobody_at_all", "/v1/profiles?id=alice_naer", "/v1/profiles?upstream_user_id=alice_naer"]
    {
        let error = client.get(path).await.error(404, "PROFILE_NOT_FOUND");
        assert!(error.get("details").is_none(), "{error}");
        assert!(text(&error, "message").contains("; look for it with GET /v1/search"), "{error}");
    }
}

async fn a_near_name_of_another_project_is_not_told(service: &Service) {
    let (mine, theirs) = (service.project_on("huge").await, service.project_on("huge").await);
    let (client, other) = (mine.test().await, theirs.test().await);
    client.thesis("private_person", "PRIVACY", "x").await;
    for (path, code) in
        [("/v1/profiles/private_persno", "PROFILE_NOT_FOUND"), ("/v1/tokens/PRIVCAY", "TOKEN_NOT_FOUND")]
    {
        near(&client, path, code).await;
        // By now the index has them; others are told nothing, on any replica.
        for reader in [&other, &other, &theirs.live().await, &mine.live().await] {
            let error = reader.get(path).await.error(404, code);
            assert!(error.get("details").is_none(), "{error}");
            assert!(!error.to_string().to_lowercase().contains("priva"), "{error}");
        }
    }
}

fn told(status: &Status) -> (String, Value) {
    let error = ApiError::from_status(status);
    (error.message, error.details.map_or(Value::Null, |details| *details))
}

async fn grpc_tells_the_same(service: &Service) {
    let client = service.project_on("huge").await.key(v1::Environment::Test, ALL_SCOPES).await;
    let (key, client) = (client.raw, client.client);
    client.thesis("grpc_near", "GRPCNEAR", "x").await;
    near(&client, "/v1/profiles/grpc_naer", "PROFILE_NOT_FOUND").await;
    near(&client, "/v1/tokens/GRPCNAER", "TOKEN_NOT_FOUND").await;
    let mut profiles = ProfileServiceClient::new(service.channel());
    let is_told = async || {
        let asked = v1::GetProfileRequest { handle: Some("grpc_naer".to_owned()), ..Default::default() };
        let (text, details) = told(&profiles.get_profile(with_key(&key, asked)).await.unwrap_err());
        (details == json!({"near": ["@grpc_near"]})).then_some(text)
    };
    let message = eventually("the near handle is told", SOON, is_told).await;
    assert_eq!(message, "there is no profile @grpc_naer; did you mean @grpc_near?");
    let mut tokens = TokenServiceClient::new(service.channel());
    let is_told = async || {
        let asked = v1::GetTokenRequest { r#ref: "$GRPCNAER".to_owned(), ..v1::GetTokenRequest::default() };
        let (text, details) = told(&tokens.get_token(with_key(&key, asked)).await.unwrap_err());
        (details == json!({"near": ["$GRPCNEAR"]})).then_some(text)
    };
    let message = eventually("the near symbol is told", SOON, is_told).await;
    assert_eq!(message, "there is no token $GRPCNAER; did you mean $GRPCNEAR?");
    // Of unknown enum values and fields the known ones are told.
    let mut webhooks = WebhookServiceClient::new(service.channel());
    let mask = Some(prost_types::FieldMask { paths: vec!["discription".to_owned()] });
    let asked = v1::UpdateWebhookRequest { id: "wh_1".to_owned(), update_mask: mask, ..Default::default() };
    let (text, _) = told(&webhooks.update_webhook(with_key(&key, asked)).await.unwrap_err());
    assert!(text.ends_with("; did you mean `description`?"), "{text}");
}

async fn a_token_on_another_chain_is_told(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let token = client.thesis("chained", "CHAINED", "x").await.0["token"].clone();
    let reference = format!("{}:{}", text(&token, "chain"), text(&token, "address"));
    // The store knows it at once.
    let error = client.get("/v1/tokens/CHAINED?chain=nowhere").await.error(404, "TOKEN_NOT_FOUND");
    assert_eq!(error["details"], json!({ "near": [reference] }));
    let message = format!("there is no token CHAINED on chain nowhere; did you mean {reference}?");
    assert_eq!(text(&error, "message"), message);
}

async fn an_id_of_another_kind_is_told(service: &Service) {
    let client = service.test_client().await;
    let (thesis, event) = client.thesis("kinds", "KINDS", "x").await;
    let (thesis, event) = (text(&thesis, "id"), text(&event, "id"));
    for (path, code, told) in [
        (format!("/v1/profiles/{thesis}"), "PROFILE_NOT_FOUND", "GET /v1/theses/{id}"),
        (format!("/v1/tokens/{thesis}"), "TOKEN_NOT_FOUND", "GET /v1/theses/{id}"),
        (format!("/v1/events/{thesis}"), "EVENT_NOT_FOUND", "GET /v1/theses/{id}"),
        (format!("/v1/theses/{event}"), "THESIS_NOT_FOUND", "GET /v1/events/{id}"),
        (format!("/v1/webhooks/{event}"), "WEBHOOK_NOT_FOUND", "GET /v1/events/{id}"),
    ] {
        let error = client.get(&path).await.error(404, code);
        assert!(text(&error, "message").ends_with(&format!("; read it with {told}")), "{path}: {error}");
    }
}

async fn a_wrong_path_or_method_names_the_right_ones(service: &Service) {
    let client = service.anonymous();
    for path in ["/v1/thesis", "/v1/theses/", "/profiles/ana", "/v1/nothing"] {
        let error = client.get(path).await.error(404, "ROUTE_NOT_FOUND");
        let message = "there is nothing under this path; GET /v1/openapi.json lists every path";
        assert_eq!(text(&error, "message"), message, "{path}");
    }
    let answer = client.send(client.request(Method::DELETE, "/v1/theses")).await;
    let error = answer.error(405, "METHOD_NOT_ALLOWED");
    assert!(text(&error, "message").ends_with(&format!("; send one of {}", answer.header("allow"))), "{error}");
}

async fn near_values_are_told(service: &Service) {
    let client = service.test_client().await;
    for (path, meant) in [
        ("/v1/theses?sort=like_desc", "likes_desc"),
        ("/v1/events?types=thesis.craeted", "thesis.created"),
        ("/v1/search?q=moon&types=thesis", "theses"),
        ("/v1/search?q=moon&sort=relevence", "relevance"),
        ("/v1/webhooks?status=enable", "enabled"),
        ("/v1/theses?handel=x", "handle"),
    ] {
        let error = client.get(path).await.error(422, "VALIDATION_FAILED");
        assert!(text(&error, "message").ends_with(&format!("; did you mean `{meant}`?")), "{path}: {error}");
    }
    let project = service.project().await;
    let refused = project.try_key(v1::Environment::Test, &["thesis:read"], None).await.err().unwrap();
    let (text, _) = told(&refused);
    assert!(text.ends_with("; did you mean `theses:read`?"), "{text}");
}

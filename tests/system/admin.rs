//! The operators' commands, on the command line, against a running core.

mod ingest;
mod theses;
mod users;
mod webhooks;

use serde_json::{Value, json};
use thesis_proto::v1;

use crate::harness::{
    SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, assert_fields, eventually, iso, now_ms, rows, text, time,
};

on_both_stores![
    a_customer_is_set_up_and_served,
    keys_have_scopes_and_an_end,
    projects_are_approved_withdrawn_and_archived,
    a_failure_is_one_document_and_a_code,
    every_failure_is_json,
    addresses_that_fail_too_often_are_listed,
    people_read_text,
];

fn setup(service: &Service) -> Setup {
    Setup::new(service.dir.path()).set("SVC_CORE_URL", &service.grpc).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
}

/// Runs a command that succeeds; gives the one document on its stdout.
pub(crate) fn admin(service: &Service, arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = setup(service).arguments(&[&["admin", "--json"], arguments].concat()).run();
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

/// Runs a command that fails; gives the error object on its stdout.
pub(crate) fn refused(service: &Service, arguments: &[&str], code: &str) -> Value {
    let (exit, stdout, _) = setup(service).arguments(&[&["admin"], arguments, &["--json"]].concat()).run();
    assert_ne!(exit, Some(0), "{stdout}");
    let error: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(text(&error, "code"), code, "{error}");
    assert!(error["message"].is_string() && error["type"].is_string() && error["request_id"].is_string(), "{error}");
    error
}

fn project(service: &Service) -> Value {
    let organization = admin(service, &["organization", "create", "--name", "Initech"]);
    admin(service, &["project", "create", "--organization", text(&organization, "id"), "--name", "TPS"])
}

async fn a_customer_is_set_up_and_served(service: &Service) {
    let organization = admin(service, &["organization", "create", "--name", "Umbrella & Söhne", "--plan", "pro"]);
    assert_fields(&organization, &["object", "id", "name", "plan", "created_at"]);
    let id = text(&organization, "id");
    assert_eq!((text(&organization, "name"), text(&organization, "plan")), ("Umbrella & Söhne", "pro"));
    let listed = admin(service, &["organization", "list"]);
    assert!(rows(&listed).contains(&organization));
    let default = rows(&listed).iter().find(|row| row["name"] == "default").unwrap();
    assert_eq!(default["plan"], "business");

    let project = admin(service, &["project", "create", "--organization", id, "--name", "Hive"]);
    let fields = ["object", "id", "name", "organization_id", "live_approved", "archived", "created_at"];
    assert_fields(
        &project,
        &[&fields[..], &["live_requested_at", "live_refusal", "live_note", "live_withdrawn_at", "live_withdrawal"]]
            .concat(),
    );
    assert_eq!((&project["live_approved"], &project["archived"]), (&json!(false), &json!(false)));
    assert_eq!(rows(&admin(service, &["project", "list", "--organization", id]))[..], *std::slice::from_ref(&project));
    assert!(rows(&admin(service, &["project", "list"])).contains(&project));

    let project_id = text(&project, "id");
    let create = ["key", "create", "--project", project_id, "--environment", "test", "--name", "laptop"];
    let key = admin(service, &create);
    let client = service.client(text(&key, "key"));
    let me = client.get("/v1/me").await.ok(200);
    assert_eq!((&me["id"], &me["name"], &me["prefix"]), (&key["id"], &json!("laptop"), &key["prefix"]));
    assert_eq!(me["organization"], json!({"id": id, "name": "Umbrella & Söhne", "plan": "pro"}));
    let changed = admin(service, &["organization", "set-plan", id, "free"]);
    assert_eq!(changed["plan"], "free");
    service.settle().await;
    let usage = client.get("/v1/me/usage").await.ok(200);
    assert_eq!((&usage["streams"]["limit"], &usage["rates"]["standard"]["limit"]), (&json!(2), &json!(300)));

    let mut listed = rows(&admin(service, &["key", "list", "--project", project_id])).clone();
    let mut without_secret = key.clone();
    without_secret.as_object_mut().unwrap().remove("key");
    assert!(listed[0].as_object_mut().unwrap().remove("last_used_at").is_some());
    assert_eq!(listed, [without_secret]);
    let revoked = admin(service, &["key", "revoke", text(&key, "id")]);
    assert!((now_ms() - time(&revoked, "revoked_at")).abs() < 60_000);
    service.settle().await;
    client.get("/v1/me").await.error(401, "API_KEY_REVOKED");
    let again = admin(service, &["key", "revoke", text(&key, "id")]);
    assert_eq!(again["revoked_at"], revoked["revoked_at"]);
}

async fn keys_have_scopes_and_an_end(service: &Service) {
    let project = project(service);
    let create = ["key", "create", "--project", text(&project, "id"), "--environment", "test", "--name", "k"];
    let end = iso(now_ms() + 86_400_000);
    let narrow = admin(
        service,
        &[&create[..], &["--scope", "events:read", "--scope", "webhooks:write", "--expires-at", &end]].concat(),
    );
    let fields = ["object", "id", "name", "prefix", "environment", "scopes", "project_id", "created_at", "expires_at"];
    assert_fields(&narrow, &[&fields[..], &["revoked_at", "allowed_addresses", "key"]].concat());
    assert_eq!((&narrow["scopes"], &narrow["expires_at"]), (&json!(["events:read", "webhooks:write"]), &json!(end)));
    let client = service.client(text(&narrow, "key"));
    client.get("/v1/events").await.ok(200);
    client.get("/v1/theses").await.error(403, "INSUFFICIENT_SCOPE");
    // The wallets scope can be granted only once the API has wallets.
    for (scope, rule) in [
        ("wallets:read", "wallets:read cannot be granted while the Wallets API is off"),
        ("theses:write", "theses:write is not a scope"),
        ("", " is not a scope"),
    ] {
        let error = refused(service, &[&create[..], &["--scope", scope]].concat(), "VALIDATION_FAILED");
        assert_eq!(error["param"], "scopes");
        assert!(error.to_string().contains(rule), "{error}");
    }
}

async fn projects_are_approved_withdrawn_and_archived(service: &Service) {
    let project = project(service);
    let id = text(&project, "id");
    let key = admin(service, &["key", "create", "--project", id, "--environment", "live", "--name", "server"]);
    let client = service.client(text(&key, "key"));
    client.get("/v1/me").await.error(403, "LIVE_ACCESS_NOT_APPROVED");
    assert_eq!(admin(service, &["project", "approve", id])["live_approved"], true);
    client.get("/v1/me").await.ok(200);
    assert_eq!(admin(service, &["project", "withdraw", id])["live_approved"], false);
    service.settle().await;
    client.get("/v1/me").await.error(403, "LIVE_ACCESS_NOT_APPROVED");
    assert_eq!(admin(service, &["project", "archive", id])["archived"], true);
    service.settle().await;
    client.get("/v1/me").await.error(403, "PROJECT_ARCHIVED");
}

async fn a_failure_is_one_document_and_a_code(service: &Service) {
    refused(service, &["organization", "set-plan", "org_unknown", "free"], "ORGANIZATION_NOT_FOUND");
    refused(service, &["project", "create", "--organization", "org_unknown", "--name", "x"], "ORGANIZATION_NOT_FOUND");
    refused(service, &["project", "approve", "prj_unknown"], "PROJECT_NOT_FOUND");
    refused(service, &["key", "revoke", "key_unknown"], "KEY_NOT_FOUND");
    refused(service, &["key", "list", "--project", "prj_unknown"], "PROJECT_NOT_FOUND");
    refused(service, &["project", "list", "--organization", "org_unknown"], "ORGANIZATION_NOT_FOUND");
    // The words are an operator's: they name a command.
    let project = text(&project(service), "id").to_owned();
    let error = refused(service, &["webhook", "replay", "--webhook", &project, "--since", "1h"], "WEBHOOK_NOT_FOUND");
    let list = "this needs a webhook's; list a project's with `trade-thesis admin webhook list --project ID`";
    assert_eq!(text(&error, "message"), format!("prj_… is the id of a project, and {list}"));
    let error = refused(service, &["organization", "set-plan", &project, "free"], "ORGANIZATION_NOT_FOUND");
    assert!(text(&error, "message").ends_with("`trade-thesis admin organization list`"), "{error}");
    let error = refused(service, &["organization", "create", "--name", "x", "--plan", "gold"], "VALIDATION_FAILED");
    assert_eq!(error["param"], "plan");
    refused(service, &["organization", "create", "--name", ""], "VALIDATION_FAILED");
    // A core that is not there, and a wrong token.
    let list = ["admin", "organization", "list", "--json"];
    let (code, stdout, _) = setup(service).set("SVC_CORE_URL", "http://127.0.0.1:1").arguments(&list).run();
    let error: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, text(&error, "code")), (Some(1), "SERVICE_UNAVAILABLE"));
    let wrong = setup(service).set("SVC_SERVICE_TOKEN", "another-token-another-token-another-1").arguments(&list);
    let (code, stdout, _) = wrong.run();
    assert_eq!(code, Some(1));
    let error: Value = serde_json::from_str(&stdout).unwrap();
    assert!(!text(&error, "message").is_empty());
    // A wrong command line gets one line.
    let (code, stdout, stderr) = setup(service).arguments(&["admin", "key", "create"]).run();
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1));
}

async fn every_failure_is_json(service: &Service) {
    let list = ["admin", "organization", "list", "--json"];
    let command = |arguments: &[&str]| setup(service).arguments(arguments);
    for (setup, code, named) in [
        // A wrong command line, with the flag anywhere.
        (command(&["admin", "--json"]), "INVALID_REQUEST", "subcommand"),
        (command(&["admin", "key", "--json"]), "INVALID_REQUEST", "subcommand"),
        (command(&["admin", "--json", "key", "create"]), "INVALID_REQUEST", "--project"),
        (command(&["admin", "key", "create", "--json"]), "INVALID_REQUEST", "--project"),
        (command(&["admin", "nothing", "--json"]), "INVALID_REQUEST", "nothing"),
        (command(&["--json", "admin", "organization", "list"]), "INVALID_REQUEST", "--json"),
        (command(&["admin", "organization", "list", "--json", "--all"]), "INVALID_REQUEST", "--all"),
        (command(&["admin", "organization", "create", "--name", "--json"]), "INVALID_REQUEST", "--name"),
        // A wrong or missing setting, used or not.
        (command(&list).set("SVC_CORE_URL", "ftp://core"), "INVALID_REQUEST", "SVC_CORE_URL"),
        (command(&list).set("SVC_HTTP_ADDR", "here"), "INVALID_REQUEST", "SVC_HTTP_ADDR"),
        (command(&list).set("SVC_SERVICE_TOKEN", "short"), "INVALID_REQUEST", "SVC_SERVICE_TOKEN"),
        (
            command(&list).set("SVC_SERVICE_TOKEN", "").set("SVC_DATA_DIR", "/nowhere"),
            "INVALID_REQUEST",
            "SVC_SERVICE_TOKEN",
        ),
        // A core that is not there, or that refuses.
        (command(&list).set("SVC_CORE_URL", "http://127.0.0.1:1"), "SERVICE_UNAVAILABLE", "http://127.0.0.1:1"),
        (command(&list).set("SVC_SERVICE_TOKEN", &"x".repeat(40)), "INVALID_API_KEY", "SVC_SERVICE_TOKEN"),
        (command(&["admin", "--json", "key", "revoke", "key_unknown"]), "KEY_NOT_FOUND", ""),
        (command(&["admin", "key", "revoke", "key_unknown", "--json"]), "KEY_NOT_FOUND", ""),
    ] {
        let (exit, stdout, stderr) = setup.run();
        assert!(exit.is_some_and(|exit| exit != 0) && stderr.is_empty(), "{exit:?} {stdout} {stderr}");
        let error: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("no JSON: {stdout}"));
        assert_fields(&error, &["type", "code", "message", "request_id"]);
        assert_eq!(text(&error, "code"), code, "{error}");
        assert!(text(&error, "message").contains(named) && !text(&error, "type").is_empty(), "{error}");
    }
    // Help is no failure.
    let (exit, stdout, _) = command(&["admin", "--json", "--help"]).run();
    assert_eq!(exit, Some(0));
    assert!(stdout.contains("Usage: trade-thesis admin"), "{stdout}");
}

async fn addresses_that_fail_too_often_are_listed(service: &Service) {
    let row_of = |address: &str| {
        let listed = admin(service, &["abuse", "list"]);
        rows(&listed).iter().find(|row| text(row, "address") == address).cloned()
    };
    let began = now_ms();
    // Over all replicas, in one minute.
    let (client, made) = loop {
        let (client, minute, mut made) = (service.anonymous(), now_ms() / 60_000, 0);
        let fail = async || drop(client.with_key(Some("svc_live_nobody")).get("/v1/me").await);
        while made < 19 {
            fail().await;
            made += 1;
        }
        assert_eq!(row_of(&client.address), None, "19 are not yet too many");
        let told = eventually("the address is told", 4 * SOON, async || {
            if now_ms() / 60_000 == minute {
                fail().await;
                made += 1;
            }
            row_of(&client.address)
        });
        drop(told.await);
        if now_ms() / 60_000 == minute {
            break (client, made);
        }
    };
    // A replica that did not hear of the others' failures in time tells its own when the minute is over.
    let row = eventually("every failure is told", 6 * SOON, async || {
        row_of(&client.address).filter(|row| row["failures"] == made)
    })
    .await;
    assert_fields(&row, &["address", "failures", "first_at", "last_at"]);
    let (first, last) = (time(&row, "first_at"), time(&row, "last_at"));
    assert!(began <= first && first <= last && last <= now_ms(), "{row}");

    // Page by page it is the same, with no address twice.
    let mut request = v1::ListAbuseRequest { limit: Some(1), cursor: None };
    let mut addresses = Vec::new();
    while addresses.iter().all(|address| *address != client.address) {
        let page = service.admin().list_abuse(request.clone()).await.unwrap().into_inner();
        assert_eq!((page.data.len(), page.has_more), (1, page.next_cursor.is_some()));
        addresses.push(page.data[0].address.clone());
        request.cursor = page.next_cursor;
    }
    for wrong in [
        v1::ListAbuseRequest { limit: Some(0), cursor: None },
        v1::ListAbuseRequest { limit: Some(1_001), cursor: None },
        v1::ListAbuseRequest { limit: None, cursor: Some("x".to_owned()) },
    ] {
        assert_eq!(service.admin().list_abuse(wrong).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    }
    let (exit, stdout, _) = setup(service).arguments(&["admin", "abuse", "list"]).run();
    assert!(exit == Some(0) && stdout.starts_with("address ") && stdout.contains(&client.address), "{stdout}");
}

async fn people_read_text(service: &Service) {
    let run = |arguments: &[&str]| setup(service).arguments(&[&["admin"], arguments].concat()).run();
    let (code, stdout, stderr) = run(&["organization", "list"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("default") && serde_json::from_str::<Value>(&stdout).is_err());
    let (code, stdout, stderr) = run(&["project", "approve", "prj_unknown"]);
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(1), "", 1));
    assert!(stderr.contains("PROJECT_NOT_FOUND") && !stderr.contains(TEST_KEY));
}

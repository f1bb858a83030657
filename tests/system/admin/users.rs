//! `admin user` and `admin audit`, and refusals of live access.

use serde_json::{Value, json};
use thesis_proto::{error::ErrorCode, v1::Environment};

use super::{admin, refused, setup};
use crate::harness::{Service, assert_fields, now_ms, person::token_of, rows, text, time};

on_both_stores![
    an_administrator_is_made_by_a_link,
    users_are_listed_and_made_administrators,
    a_link_for_a_password_is_made,
    live_access_is_refused_with_a_reason,
    what_is_wrong_is_told,
    the_audit_log_is_listed,
];

const DAY_MS: i64 = 86_400_000;

/// What a person reads, of a command that succeeds.
fn read(service: &Service, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = setup(service).arguments(&[&["admin"], arguments].concat()).run();
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(serde_json::from_str::<Value>(&stdout).is_err(), "{stdout}");
    stdout
}

async fn an_administrator_is_made_by_a_link(service: &Service) {
    let mut person = service.person();
    let made = admin(service, &["user", "create", "--email", &person.email, "--administrator"]);
    let left = time(&made, "expires_at") - now_ms();
    assert!(left > 6 * DAY_MS && left <= 7 * DAY_MS, "{made}");
    person.accept(token_of(text(&made, "link"))).await.unwrap();
    let account = person.account().await;
    assert!(account.user.unwrap().administrator && account.memberships.is_empty());
    refused(service, &["user", "create", "--email", &person.email], "EMAIL_TAKEN");

    let other = service.person();
    let told = read(service, &["user", "create", "--email", &other.email]);
    assert!(told.contains("/console/links/"), "{told}");
}

async fn users_are_listed_and_made_administrators(service: &Service) {
    let (owner, _) = service.owner().await;
    let row_of = || {
        let listed = admin(service, &["user", "list"]);
        rows(&listed).iter().find(|row| row["id"] == *owner.id).cloned().unwrap()
    };
    let row = row_of();
    assert_fields(
        &row,
        &["object", "id", "email", "administrator", "created_at", "email_confirmed_at", "second_factor"],
    );
    assert_eq!((text(&row, "email"), &row["administrator"]), (&*owner.email, &json!(false)));
    let made = admin(service, &["user", "make-administrator", &owner.email.to_uppercase()]);
    assert_eq!((&made["id"], &made["administrator"]), (&row["id"], &json!(true)));
    assert_eq!(row_of(), made);
    assert!(read(service, &["user", "list"]).contains(&owner.email));
    refused(service, &["user", "make-administrator", "nobody@people.example"], "USER_NOT_FOUND");
}

async fn a_link_for_a_password_is_made(service: &Service) {
    let (mut person, _) = service.owner().await;
    let made = admin(service, &["user", "reset-link", &person.email]);
    let left = time(&made, "expires_at") - now_ms();
    assert!(left > DAY_MS - 60_000 && left <= DAY_MS + 2_000, "{made}");
    let told = read(service, &["user", "reset-link", &person.email]);
    assert!(told.contains("/console/links/"), "{told}");
    // The first one stays good until one of them is used.
    let token = token_of(text(&made, "link"));
    person.reset(token, "a wholly new password").await.unwrap();
    let error = person.reset(token, "yet another password").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::LinkNotFound);
    refused(service, &["user", "reset-link", "nobody@people.example"], "USER_NOT_FOUND");
}

async fn live_access_is_refused_with_a_reason(service: &Service) {
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    owner.key(&project, Environment::Live).await;
    owner.request_live(&project).await;
    let listed = admin(service, &["project", "list", "--organization", &organization]);
    assert!(rows(&listed)[0]["live_requested_at"].is_string(), "{listed}");
    let refuse = ["project", "refuse", &project, "--reason"];
    let told = admin(service, &[&refuse[..], &["Say what it is for."]].concat());
    assert_eq!((&told["live_refusal"], &told["live_approved"]), (&json!("Say what it is for."), &json!(false)));
    assert!(told["live_requested_at"].is_null(), "{told}");
    assert_eq!(owner.projects(&organization).await[0].live_refusal.as_deref(), Some("Say what it is for."));
    let error = refused(service, &[&refuse[..], &[""]].concat(), "VALIDATION_FAILED");
    assert_eq!(error["param"], "reason");
    refused(service, &["project", "refuse", "prj_unknown", "--reason", "x"], "PROJECT_NOT_FOUND");
    owner.request_live(&project).await;
    assert!(read(service, &[&refuse[..], &["Not yet."]].concat()).contains("Not yet."));
}

async fn what_is_wrong_is_told(service: &Service) {
    for email in ["", "nobody", "two words@people.example"] {
        let error = refused(service, &["user", "create", "--email", email], "VALIDATION_FAILED");
        assert_eq!(error["param"], "email");
    }
    refused(service, &["user", "create"], "INVALID_REQUEST");
    refused(service, &["project", "refuse", "prj_1"], "INVALID_REQUEST");
    refused(service, &["audit", "list", "--limit", "0"], "INVALID_REQUEST");
}

async fn the_audit_log_is_listed(service: &Service) {
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    admin(service, &["project", "approve", &project]);
    let of = ["audit", "list", "--organization", &organization];
    let listed = admin(service, &of);
    let newest = &rows(&listed)[0];
    assert_eq!((text(newest, "action"), text(newest, "actor")), ("project.live_approved", "operator"));
    let told = read(service, &of);
    assert!(told.contains("project.live_approved") && told.contains(&owner.email), "{told}");
    let few = admin(service, &[&of[..], &["--limit", "2"]].concat());
    assert_eq!(rows(&few)[..], rows(&listed)[..2]);
    assert!(!rows(&admin(service, &["audit", "list"])).is_empty());
}

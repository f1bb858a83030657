//! From the sign-up to the first call with a key.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, Environment, Role},
};

use super::{AT_ONCE, everywhere};
use crate::harness::{
    Service, eventually,
    person::{new_invitation, new_key, patiently, refused},
};

on_both_stores![
    a_person_signs_up_and_calls,
    an_email_has_one_account,
    each_field_has_its_rule,
    keys_are_listed_and_revoked,
];

async fn a_person_signs_up_and_calls(service: &Service) {
    let mut person = service.person();
    let organization = person.sign_up("Umbrella & Söhne").await.unwrap();
    assert!(organization.id.starts_with("org_") && organization.created_at.is_some());
    assert_eq!((organization.name.as_str(), organization.plan.as_str()), ("Umbrella & Söhne", "free"));

    let account = person.account().await;
    let user = account.user.unwrap();
    assert_eq!((&user.id, &user.email, user.administrator), (&person.id, &person.email, false));
    let [membership] = &account.memberships[..] else { panic!("{:?}", account.memberships) };
    assert_eq!((membership.organization.as_ref(), membership.role()), (Some(&organization), Role::Owner));
    assert!(account.session.unwrap().current);

    let project = person.project(&organization.id, "Hive").await;
    assert!(!project.live_approved && !project.archived && project.live_requested_at.is_none());
    let (key, raw) = person.key(&project.id, Environment::Test).await;
    let client = service.client(&raw);
    let me = client.get("/v1/me").await.ok(200);
    assert_eq!((&me["id"], &me["organization"]["id"]), (&key.id.into(), &organization.id.into()));
    client.get("/v1/theses").await.ok(200);
    client.thesis("writer", "SIGNEDUP", "the first").await;
}

async fn an_email_has_one_account(service: &Service) {
    let (owner, _) = service.owner().await;
    let mut other = service.person();
    other.email = owner.email.to_uppercase();
    assert_eq!(other.sign_up("Another").await.unwrap_err().code, ErrorCode::EmailTaken);
    // An e-mail is compared without its case.
    other.sign_in().await.unwrap();
    assert_eq!(other.id, owner.id);
}

async fn each_field_has_its_rule(service: &Service) {
    let person = service.person();
    let good = v1::SignUpRequest {
        email: person.email.clone(),
        password: person.password.clone(),
        organization_name: "Acme".to_owned(),
        user_agent: None,
    };
    let (short, long) = ("x".repeat(11), "ä".repeat(129));
    for (wrong, param) in [
        (v1::SignUpRequest { email: String::new(), ..good.clone() }, "email"),
        (v1::SignUpRequest { email: "nobody".to_owned(), ..good.clone() }, "email"),
        (v1::SignUpRequest { email: "no body@people.example".to_owned(), ..good.clone() }, "email"),
        (v1::SignUpRequest { email: format!("{}@people.example", "x".repeat(250)), ..good.clone() }, "email"),
        (v1::SignUpRequest { password: short, ..good.clone() }, "password"),
        (v1::SignUpRequest { password: long, ..good.clone() }, "password"),
        (v1::SignUpRequest { organization_name: " ".to_owned(), ..good.clone() }, "organization_name"),
        (v1::SignUpRequest { organization_name: "x".repeat(201), ..good.clone() }, "organization_name"),
    ] {
        // Wrong fields are refused by another address each, which is not over the limit of sign-ups.
        let error = refused(person.elsewhere().ask().sign_up(wrong).await, ErrorCode::ValidationFailed);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
    }
    patiently(async || person.ask().sign_up(good.clone()).await).await.unwrap();

    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await;
    for (name, scopes, param) in [("", vec![], "name"), ("laptop", vec!["theses:write".to_owned()], "scopes")] {
        let request = new_key(&project.id, Environment::Test);
        let wrong = v1::AccountServiceCreateKeyRequest { name: name.to_owned(), scopes, ..request };
        let error = refused(owner.ask().create_key(wrong).await, ErrorCode::ValidationFailed);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
    }
    for (email, role, param) in [("nobody", Role::Viewer, "email"), ("a@b.example", Role::Unspecified, "role")] {
        let wrong = new_invitation(&organization, email, role);
        let error = refused(owner.ask().create_invitation(wrong).await, ErrorCode::ValidationFailed);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
    }
}

async fn keys_are_listed_and_revoked(service: &Service) {
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await;
    let (key, raw) = owner.key(&project.id, Environment::Test).await;
    everywhere(service, &raw, "a new key works", |answer| answer.status == 200).await;
    let list = v1::AccountServiceListKeysRequest { project_id: project.id.clone() };
    let listed = owner.ask().list_keys(list).await.unwrap().into_inner().data;
    let ids: Vec<&String> = listed.iter().map(|key| &key.id).collect();
    assert_eq!((ids, &listed[0].prefix), (vec![&key.id], &key.prefix));
    let revoke = v1::AccountServiceRevokeKeyRequest { id: key.id.clone() };
    let revoked = owner.ask().revoke_key(revoke.clone()).await.unwrap().into_inner().api_key.unwrap();
    assert!(revoked.revoked_at.is_some());
    everywhere(service, &raw, "a revoked key ends", |answer| answer.status == 401).await;
    let again = owner.ask().revoke_key(revoke).await.unwrap().into_inner().api_key.unwrap();
    assert_eq!(again.revoked_at, revoked.revoked_at);

    // Open streams are told; both environments share the places.
    let (_, raw) = owner.key(&project.id, Environment::Test).await;
    let stream = service.client(&raw).stream("").await;
    let usage = v1::GetProjectUsageRequest { project_id: project.id.clone() };
    eventually("the open stream is told", 5 * AT_ONCE, async || {
        let told = owner.ask().get_project_usage(usage.clone()).await.unwrap().into_inner();
        let open = |usage: Option<v1::Usage>| usage.unwrap().streams.unwrap().open;
        (open(told.test) == 1 && open(told.live) == 1).then_some(())
    })
    .await;
    drop(stream);
}

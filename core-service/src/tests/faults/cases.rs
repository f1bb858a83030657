//! The use cases that write.

use std::{cell::Cell, time::Duration};

use futures::future::LocalBoxFuture;
use thesis_proto::{
    time::from_millis,
    v1::{
        self, admin_service_server::AdminService as _, ingest_service_server::IngestService as _,
        observation::Observed, webhook_service_server::WebhookService as _,
    },
};
use tonic::Code;

use super::{
    accounts, alerts,
    observations::{author, coin, deletion, likes, observation, thesis},
    requests::{public, service},
    worker::GONE,
    world::{World, ready},
    world_store::Dice,
};
use crate::{
    domain::{event_id::thesis_event_id, id},
    grpc::Api,
    key,
    store::schema,
    tests::harness::NOON,
};

/// A use case.
pub(super) struct UseCase {
    pub(super) name: &'static str,
    /// True if the store is empty at first.
    pub(super) from_nothing: bool,
    /// Interval between ticks of the sandbox, in seconds; 0 for none.
    pub(super) tick_seconds: u32,
    /// True if first attempts of deliveries fail.
    pub(super) first_fails: bool,
    pub(super) run: for<'a> fn(&'a mut World) -> LocalBoxFuture<'a, ()>,
}

const PLAIN: UseCase =
    UseCase { name: "", from_nothing: false, tick_seconds: 0, first_fails: false, run: |_| Box::pin(async {}) };

macro_rules! case {
    ($name:literal, $run:expr $(, $field:ident: $value:expr)*) => {
        UseCase { name: $name, run: |world| Box::pin($run(world)), $($field: $value,)* ..PLAIN }
    };
}

pub(super) const ALL: &[UseCase] = &[
    case!("create a test thesis", create_thesis),
    case!("repeat a request", repeat_request),
    case!("derive once more after five seconds", derive_again),
    case!("ingest a thesis", ingest_thesis),
    case!("ingest an edit", ingest_edit),
    case!("ingest figures", ingest_engagement),
    case!("ingest a deletion", ingest_deletion),
    case!("ingest a renamed profile", ingest_profile),
    case!("ingest a token", ingest_token),
    case!("ingest several at once", ingest_several),
    case!("ingest what comes before its thesis", ingest_early),
    case!("ingest what contradicts", ingest_contradiction),
    case!("create a webhook", create_webhook),
    case!("delete a webhook", delete_webhook),
    case!("disable a webhook that is gone", disable_webhook),
    case!("retry a delivery", retry_delivery, first_fails: true),
    case!("create an alert", alerts::create_alert),
    case!("change an alert", alerts::change_alert),
    case!("delete an alert", alerts::delete_alert),
    case!("cross the threshold of an alert", alerts::cross_threshold),
    case!("let the wait of an alert end", alerts::wait_to_cross),
    case!("create an organization", create_organization),
    case!("change a plan", change_plan),
    case!("create a project", create_project),
    case!("approve a project", approve_project),
    case!("archive a project", archive_project),
    case!("create a key", create_key),
    case!("revoke a key", revoke_key),
    case!("sign up", accounts::sign_up),
    case!("sign in", accounts::sign_in),
    case!("fail to sign in", accounts::fail_to_sign_in),
    case!("invite", accounts::create_invitation),
    case!("accept an invitation as a new user", accounts::accept_invitation),
    case!("accept an invitation as a user", accounts::join),
    case!("make a link for a password", accounts::make_reset_link),
    case!("reset a password", accounts::reset_password),
    case!("change a password", accounts::change_password),
    case!("change a role", accounts::update_member),
    case!("revoke a session", accounts::revoke_session),
    case!("sign out", accounts::sign_out),
    case!("create an organization of one's own", accounts::changes::create_organization),
    case!("remove a member", accounts::changes::remove_member),
    case!("withdraw an invitation", accounts::changes::delete_invitation),
    case!("rename an organization", accounts::changes::update_organization),
    case!("rename a project", accounts::changes::update_project),
    case!("ask for live access", accounts::changes::request_live_access),
    case!("refuse live access", accounts::changes::refuse_project),
    case!("withdraw live access", accounts::changes::withdraw_project),
    case!("make an administrator", accounts::changes::set_administrator),
    case!("confirm a user", accounts::changes::confirm_user),
    case!("confirm an e-mail", accounts::links::confirm_email),
    case!("take an account over by mail", accounts::links::take_over),
    case!("invite a user", accounts::links::create_user),
    case!("make the set-up link", accounts::links::set_up),
    case!("ask for a link for a password", accounts::links::request_password_reset),
    case!("count what keys are used for", accounts::usage::count_key_usage),
    case!("count requests", count_requests),
    case!("tick", tick, tick_seconds: 5),
    case!("lay out the sandbox", lay_out, from_nothing: true),
];

async fn create_thesis(world: &mut World) {
    ready(world).await;
    world.create_thesis("case", "case", "CASE").await;
}

async fn repeat_request(world: &mut World) {
    let first = world.create_thesis("case", "case", "CASE").await;
    ready(world).await;
    assert_eq!(world.create_thesis("case", "case", "CASE").await, first);
}

async fn derive_again(world: &mut World) {
    world.create_thesis("first", "case", "CASE").await;
    ready(world).await;
    world.create_thesis("case", "case", "CASE").await;
    world.idle().await;
    world.count(false);
    tokio::time::sleep(Duration::from_secs(6)).await;
}

/// A random observation; the theses are few.
pub(in crate::tests) fn random(dice: &mut Dice) -> v1::Observation {
    let (name, revision) = (format!("m{}", dice.roll(12)), i64::try_from(dice.roll(40)).unwrap() + 1);
    match dice.roll(8) {
        0 => deletion(&name),
        1 | 2 => likes(&name, revision),
        3 => observation(revision, Observed::Profile(author(&format!("a{}", dice.roll(3))))),
        4 => observation(revision, Observed::Token(coin(&format!("C{}", dice.roll(3))))),
        _ => thesis(&name, revision),
    }
}

async fn ingest_thesis(world: &mut World) {
    ready(world).await;
    world.ingest_thesis("case").await;
}

async fn ingest_edit(world: &mut World) {
    let id = world.ingest_thesis("case").await;
    ready(world).await;
    world.ingest("live", vec![thesis("case", 2)]).await;
    world.expect(&schema::THESIS, key!["live", id], "case 2");
}

async fn ingest_engagement(world: &mut World) {
    let id = world.ingest_thesis("case").await;
    ready(world).await;
    world.ingest("live", vec![likes("case", 77)]).await;
    world.expect(&schema::THESIS, key!["live", id], "likes: Some(77)");
}

async fn ingest_deletion(world: &mut World) {
    let id = world.ingest_thesis("case").await;
    ready(world).await;
    world.ingest("live", vec![deletion("case")]).await;
    world.expect(&schema::THESIS, key!["live", id], "deleted_at: Some(");
}

async fn ingest_profile(world: &mut World) {
    world.ingest_thesis("case").await;
    ready(world).await;
    let renamed = observation(5, Observed::Profile(author("renamed")));
    let id = world.ingest("live", vec![renamed]).await[0].id.clone();
    world.expect(&schema::PROFILE, key!["live", id], "@renamed");
}

async fn ingest_token(world: &mut World) {
    world.ingest_thesis("case").await;
    ready(world).await;
    let id = world.ingest("live", vec![observation(5, Observed::Token(coin("OTHER")))]).await[0].id.clone();
    world.expect(&schema::TOKEN, key!["live", id], "$OTHER");
}

async fn ingest_several(world: &mut World) {
    ready(world).await;
    let several = vec![
        thesis("one", 1),
        thesis("two", 1),
        thesis("one", 2),
        likes("two", 8),
        deletion("one"),
        observation(5, Observed::Profile(author("renamed"))),
        thesis("three", 1),
    ];
    let results = world.ingest("live", several).await;
    for (index, text) in [(0, "deleted_at: Some("), (1, "likes: Some(8)"), (6, "three 1")] {
        world.expect(&schema::THESIS, key!["live", &results[index].id], text);
    }
}

async fn ingest_early(world: &mut World) {
    ready(world).await;
    world.ingest("live", vec![likes("liked", 8), deletion("gone")]).await;
    let results = world.ingest("live", vec![thesis("liked", 1), thesis("gone", 1)]).await;
    for (result, text) in results.iter().zip(["likes: Some(8)", "deleted_at: Some("]) {
        world.expect(&schema::THESIS, key!["live", &result.id], text);
        world.acknowledged.entries.insert(("live".to_owned(), thesis_event_id(&result.id)));
    }
}

/// One observation of a call is refused, the others are applied.
async fn ingest_contradiction(world: &mut World) {
    let id = world.ingest_thesis("case").await;
    ready(world).await;
    let mut other = thesis("case", 2);
    if let Some(Observed::Thesis(seen)) = &mut other.observed {
        seen.created_at = Some(from_millis(NOON + 2));
    }
    let message = v1::IngestRequest { dataset: "live".to_owned(), observations: vec![other, likes("case", 77)] };
    let refused = world.ask(async |api| api.ingest(service(message.clone())).await).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    for text in ["case 1", "likes: Some(77)"] {
        world.expect(&schema::THESIS, key!["live", &id], text);
    }
}

async fn create_webhook(world: &mut World) {
    ready(world).await;
    let id = world.create_webhook("case", "https://1.1.1.1/case").await;
    assert_eq!(world.create_webhook("case", "https://1.1.1.1/case").await, id);
}

async fn delete_webhook(world: &mut World) {
    let id = world.create_webhook("case", "https://1.1.1.1/case").await;
    ready(world).await;
    let request = || public(v1::DeleteWebhookRequest { id: id.clone() }, None);
    let answer = world.ask(async |api| api.delete_webhook(request()).await).await;
    // A repeated request after a lost response finds nothing.
    assert!(answer.is_ok() || answer.is_err_and(|status| status.code() == Code::NotFound));
    world.acknowledged.webhooks.remove(&id);
    world.acknowledged.deleted.insert(id);
}

async fn disable_webhook(world: &mut World) {
    let id = world.create_webhook("webhook", &format!("https://1.1.1.1{GONE}")).await;
    ready(world).await;
    world.create_thesis("case", "case", "CASE").await;
    world.acknowledged.disabled.insert(id);
}

async fn retry_delivery(world: &mut World) {
    world.create_thesis("case", "case", "CASE").await;
    world.idle().await;
    world.stop();
    tokio::time::sleep(Duration::from_secs(62)).await;
    drop(world.core().await);
    world.count(false);
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// Operators check before they repeat a request.
async fn organization(world: &mut World, name: &str) -> String {
    loop {
        let list = || service(v1::ListOrganizationsRequest::default());
        let listed = world.ask(async |api| api.list_organizations(list()).await).await.unwrap();
        if let Some(found) = listed.data.iter().find(|row| row.name == name) {
            world.note_created("organization", name);
            return found.id.clone();
        }
        let make = v1::CreateOrganizationRequest { name: name.to_owned(), plan: None };
        world.ask_once(async |api| api.create_organization(service(make)).await).await;
    }
}

async fn project(world: &mut World, organization: &str, name: &str) -> String {
    loop {
        let list = || service(v1::ListProjectsRequest::default());
        let listed = world.ask(async |api| api.list_projects(list()).await).await.unwrap();
        if let Some(found) = listed.data.iter().find(|row| row.name == name) {
            world.note_created("project", name);
            return found.id.clone();
        }
        let make = v1::CreateProjectRequest { organization_id: organization.to_owned(), name: name.to_owned() };
        world.ask_once(async |api| api.create_project(service(make)).await).await;
    }
}

async fn key(world: &mut World, project: &str, name: &str) -> String {
    loop {
        let list = || service(v1::ListKeysRequest { project_id: project.to_owned() });
        let listed = world.ask(async |api| api.list_keys(list()).await).await.unwrap();
        if let Some(found) = listed.data.iter().find(|row| row.name == name) {
            world.note_created("key", name);
            return found.id.clone();
        }
        let make = v1::CreateKeyRequest {
            project_id: project.to_owned(),
            environment: v1::Environment::Test.into(),
            name: name.to_owned(),
            ..v1::CreateKeyRequest::default()
        };
        world.ask_once(async |api| api.create_key(service(make)).await).await;
    }
}

async fn create_organization(world: &mut World) {
    ready(world).await;
    organization(world, "case").await;
}

async fn change_plan(world: &mut World) {
    let id = organization(world, "case").await;
    ready(world).await;
    let request = || service(v1::SetOrganizationPlanRequest { id: id.clone(), plan: "business".to_owned() });
    world.ask(async |api| api.set_organization_plan(request()).await).await.unwrap();
    let core = world.core().await;
    assert_eq!(core.shared.control.state().organization(&id).unwrap().plan, "business");
}

async fn create_project(world: &mut World) {
    let of = organization(world, "case").await;
    ready(world).await;
    project(world, &of, "case").await;
}

async fn approve_project(world: &mut World) {
    let of = organization(world, "case").await;
    let id = project(world, &of, "case").await;
    ready(world).await;
    let request = || service(v1::ApproveProjectRequest { id: id.clone() });
    world.ask(async |api| api.approve_project(request()).await).await.unwrap();
    assert!(world.core().await.shared.control.state().project(&id).unwrap().live_approved);
}

async fn archive_project(world: &mut World) {
    let of = organization(world, "case").await;
    let id = project(world, &of, "case").await;
    ready(world).await;
    let request = || service(v1::ArchiveProjectRequest { id: id.clone() });
    world.ask(async |api| api.archive_project(request()).await).await.unwrap();
    assert!(world.core().await.shared.control.state().project(&id).unwrap().archived);
}

async fn create_key(world: &mut World) {
    ready(world).await;
    key(world, &id::derive("prj_", &["default"]), "case").await;
}

async fn revoke_key(world: &mut World) {
    let id = key(world, &id::derive("prj_", &["default"]), "case").await;
    ready(world).await;
    let request = || service(v1::RevokeKeyRequest { id: id.clone() });
    world.ask(async |api| api.revoke_key(request()).await).await.unwrap();
    assert!(world.core().await.shared.control.state().key(&id).unwrap().revoked_at.is_some());
}

async fn used(world: &World) -> i64 {
    let rows = world.store.rows().await.all(&schema::USAGE).into_iter();
    rows.map(|(_, row)| i64::from_be_bytes(row.body.as_ref().try_into().unwrap())).sum()
}

async fn count_requests(world: &mut World) {
    drop(world.core().await);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let before = used(world).await;
    world.count(false);
    let requests = Cell::new(0);
    for _ in 0..3 {
        let request = || public(v1::ListWebhooksRequest::default(), None);
        let ask = async |api: Api| {
            requests.set(requests.get() + 1);
            api.list_webhooks(request()).await
        };
        world.ask(ask).await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let ended = world.process.ended().is_some() || world.process.calls().is_empty();
    world.process.rest();
    drop(world.core().await);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let counted = used(world).await - before;
    // Counts of the last tenth of a second before an end, or of a second before a power loss, may be lost.
    assert!(counted <= requests.get() && (ended || counted >= 3), "{counted} of {}", requests.get());
}

async fn tick(world: &mut World) {
    drop(world.core().await);
    world.idle().await;
    world.count(false);
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.stop_ticking().await;
}

async fn lay_out(world: &mut World) {
    world.count(false);
    drop(world.core().await);
}

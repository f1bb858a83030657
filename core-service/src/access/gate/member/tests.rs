use std::sync::Arc;

use thesis_proto::error::ErrorCode;

use super::*;
use crate::{
    access::gate::{Call, RequestMeta},
    domain::{
        account,
        control::{ControlChange, Organization, Project},
    },
    service::Core,
    tests::harness::{ManualClock, core, memory},
};

const ORGANIZATION: &str = "org_members";
const PROJECT: &str = "prj_members";
const ROLES: [(&str, Role); 3] =
    [("usr_viewer", Role::Viewer), ("usr_developer", Role::Developer), ("usr_owner", Role::Owner)];

/// A core with a project whose organization has a viewer, a developer and an owner.
async fn world() -> Arc<Core> {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let (id, plan) = (ORGANIZATION.to_owned(), "free".to_owned());
    change(&core, ControlChange::Organization(Organization { id, plan, ..Organization::default() })).await;
    change(&core, ControlChange::Project(project())).await;
    for (user_id, role) in ROLES {
        let (organization_id, user_id, role) = (ORGANIZATION.to_owned(), user_id.to_owned(), role.into());
        let member = account::Member { organization_id, user_id, role, ..account::Member::default() };
        change(&core, ControlChange::Member(member)).await;
    }
    core
}

fn project() -> Project {
    Project { id: PROJECT.to_owned(), organization_id: ORGANIZATION.to_owned(), ..Project::default() }
}

async fn change(core: &Core, change: ControlChange) {
    let make = |_: &_| Ok((vec![change.clone()], ()));
    core.shared.control.change(Actor::service().does("test"), make).await.unwrap();
}

fn key(user_id: &str, live: bool) -> MemberKey {
    let (user_id, session_id, project_id) = (user_id.to_owned(), "ses_1".to_owned(), PROJECT.to_owned());
    MemberKey { user_id, session_id, project_id, live }
}

fn admit(core: &Core, key: &MemberKey, operation: Operation) -> std::result::Result<Call, ErrorCode> {
    let meta = RequestMeta { key_id: Some(key.to_string()), ..RequestMeta::default() };
    core.gate.admit(meta, operation).map_err(|refused| refused.error.api.code)
}

fn refusal(core: &Core, key: &MemberKey, operation: Operation) -> Option<ErrorCode> {
    admit(core, key, operation).err()
}

#[tokio::test]
async fn a_member_calls_as_a_key_of_the_project_would() {
    let core = world().await;
    let key = key("usr_viewer", false);
    let call = admit(&core, &key, Operation::ListEvents).unwrap();
    assert_eq!((call.caller.key_id(), &*call.caller.project.id), (key.to_string(), PROJECT));
    assert!(!call.caller.key.live && call.caller.member.is_some());
    // A key's audit entry names the key; a member's names the person.
    let actor = call.actor();
    assert_eq!((&*actor.id, actor.is_member), ("usr_viewer", true));
    let scopes = &call.caller.key.scopes;
    assert_eq!(scopes.len(), Scope::ALL.len() - 1);
    assert!(!scopes.iter().any(|scope| scope == Scope::WalletsRead.as_str()));
    assert!(!call.shows_wallets());
}

#[tokio::test]
async fn viewers_read_and_developers_change() {
    let core = world().await;
    change(&core, ControlChange::Project(Project { live_approved: true, ..project() })).await;
    for operation in Operation::ALL.iter().copied() {
        for live in [false, true] {
            let is_on = operation.feature().is_none_or(|feature| core.gate.features().has(feature));
            let is_open = is_on && operation.scope() != Some(Scope::WalletsRead) && !(live && operation.test_only());
            let admits = |user: &str| core.gate.still_admits(&key(user, live).to_string(), operation);
            assert_eq!(admits("usr_viewer"), is_open && !operation.is_change(), "{operation:?}");
            assert_eq!((admits("usr_developer"), admits("usr_owner")), (is_open, is_open), "{operation:?}");
            assert!(!admits("usr_stranger"), "{operation:?}");
        }
    }
    let refused = refusal(&core, &key("usr_viewer", false), Operation::DeleteWebhook);
    assert_eq!(refused, Some(ErrorCode::InsufficientRole));
}

#[tokio::test]
async fn to_others_the_project_does_not_exist() {
    let core = world().await;
    let stranger = refusal(&core, &key("usr_stranger", false), Operation::GetMe);
    assert_eq!(stranger, Some(ErrorCode::ProjectNotFound));
    let unknown = MemberKey { project_id: "prj_unknown".to_owned(), ..key("usr_owner", false) };
    assert_eq!(refusal(&core, &unknown, Operation::GetMe), Some(ErrorCode::ProjectNotFound));
    // They do not learn whether its live access is approved, or whether it is archived.
    assert_eq!(refusal(&core, &key("usr_stranger", true), Operation::GetMe), Some(ErrorCode::ProjectNotFound));
    change(&core, ControlChange::Project(Project { archived: true, ..project() })).await;
    assert_eq!(refusal(&core, &key("usr_stranger", false), Operation::GetMe), Some(ErrorCode::ProjectNotFound));
    assert_eq!(refusal(&core, &key("usr_owner", false), Operation::GetMe), Some(ErrorCode::ProjectArchived));
}

#[tokio::test]
async fn live_data_needs_the_approval() {
    let core = world().await;
    let live = key("usr_owner", true);
    assert_eq!(refusal(&core, &live, Operation::ListEvents), Some(ErrorCode::LiveAccessNotApproved));
    change(&core, ControlChange::Project(Project { live_approved: true, ..project() })).await;
    assert_eq!(refusal(&core, &live, Operation::ListEvents), None);
}

#[tokio::test]
async fn who_is_no_member_any_more_is_not_admitted() {
    let core = world().await;
    let key = key("usr_viewer", false);
    assert!(core.gate.still_admits(&key.to_string(), Operation::Open));
    change(&core, ControlChange::MemberGone(format!("{ORGANIZATION}/usr_viewer"))).await;
    assert!(!core.gate.still_admits(&key.to_string(), Operation::Open));
}

#[tokio::test]
async fn each_member_has_requests_of_their_own() {
    let core = world().await;
    let (one, other) = (key("usr_viewer", false), key("usr_owner", false));
    let mut admitted = 0;
    while refusal(&core, &one, Operation::GetProfile).is_none() {
        admitted += 1;
        assert!(admitted <= 60, "the plan's rate does not hold");
    }
    assert_eq!(admitted, 60);
    assert_eq!(refusal(&core, &one, Operation::GetProfile), Some(ErrorCode::RateLimited));
    // Another session is the same person.
    let elsewhere = MemberKey { session_id: "ses_2".to_owned(), ..one.clone() };
    assert_eq!(refusal(&core, &elsewhere, Operation::GetProfile), Some(ErrorCode::RateLimited));
    assert_eq!(refusal(&core, &other, Operation::GetProfile), None);
}

#[tokio::test]
async fn calls_by_members_do_not_use_the_quota() {
    let core = world().await;
    let call = admit(&core, &key("usr_owner", false), Operation::ListEvents).unwrap();
    let (organization, limit) = (call.caller.organization.id.clone(), call.caller.plan.requests_per_month);
    for _ in 0..3 {
        assert!(call.charge().await.is_ok());
    }
    // The organization's keys still have the whole quota.
    for _ in 0..limit {
        assert!(core.gate.limits.quota.take(&organization, limit, call.now_ms).await);
    }
    assert!(!core.gate.limits.quota.take(&organization, limit, call.now_ms).await, "the plan's quota does not hold");
    assert!(call.charge().await.is_ok(), "members still stop webhooks, and look at the console");
}

#[tokio::test]
async fn live_views_do_not_use_the_streams_of_keys() {
    let core = world().await;
    let call = admit(&core, &key("usr_viewer", false), Operation::Open).unwrap();
    let views = call.caller.stream_name();
    let _view = core.slots.take_slot(&views, 1).await.unwrap();
    assert!(core.slots.take_slot(&views, 1).await.is_err(), "the plan's number of streams does not hold");
    // The project's keys still have all their streams.
    let _stream = core.slots.take_slot(PROJECT, 1).await.unwrap();
    assert_eq!(core.slots.open(PROJECT).await.unwrap(), 1);
}

#[tokio::test]
async fn a_right_that_ended_since_the_call_was_admitted_is_gone() {
    let core = world().await;
    let call = admit(&core, &key("usr_developer", false), Operation::DeleteWebhook).unwrap();
    assert!(call.demand_right(&core.shared.control.state()).is_ok());
    let (organization_id, user_id) = (ORGANIZATION.to_owned(), "usr_developer".to_owned());
    let viewer = account::Member { organization_id, user_id, role: Role::Viewer.into(), ..account::Member::default() };
    change(&core, ControlChange::Member(viewer)).await;
    let refused = call.demand_right(&core.shared.control.state()).unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::InsufficientRole);
}

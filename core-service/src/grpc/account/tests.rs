//! Nobody changes or sees more than the table of rights says: random calls of random people, beside a naive model of who
//! is who.

mod calls;

use std::collections::BTreeMap;

use axum::{body::Body, extract::Request as HttpRequest};
use proptest::prelude::*;
use thesis_proto::error::{ApiError, ErrorCode};
use tower::ServiceExt as _;

use self::calls::call;
use super::*;
use crate::{
    access::rights::tests::{Requirement, TABLE},
    domain::{
        account::{Actor, Invitation, Member, Role, User},
        control::{ControlChange, Organization, Project},
    },
    error::Error,
    grpc::services,
    tests::harness::{self, ManualClock, NOON, SERVICE_TOKEN},
};

/// The organizations.
const ORGANIZATIONS: [&str; 2] = ["org_a", "org_b"];
/// The people, and their roles in the first organization and in the second. The last person has no role.
const PEOPLE: [(&str, Option<Role>, Option<Role>); 8] = [
    ("usr_owner", Some(Role::Owner), None),
    ("usr_second", Some(Role::Owner), Some(Role::Viewer)),
    ("usr_developer", Some(Role::Developer), None),
    ("usr_viewer", Some(Role::Viewer), None),
    ("usr_other_owner", None, Some(Role::Owner)),
    ("usr_other_developer", None, Some(Role::Developer)),
    ("usr_other_viewer", None, Some(Role::Viewer)),
    ("usr_stranger", None, None),
];

/// A call: its person, its row of the table, and numbers that choose its subject.
#[derive(Clone, Debug)]
struct Step {
    who: usize,
    method: usize,
    about: usize,
    other: usize,
    role: i32,
}

fn step() -> impl Strategy<Value = Step> {
    (0..PEOPLE.len(), 0..TABLE.len(), 0..64_usize, 0..PEOPLE.len(), 0..4_i32)
        .prop_map(|(who, method, about, other, role)| Step { who, method, about, other, role })
}

/// Roles by organization and user.
type Roles = BTreeMap<(String, String), Role>;

fn roles() -> Roles {
    let mut roles = Roles::new();
    for (user, first, second) in PEOPLE {
        for (of, role) in ORGANIZATIONS.into_iter().zip([first, second]) {
            if let Some(role) = role {
                roles.insert((of.to_owned(), user.to_owned()), role);
            }
        }
    }
    roles
}

fn person(id: &str) -> Person {
    let user = User { id: id.to_owned(), email: format!("{id}@example.com"), created_at: NOON, ..User::default() };
    let user = user.confirmed(NOON);
    Person {
        user: user.into(),
        session_id: "ses_1".to_owned(),
        actor: Actor { id: id.to_owned(), address: None, is_member: true },
        now_ms: NOON,
        confirmed_at: NOON,
    }
}

/// What an organization begins with: itself, a project, and an invitation.
fn first_rows(id: &str) -> [ControlChange; 3] {
    let (organization_id, name) = (id.to_owned(), id.to_owned());
    let project = Project { id: id.replace("org", "prj"), organization_id, name: name.clone(), ..Project::default() };
    let invitation = Invitation {
        id: id.replace("org", "inv"),
        organization_id: Some(id.to_owned()),
        email: Some("new@example.com".to_owned()),
        role: Role::Viewer.into(),
        created_at: NOON,
        ..Invitation::default()
    };
    let organization = Organization { id: id.to_owned(), name, plan: "free".to_owned(), ..Organization::default() };
    [ControlChange::Organization(organization), ControlChange::Project(project), ControlChange::Invitation(invitation)]
}

/// Creates the organizations and their members.
async fn fill(core: &Core) {
    let mut rows: Vec<ControlChange> = ORGANIZATIONS.into_iter().flat_map(first_rows).collect();
    rows.extend(PEOPLE.iter().map(|(id, ..)| ControlChange::User(User::clone(&person(id).user))));
    for ((organization_id, user_id), role) in roles() {
        let role = role.into();
        rows.push(ControlChange::Member(Member { organization_id, user_id, role, ..Member::default() }));
    }
    let make = |_: &_| Ok((rows.clone(), ()));
    core.shared.control.change(Actor::service().does("test.filled"), make).await.unwrap();
    for (id, owner) in ORGANIZATIONS.into_iter().zip(["usr_owner", "usr_other_owner"]) {
        let message = v1::AccountServiceCreateKeyRequest {
            project_id: id.replace("org", "prj"),
            environment: v1::Environment::Test.into(),
            name: "key".to_owned(),
            ..Default::default()
        };
        create_key(core, &person(owner), &message).await.unwrap();
    }
}

/// The ids of all that a method can be about. What the test core begins with belongs to nobody here.
fn targets(core: &Core, method: &str) -> Vec<String> {
    let state = core.shared.control.state();
    match method {
        "UpdateProject" | "ArchiveProject" | "RequestLiveAccess" | "CreateKey" | "ListKeys" | "GetProjectUsage"
        | "ListKeyUsage" | "ListLoggedRequests" | "GetLoggedRequest" => {
            state.projects().map(|row| row.id.clone()).collect()
        }
        "RevokeKey" | "RollKey" => state.keys().map(|row| row.id.clone()).collect(),
        "DeleteInvitation" => state.people().invitations().map(|row| row.id.clone()).collect(),
        _ => state.organizations().map(|row| row.id.clone()).collect(),
    }
}

/// The organization that owns something.
fn organization_of(core: &Core, id: &str) -> Option<String> {
    let state = core.shared.control.state();
    let of_project = |id: &str| state.project(id).map(|row| row.organization_id.clone());
    match id.split_once('_')?.0 {
        "org" => Some(id.to_owned()),
        "prj" => of_project(id),
        "key" => of_project(&state.key(id)?.project_id),
        "inv" => state.people().invitation(id)?.organization_id.clone(),
        _ => None,
    }
}

/// An error as its caller gets it.
fn bytes(error: &Error) -> (tonic::Code, String, Vec<u8>) {
    let status = error.api.to_status("req_1");
    (status.code(), status.message().to_owned(), status.details().to_vec())
}

/// Every membership, as the control log has it.
fn stored(core: &Core) -> Roles {
    let state = core.shared.control.state();
    let members = ORGANIZATIONS.iter().flat_map(|of| state.people().members(of));
    members.map(|row| ((row.organization_id.clone(), row.user_id.clone()), row.role())).collect()
}

fn head(core: &Core) -> u64 {
    *core.shared.control.changes().borrow()
}

/// Judges the refusal of a call about something: the same as for what never was, unless the person is a member.
async fn judge_refusal(core: &Core, by: &Person, id: &str, step: &Step, is_member: bool, error: &Error) {
    let (method, kind) = (TABLE[step.method].0, id.split_once('_').unwrap().0);
    let expected = match kind {
        _ if is_member => ErrorCode::InsufficientRole,
        "org" => ErrorCode::OrganizationNotFound,
        "prj" => ErrorCode::ProjectNotFound,
        "key" => ErrorCode::KeyNotFound,
        _ => ErrorCode::InvitationNotFound,
    };
    // The fields of a request are judged before anything is looked up.
    assert!([expected, ErrorCode::ValidationFailed].contains(&error.api.code), "{method}: {error}");
    if !is_member {
        let never = call(core, by, method, &format!("{kind}_never"), step).await.unwrap_err();
        assert_eq!(bytes(error), bytes(&never), "{method}");
    }
}

/// The error that a call has although its caller may make it, by the model.
fn expected_error(model: &Roles, organization: &str, step: &Step) -> Option<ErrorCode> {
    let (method, subject) = (TABLE[step.method].0, PEOPLE[step.other].0);
    let owners = model.iter().filter(|((of, _), role)| *of == organization && **role == Role::Owner);
    let is_last_owner = owners.map(|((_, user), _)| user.as_str()).eq([subject]);
    let is_member = model.contains_key(&(organization.to_owned(), subject.to_owned()));
    let given = Role::try_from(step.role).ok();
    match method {
        "UpdateMember" | "CreateInvitation" if given.is_none() => Some(ErrorCode::ValidationFailed),
        "UpdateMember" | "RemoveMember" if !is_member => Some(ErrorCode::MemberNotFound),
        "UpdateMember" if given != Some(Role::Owner) && is_last_owner => Some(ErrorCode::LastOwner),
        "RemoveMember" if is_last_owner => Some(ErrorCode::LastOwner),
        _ => None,
    }
}

/// Makes a call and judges it by the model, which it changes as the call should.
async fn judge(core: &Core, model: &mut Roles, step: &Step) {
    let (method, need) = TABLE[step.method];
    let (Requirement::Role(least) | Requirement::RoleOrSelf(least)) = need else { return };
    let found = targets(core, method);
    if found.is_empty() {
        return;
    }
    let id = found[step.about % found.len()].as_str();
    let organization = organization_of(core, id).unwrap();
    let (by, subject) = (person(PEOPLE[step.who].0), PEOPLE[step.other].0);
    let what = format!("{method} of {id} by {}: {step:?}", by.user.id);
    let membership_key = |user: &str| (organization.clone(), user.to_owned());
    let is_about_self = matches!(need, Requirement::RoleOrSelf(_)) && subject == by.user.id;
    let role = model.get(&membership_key(&by.user.id)).copied();
    let before = head(core);
    let outcome = call(core, &by, method, id, step).await;
    if !role.is_some_and(|role| role >= least || is_about_self) {
        judge_refusal(core, &by, id, step, role.is_some(), &outcome.expect_err(&what)).await;
        assert_eq!(head(core), before, "{what} changed something");
        return;
    }
    if let Some(code) = expected_error(model, &organization, step) {
        assert_eq!(outcome.expect_err(&what).api.code, code, "{what}");
        assert_eq!(head(core), before, "{what} changed something");
        return;
    }
    let shown = match outcome {
        Ok(shown) => shown,
        Err(error) => {
            // A key that was revoked or rolled cannot be rolled.
            let limits = [ErrorCode::ProjectArchived, ErrorCode::AccountLimitReached, ErrorCode::ChangedMeanwhile];
            assert!(limits.contains(&error.api.code), "{what}: {error}");
            return;
        }
    };
    match method {
        "UpdateMember" => {
            model.insert(membership_key(subject), Role::try_from(step.role).unwrap());
        }
        "RemoveMember" => {
            model.remove(&membership_key(subject));
        }
        _ => {}
    }
    for id in shown {
        let is_member = model.contains_key(&membership_key(&id));
        assert!(is_member || organization_of(core, &id).as_ref() == Some(&organization), "{what} showed {id}");
    }
    if method.starts_with("Get") || method.starts_with("List") {
        assert_eq!(head(core), before, "{what} changed something");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn nobody_does_or_sees_more_than_the_table_says(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::new();
            let core = harness::core(harness::memory(&clock), &clock, 0).await;
            fill(&core).await;
            let mut model = roles();
            for step in &steps {
                judge(&core, &mut model, step).await;
                assert_eq!(stored(&core), model, "{step:?}");
            }
        });
    }
}

#[tokio::test]
async fn every_method_needs_the_credential_and_most_a_session() {
    let clock = ManualClock::new();
    let core = harness::core(harness::memory(&clock), &clock, 0).await;
    let routes = services(&core);
    let refusal = async |method: &str, headers: &[(&str, &str)]| {
        let path = format!("/thesis.v1.AccountService/{method}");
        let mut request = HttpRequest::post(path).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // An empty message in its frame.
        let request = request.body(Body::from(vec![0; 5])).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        Status::from_header_map(answer.headers()).map(|status| ApiError::from_status(&status).code)
    };
    let credential = ("x-service-token", SERVICE_TOKEN);
    for (method, need) in TABLE {
        // A front end's wrong credential is nothing that its own callers should learn of.
        assert_eq!(refusal(method, &[][..]).await, Some(ErrorCode::InternalError), "{method}");
        for session in [None, Some(("x-session", "")), Some(("x-session", "ses_usr_owner_guessed"))] {
            let headers: Vec<_> = [credential].into_iter().chain(session).collect();
            let refused = refusal(method, &headers[..]).await;
            let is_demanded = *need != Requirement::Nothing || (*method == "AcceptInvitation" && session.is_some());
            assert_eq!(refused == Some(ErrorCode::SignInRequired), is_demanded, "{method} {session:?}: {refused:?}");
        }
    }
}

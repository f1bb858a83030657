//! What people may call by their session: every public operation, by everyone, in every state of a project, beside a
//! naive model of who may do what.

use axum::{body::Body, extract::Request as HttpRequest};
use thesis_proto::v1;
use tonic::service::Routes;
use tower::ServiceExt as _;

use super::*;
use crate::{
    domain::{
        account::{Actor, Member, Role},
        control::ControlChange,
    },
    grpc::services,
    operations::{
        account::sign_up::sign_up,
        admin::{
            change_project::{approve_project, archive_project, withdraw_project},
            create_project::create_project,
        },
    },
    tests::harness::{self, ManualClock},
};

/// Operations that viewers may not call.
const CHANGES: [Operation; 11] = [
    Operation::CreateTestThesis,
    Operation::CreateWebhook,
    Operation::UpdateWebhook,
    Operation::DeleteWebhook,
    Operation::RotateWebhookSecret,
    Operation::TestWebhook,
    Operation::ReplayDelivery,
    Operation::StartWebhookReplay,
    Operation::CreateAlert,
    Operation::UpdateAlert,
    Operation::DeleteAlert,
];

/// The operations that the core of these tests does not offer.
const NOT_ENABLED: [Operation; 5] = [
    Operation::GetProfileWallets,
    Operation::SemanticSearch,
    Operation::ListArchiveFiles,
    Operation::GetArchiveFile,
    Operation::GetArchiveReceipt,
];

/// The codes of calls that are not admitted. The calls here ask for nothing, so admitted ones may fail with others.
const REFUSALS: [ErrorCode; 11] = [
    ErrorCode::SignInRequired,
    ErrorCode::MissingApiKey,
    ErrorCode::InvalidApiKey,
    ErrorCode::ProjectNotFound,
    ErrorCode::ProjectArchived,
    ErrorCode::LiveAccessNotApproved,
    ErrorCode::FeatureDisabled,
    ErrorCode::InsufficientScope,
    ErrorCode::TestKeyRequired,
    ErrorCode::InsufficientRole,
    ErrorCode::RateLimited,
];

/// A person with a session, and their role in the project's organization.
struct Somebody {
    id: String,
    token: String,
    organization_id: String,
    role: Option<Role>,
}

/// A project, as the model knows it.
struct Known {
    id: String,
    is_approved: bool,
    is_archived: bool,
}

/// The code with which a call is not admitted, by the model.
fn expected(role: Option<Role>, project: &Known, live: bool, operation: Operation) -> Option<ErrorCode> {
    let Some(role) = role else { return Some(ErrorCode::ProjectNotFound) };
    if project.is_archived {
        Some(ErrorCode::ProjectArchived)
    } else if live && !project.is_approved {
        Some(ErrorCode::LiveAccessNotApproved)
    } else if NOT_ENABLED.contains(&operation) {
        Some(ErrorCode::FeatureDisabled)
    } else if live && operation == Operation::CreateTestThesis {
        Some(ErrorCode::TestKeyRequired)
    } else if role == Role::Viewer && CHANGES.contains(&operation) {
        Some(ErrorCode::InsufficientRole)
    } else {
        None
    }
}

/// Every operation that people call. Those of `Open` are edges, and people follow events by a ticket.
fn operations() -> impl Iterator<Item = Operation> {
    let others = [Operation::Open, Operation::Subscribe];
    Operation::ALL.iter().copied().filter(move |operation| !others.contains(operation))
}

/// The error of a call with headers and an empty message.
async fn refusal(routes: &Routes, operation: Operation, headers: &[(&str, &str)]) -> Option<ApiError> {
    let path = format!("/thesis.v1.{}", operation.name());
    let mut request = HttpRequest::post(path).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = routes.clone().oneshot(request.body(Body::from(vec![0; 5])).unwrap()).await.unwrap();
    let status = Status::from_header_map(answer.headers())?;
    (status.code() != tonic::Code::Ok).then(|| ApiError::from_status(&status))
}

/// The headers of a front end's call for a person.
fn headers<'a>(credential: &'a str, token: &'a str, project: &'a str, live: bool) -> [(&'a str, &'a str); 4] {
    let environment = if live { LIVE } else { thesis_proto::metadata::TEST };
    [(SERVICE_TOKEN, credential), (SESSION, token), (PROJECT, project), (ENVIRONMENT, environment)]
}

async fn somebody(core: &Core, number: usize, role: Option<Role>) -> Somebody {
    let message = v1::SignUpRequest {
        email: format!("{number}@example.com"),
        password: "correct horse battery".to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: None,
    };
    let signed_up = sign_up(core, None, &message).await.unwrap();
    let (session, organization_id) = (signed_up.session.unwrap(), signed_up.organization.unwrap().id);
    Somebody { id: session.user.unwrap().id, token: session.token, organization_id, role }
}

/// Gives people their roles in an organization.
async fn join(core: &Core, organization_id: &str, people: &[Somebody]) {
    let member = |somebody: &Somebody| {
        let (organization_id, user_id) = (organization_id.to_owned(), somebody.id.clone());
        let role = somebody.role?.into();
        Some(ControlChange::Member(Member { organization_id, user_id, role, ..Member::default() }))
    };
    let rows: Vec<_> = people.iter().filter_map(member).collect();
    let make = |_: &_| Ok((rows.clone(), ()));
    core.shared.control.change(Actor::service().does("test.filled"), make).await.unwrap();
}

/// Makes every call as everybody, and judges it by the model.
async fn judge(routes: &Routes, people: &[Somebody], project: &Known) {
    for somebody in people {
        for (operation, live) in operations().flat_map(|operation| [(operation, false), (operation, true)]) {
            let headers = headers(harness::SERVICE_TOKEN, &somebody.token, &project.id, live);
            let code = refusal(routes, operation, &headers).await.map(|error| error.code);
            let refused = code.filter(|code| REFUSALS.contains(code));
            let expected = expected(somebody.role, project, live, operation);
            let role = somebody.role;
            assert_eq!(refused, expected, "{} as {role:?}, live: {live}: {code:?}", operation.name());
        }
    }
}

async fn start() -> (Arc<Core>, Routes) {
    let clock = ManualClock::new();
    let core = harness::core(harness::memory(&clock), &clock, 0).await;
    let routes = services(&core);
    (core, routes)
}

async fn project_of(core: &Core, organization: &str) -> String {
    let message = v1::CreateProjectRequest { organization_id: organization.to_owned(), name: "Hive".to_owned() };
    let created = create_project(core, &Actor::operator(None), &message, None).await.unwrap();
    created.project.unwrap().id
}

#[tokio::test]
async fn members_call_what_their_role_allows_and_nobody_else_anything() {
    let (core, routes) = start().await;
    let mut people = Vec::new();
    for (number, role) in [Some(Role::Owner), Some(Role::Developer), Some(Role::Viewer), None].into_iter().enumerate() {
        people.push(somebody(&core, number, role).await);
    }
    let organization = people[0].organization_id.clone();
    join(&core, &organization, &people[1..]).await;
    let operator = Actor::operator(None);
    let id = project_of(&core, &organization).await;

    let mut project = Known { id, is_approved: false, is_archived: false };
    judge(&routes, &people, &project).await;
    approve_project(&core, &operator, &v1::ApproveProjectRequest { id: project.id.clone() }).await.unwrap();
    project.is_approved = true;
    judge(&routes, &people, &project).await;
    // Another role acts at once.
    people[1].role = Some(Role::Viewer);
    people[2].role = Some(Role::Developer);
    join(&core, &organization, &people[1..]).await;
    judge(&routes, &people, &project).await;
    withdraw_project(&core, &operator, &v1::WithdrawProjectRequest { id: project.id.clone(), reason: None })
        .await
        .unwrap();
    project.is_approved = false;
    judge(&routes, &people, &project).await;
    archive_project(&core, &operator, &v1::ArchiveProjectRequest { id: project.id.clone() }).await.unwrap();
    project.is_archived = true;
    judge(&routes, &people, &project).await;
}

#[tokio::test]
async fn a_session_counts_beside_the_service_credential_alone() {
    let (core, routes) = start().await;
    let owner = somebody(&core, 0, Some(Role::Owner)).await;
    let stranger = somebody(&core, 1, None).await;
    let project = project_of(&core, &owner.organization_id).await;
    let project = project.as_str();
    let code =
        async |operation, headers: &[(&str, &str)]| refusal(&routes, operation, headers).await.map(|error| error.code);
    for operation in operations() {
        let name = operation.name();
        let right = headers(harness::SERVICE_TOKEN, &owner.token, project, false);
        for guessed in ["", "a guessed service token of some length"] {
            let wrong = headers(guessed, &owner.token, project, false);
            assert_eq!(code(operation, &wrong[..]).await, Some(ErrorCode::MissingApiKey), "{name}");
        }
        assert_eq!(code(operation, &right[1..]).await, Some(ErrorCode::MissingApiKey), "{name}");
        // A session that is none, or is not told, is no reason to look for a key.
        for token in ["", "ses_usr_guessed_0123456789"] {
            let wrong = headers(harness::SERVICE_TOKEN, token, project, false);
            assert_eq!(code(operation, &wrong[..]).await, Some(ErrorCode::SignInRequired), "{name}");
        }
        let untold = [right[0], right[2], right[3]];
        assert_eq!(code(operation, &untold[..]).await, Some(ErrorCode::SignInRequired), "{name}");
        // A caller that names no project calls without a key, like an anonymous one.
        assert_eq!(code(operation, &right[..2]).await, Some(ErrorCode::MissingApiKey), "{name}");
        // A stranger cannot tell whether a project exists.
        let theirs = headers(harness::SERVICE_TOKEN, &stranger.token, project, false);
        let never = headers(harness::SERVICE_TOKEN, &owner.token, "prj_never", false);
        let theirs = refusal(&routes, operation, &theirs).await.unwrap();
        let never = refusal(&routes, operation, &never).await.unwrap();
        assert_eq!((theirs.code, theirs.message), (never.code, never.message), "{name}");
    }
}

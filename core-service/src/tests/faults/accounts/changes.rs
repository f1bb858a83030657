//! Changes of an organization, its project and its people. Clients repeat a request without a response.

use futures::future::LocalBoxFuture;
use thesis_proto::{
    error::ErrorCode,
    v1::{self, Role, account_service_server::AccountService, admin_service_server::AdminService},
};
use tonic::{Request, Response, Status};

use super::{
    OTHER, OWNER, PASSWORD, account, code, count_audit_rows, invitations, invited, organization, over, ready,
    signed_up, signed_up_and_confirmed,
};
use crate::{
    control::ControlState,
    grpc::Api,
    tests::faults::{
        requests::{person, service},
        world::World,
    },
};

const RENAMED: &str = "renamed";
const REASON: &str = "tell us more";

/// An organization with an owner, an invitation and a project.
struct Scene {
    /// The owner's session.
    owner: String,
    organization_id: String,
    project_id: String,
    invitation_id: String,
    /// Of the invitation's link.
    token: String,
    /// The other member's id, once there is one.
    other_id: String,
}

impl Scene {
    async fn new(world: &mut World) -> Self {
        let owner = signed_up_and_confirmed(world, OWNER).await;
        let organization_id = organization(world, &owner).await;
        let token = invited(world, &owner, &organization_id, OTHER).await;
        let invitation_id = invitations(world, &owner, &organization_id).await.remove(0).id;
        let request = || {
            let (organization_id, name) = (organization_id.clone(), "case".to_owned());
            person(v1::AccountServiceCreateProjectRequest { organization_id, name, once: None }, Some(&owner))
        };
        let created = world.ask(async |api: Api| AccountService::create_project(&api, request()).await).await.unwrap();
        let project_id = created.project.unwrap().id;
        Self { owner, organization_id, project_id, invitation_id, token, other_id: String::new() }
    }

    /// A request of the owner.
    fn asks<M>(&self, message: M) -> Request<M> {
        person(message, Some(&self.owner))
    }
}

type Ask = for<'a> fn(Api, &'a Scene) -> LocalBoxFuture<'a, Result<Response<()>, Status>>;

macro_rules! ask {
    ($service:ident::$method:ident, $scene:ident => $request:expr) => {
        |api, $scene| Box::pin(async move { $service::$method(&api, $request).await.map(|answer| answer.map(drop)) })
    };
}

const JOIN: Ask = ask!(AccountService::accept_invitation, scene => {
    let (token, password) = (scene.token.clone(), Some(PASSWORD.to_owned()));
    person(v1::AcceptInvitationRequest { token, password, ..v1::AcceptInvitationRequest::default() }, None)
});
const BECOME_ADMINISTRATOR: Ask = ask!(AdminService::set_administrator, _scene => {
    service(v1::SetAdministratorRequest { email: OWNER.to_owned(), administrator: true })
});
const REQUEST_LIVE: Ask = ask!(AccountService::request_live_access, scene => {
    scene.asks(v1::RequestLiveAccessRequest { project_id: scene.project_id.clone(), note: None })
});
const APPROVE: Ask = ask!(AdminService::approve_project, scene => {
    scene.asks(v1::ApproveProjectRequest { id: scene.project_id.clone() })
});

/// A change that is requested until there is a response.
struct ChangeCase {
    /// The request before it.
    first: &'static [Ask],
    ask: Ask,
    /// The error of a repeated request after the change; none if it succeeds.
    again: Option<ErrorCode>,
    /// Its action in the audit log.
    action: &'static str,
    /// Limit of its audit rows.
    max_rows: usize,
    is_done: fn(&ControlState, &Scene) -> bool,
}

async fn change(world: &mut World, case: &ChangeCase) {
    let mut scene = Scene::new(world).await;
    for ask in case.first {
        world.ask(|api| ask(api, &scene)).await.unwrap();
    }
    // It may be renamed.
    world.acknowledged.created.retain(|(kind, _)| *kind != "organization");
    let core = world.core().await;
    scene.other_id =
        core.shared.control.state().people().user_by_email(OTHER).map_or_else(String::new, |user| user.id.clone());
    drop(core);
    ready(world).await;
    let ask = async |api: Api| match (case.ask)(api, &scene).await {
        Err(status) if Some(code(&status)) == case.again => Ok(Response::new(())),
        answer => answer,
    };
    world.ask(ask).await.unwrap();
    over(world).await;
    let core = world.core().await;
    assert!((case.is_done)(&core.shared.control.state(), &scene), "{} is not done", case.action);
    let times = count_audit_rows(world, case.action).await;
    assert!((1..=case.max_rows).contains(&times), "{} is told {times} times", case.action);
}

macro_rules! changes {
    ($($name:ident: $case:expr;)*) => {
        $(pub(in crate::tests::faults) async fn $name(world: &mut World) {
            change(world, &$case).await;
        })*
    };
}

changes! {
    remove_member: ChangeCase {
        first: &[JOIN],
        ask: ask!(AccountService::remove_member, scene => {
            let (organization_id, user_id) = (scene.organization_id.clone(), scene.other_id.clone());
            scene.asks(v1::RemoveMemberRequest { organization_id, user_id })
        }),
        again: Some(ErrorCode::MemberNotFound),
        action: "member.removed",
        max_rows: 1,
        is_done: |state, scene| {
            let left: Vec<&str> = state.people().members(&scene.organization_id).map(|row| &*row.user_id).collect();
            left.len() == 1 && left[0] != scene.other_id
        },
    };
    delete_invitation: ChangeCase {
        first: &[],
        ask: ask!(AccountService::delete_invitation, scene => {
            scene.asks(v1::DeleteInvitationRequest { id: scene.invitation_id.clone() })
        }),
        again: Some(ErrorCode::InvitationNotFound),
        action: "invitation.withdrawn",
        max_rows: 1,
        is_done: |state, _| state.people().invitations().count() == 0,
    };
    update_organization: ChangeCase {
        first: &[],
        ask: ask!(AccountService::update_organization, scene => {
            let (id, name) = (scene.organization_id.clone(), RENAMED.to_owned());
            scene.asks(v1::UpdateOrganizationRequest { id, name, revision: Some(0) })
        }),
        // The person's own change.
        again: Some(ErrorCode::ChangedMeanwhile),
        action: "organization.renamed",
        max_rows: 1,
        is_done: |state, scene| {
            state.organization(&scene.organization_id).is_some_and(|row| row.name == RENAMED && row.revision == 1)
        },
    };
    update_project: ChangeCase {
        first: &[],
        ask: ask!(AccountService::update_project, scene => {
            let (id, name) = (scene.project_id.clone(), RENAMED.to_owned());
            scene.asks(v1::UpdateProjectRequest { id, name, revision: None })
        }),
        again: None,
        action: "project.renamed",
        max_rows: 1,
        is_done: |state, scene| {
            state.project(&scene.project_id).is_some_and(|row| row.name == RENAMED && row.revision == 1)
        },
    };
    request_live_access: ChangeCase {
        first: &[],
        ask: REQUEST_LIVE,
        again: None,
        action: "project.live_requested",
        max_rows: 1,
        is_done: |state, scene| {
            state.project(&scene.project_id).is_some_and(|row| row.live_requested_at.is_some() && row.revision == 1)
        },
    };
    refuse_project: ChangeCase {
        first: &[BECOME_ADMINISTRATOR, REQUEST_LIVE],
        ask: ask!(AdminService::refuse_project, scene => {
            let (id, reason) = (scene.project_id.clone(), REASON.to_owned());
            scene.asks(v1::RefuseProjectRequest { id, reason })
        }),
        again: None,
        action: "project.live_refused",
        max_rows: 1,
        is_done: |state, scene| {
            state.project(&scene.project_id).is_some_and(|row| {
                row.live_refusal.as_deref() == Some(REASON) && row.live_requested_at.is_none() && row.revision == 2
            })
        },
    };
    withdraw_project: ChangeCase {
        first: &[BECOME_ADMINISTRATOR, APPROVE],
        ask: ask!(AdminService::withdraw_project, scene => {
            scene.asks(v1::WithdrawProjectRequest { id: scene.project_id.clone(), reason: None })
        }),
        again: None,
        action: "project.live_withdrawn",
        // A repeated request cancels the deliveries up to that time.
        max_rows: 1,
        is_done: |state, scene| {
            state.project(&scene.project_id).is_some_and(|row| !row.live_approved && row.live_cancelled_until > 0)
        },
    };
    confirm_user: ChangeCase {
        first: &[JOIN],
        ask: ask!(AdminService::confirm_user, _scene => {
            service(v1::ConfirmUserRequest { email: OTHER.to_owned() })
        }),
        again: None,
        // The owner was confirmed before.
        action: "user.confirmed",
        max_rows: 2,
        is_done: |state, _| state.people().user_by_email(OTHER).is_some_and(|user| user.is_confirmed()),
    };
    set_administrator: ChangeCase {
        first: &[],
        ask: BECOME_ADMINISTRATOR,
        again: None,
        action: "user.administrator_made",
        max_rows: 1,
        is_done: |state, _| state.people().user_by_email(OWNER).is_some_and(|user| user.administrator),
    };
}

pub(in crate::tests::faults) async fn create_organization(world: &mut World) {
    let owner = signed_up(world, OWNER).await;
    ready(world).await;
    // People check before they repeat a request.
    loop {
        let owned = account(world, &owner).await.expect("a session").memberships;
        if owned.len() == 2 {
            assert!(owned.iter().all(|membership| membership.role() == Role::Owner), "{owned:?}");
            world.note_created("organization", "case");
            return;
        }
        assert_eq!(owned.len(), 1, "{owned:?}");
        let make = v1::AccountServiceCreateOrganizationRequest { name: "case".to_owned() };
        let make = async |api: Api| AccountService::create_organization(&api, person(make, Some(&owner))).await;
        world.ask_once(make).await;
    }
}

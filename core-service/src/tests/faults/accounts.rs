//! Use cases of people that write. After a lost response people sign in with the password that they chose, or check
//! before they repeat a request.

pub(super) mod changes;
pub(super) mod links;
pub(super) mod usage;

use std::collections::BTreeMap;

use prost::Message as _;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, Role, account_service_server::AccountService as _, admin_service_server::AdminService as _},
};
use tonic::Status;

use super::{
    requests::{person, service},
    stored::{audit_rows, logs},
    world::{World, ready},
    world_store::StoreKind,
};
use crate::{control::CONTROL_LOG, domain::account::Act, store::schema};

const OWNER: &str = "Owner@people.example";
const OTHER: &str = "other@people.example";
const PASSWORD: &str = "correct horse battery staple";
const NEW: &str = "a wholly new password";

fn code(status: &Status) -> ErrorCode {
    ApiError::from_status(status).code
}

/// The token at the end of a link.
fn token_of(link: &str) -> String {
    link.rsplit('/').next().unwrap().to_owned()
}

/// Signs up with an organization. If the answer was lost, the e-mail is taken and the password works.
async fn signed_up(world: &mut World, email: &str) -> String {
    let request = || {
        let (email, password) = (email.to_owned(), PASSWORD.to_owned());
        let organization_name = format!("of {email}");
        person(v1::SignUpRequest { email, password, organization_name, user_agent: None }, None)
    };
    let answer = world.ask(async |api| api.sign_up(request()).await).await;
    world.note_created("user", email);
    world.note_created("organization", &format!("of {email}"));
    match answer {
        Ok(answer) => answer.session.unwrap().token,
        Err(status) => {
            assert_eq!(code(&status), ErrorCode::EmailTaken, "{status:?}");
            signed_in(world, email, PASSWORD).await.expect("the password that was chosen")
        }
    }
}

/// Signs up, and has an operator confirm the e-mail.
async fn signed_up_and_confirmed(world: &mut World, email: &str) -> String {
    let session = signed_up(world, email).await;
    let request = || service(v1::ConfirmUserRequest { email: email.to_owned() });
    world.ask(async |api| api.confirm_user(request()).await).await.unwrap();
    session
}

/// The use case is over: later checks do not fail.
async fn over(world: &mut World) {
    world.idle().await;
    world.process.rest();
}

/// Counts the audit rows of an action, including those that are not projected yet.
async fn count_audit_rows(world: &World, action: &str) -> usize {
    let store = &*world.store.rows().await;
    let rows = store.all(&schema::AUDIT).into_iter();
    let mut rows: BTreeMap<String, _> = rows.map(|(key, row)| (format!("{key:?}"), row.body)).collect();
    let log = logs(store).remove(CONTROL_LOG).unwrap_or_default();
    rows.extend(audit_rows(&log).into_iter().map(|(key, (_, body))| (key, body)));
    rows.into_values().filter(|body| Act::decode(body.clone()).unwrap().action == action).count()
}

async fn signed_in(world: &mut World, email: &str, password: &str) -> Result<String, ErrorCode> {
    let request = || {
        let (email, password) = (email.to_owned(), password.to_owned());
        person(v1::SignInRequest { email, password, user_agent: None, device: None }, None)
    };
    let answer = world.ask(async |api| api.sign_in(request()).await).await;
    answer.map(|answer| answer.session.unwrap().token).map_err(|status| code(&status))
}

/// Reads the user of a session, with their organizations; none if it has ended.
async fn account(world: &mut World, session: &str) -> Option<v1::GetAccountResponse> {
    let request = || person(v1::GetAccountRequest {}, Some(session));
    match world.ask(async |api| api.get_account(request()).await).await {
        Ok(account) => Some(account),
        Err(status) => {
            assert_eq!(code(&status), ErrorCode::SignInRequired, "{status:?}");
            None
        }
    }
}

/// The one organization of a user.
async fn organization(world: &mut World, session: &str) -> String {
    let memberships = account(world, session).await.expect("a session").memberships;
    assert_eq!(memberships.len(), 1, "{memberships:?}");
    memberships[0].organization.clone().unwrap().id
}

async fn members(world: &mut World, session: &str, organization_id: &str) -> Vec<v1::Member> {
    let request = || person(v1::ListMembersRequest { organization_id: organization_id.to_owned() }, Some(session));
    world.ask(async |api| api.list_members(request()).await).await.unwrap().data
}

/// Invites somebody; returns the token of the link.
async fn invited(world: &mut World, session: &str, organization_id: &str, email: &str) -> String {
    let request = || {
        let (organization_id, email) = (organization_id.to_owned(), email.to_owned());
        person(v1::CreateInvitationRequest { organization_id, email, role: Role::Developer.into() }, Some(session))
    };
    let created = world.ask(async |api| api.create_invitation(request()).await).await.unwrap();
    token_of(&created.link.unwrap())
}

async fn invitations(world: &mut World, session: &str, organization_id: &str) -> Vec<v1::Invitation> {
    let request = || person(v1::ListInvitationsRequest { organization_id: organization_id.to_owned() }, Some(session));
    world.ask(async |api| api.list_invitations(request()).await).await.unwrap().data
}

pub(super) async fn sign_up(world: &mut World) {
    ready(world).await;
    let session = signed_up(world, OWNER).await;
    over(world).await;
    organization(world, &session).await;
    // An account can be used from anywhere, later too.
    let again = signed_in(world, OWNER, PASSWORD).await.unwrap();
    organization(world, &again).await;
}

pub(super) async fn sign_in(world: &mut World) {
    let first = signed_up(world, OWNER).await;
    ready(world).await;
    let session = signed_in(world, OWNER, PASSWORD).await.unwrap();
    over(world).await;
    for session in [first, session] {
        assert!(account(world, &session).await.is_some());
    }
}

pub(super) async fn fail_to_sign_in(world: &mut World) {
    signed_up(world, OWNER).await;
    ready(world).await;
    for _ in 0..3 {
        assert_eq!(signed_in(world, OWNER, NEW).await, Err(ErrorCode::SignInFailed));
    }
    signed_in(world, OWNER, PASSWORD).await.unwrap();
}

pub(super) async fn accept_invitation(world: &mut World) {
    let owner = signed_up_and_confirmed(world, OWNER).await;
    let organization_id = organization(world, &owner).await;
    let token = invited(world, &owner, &organization_id, OTHER).await;
    ready(world).await;
    let request = || {
        let (token, password) = (token.clone(), Some(PASSWORD.to_owned()));
        person(v1::AcceptInvitationRequest { token, password, ..v1::AcceptInvitationRequest::default() }, None)
    };
    let answer = world.ask(async |api| api.accept_invitation(request()).await).await;
    over(world).await;
    if let Err(status) = answer {
        assert!([ErrorCode::LinkNotFound, ErrorCode::SignInRequired].contains(&code(&status)), "{status:?}");
    }
    world.note_created("user", OTHER);
    let session = signed_in(world, OTHER, PASSWORD).await.expect("the password that was chosen");
    assert_eq!(organization(world, &session).await, organization_id);
    assert_eq!(members(world, &owner, &organization_id).await.len(), 2);
    assert!(invitations(world, &owner, &organization_id).await.is_empty());
}

pub(super) async fn join(world: &mut World) {
    let owner = signed_up_and_confirmed(world, OWNER).await;
    let organization_id = organization(world, &owner).await;
    let other = signed_up_and_confirmed(world, OTHER).await;
    let token = invited(world, &owner, &organization_id, OTHER).await;
    ready(world).await;
    let request = || {
        person(
            v1::AcceptInvitationRequest { token: token.clone(), ..v1::AcceptInvitationRequest::default() },
            Some(&other),
        )
    };
    let answer = world.ask(async |api| api.accept_invitation(request()).await).await;
    over(world).await;
    assert!(answer.is_ok() || answer.is_err_and(|status| code(&status) == ErrorCode::LinkNotFound));
    assert_eq!(members(world, &owner, &organization_id).await.len(), 2);
    assert_eq!(account(world, &other).await.unwrap().memberships.len(), 2);
}

pub(super) async fn reset_password(world: &mut World) {
    let old = signed_up(world, OWNER).await;
    let make = || service(v1::CreateResetLinkRequest { email: OWNER.to_owned(), keep_memberships: true });
    let created = world.ask(async |api| api.create_reset_link(make()).await).await.unwrap();
    let token = token_of(&created.link);
    ready(world).await;
    let request = |password: &str| {
        let (token, password) = (token.clone(), password.to_owned());
        person(v1::ResetPasswordRequest { token, password, user_agent: None }, None)
    };
    let answer = world.ask(async |api| api.reset_password(request(NEW)).await).await;
    over(world).await;
    if let Err(status) = answer {
        assert_eq!(code(&status), ErrorCode::LinkNotFound, "{status:?}");
    }
    has_new_password(world, &old).await;
    let again = world.ask(async |api| api.reset_password(request(PASSWORD)).await).await.unwrap_err();
    assert_eq!(code(&again), ErrorCode::LinkNotFound);
}

pub(super) async fn make_reset_link(world: &mut World) {
    signed_up(world, OWNER).await;
    ready(world).await;
    let make = || service(v1::CreateResetLinkRequest { email: OWNER.to_owned(), keep_memberships: true });
    let created = world.ask(async |api| api.create_reset_link(make()).await).await.unwrap();
    // The link in the response works.
    let request = || {
        let (token, password) = (token_of(&created.link), NEW.to_owned());
        person(v1::ResetPasswordRequest { token, password, user_agent: None }, None)
    };
    over(world).await;
    world.ask(async |api| api.reset_password(request()).await).await.unwrap();
}

pub(super) async fn change_password(world: &mut World) {
    let old = signed_up(world, OWNER).await;
    ready(world).await;
    let request = || {
        let (current_password, password) = (PASSWORD.to_owned(), NEW.to_owned());
        person(v1::ChangePasswordRequest { current_password, password, user_agent: None }, Some(&old))
    };
    let answer = world.ask(async |api| api.change_password(request()).await).await;
    over(world).await;
    match answer {
        Ok(answer) => assert!(account(world, &answer.session.unwrap().token).await.is_some()),
        // The password changed, which ended the session, and the response was lost.
        Err(status) => assert_eq!(code(&status), ErrorCode::SignInRequired, "{status:?}"),
    }
    has_new_password(world, &old).await;
}

/// Checks that only the new password works, and that an old session has ended.
async fn has_new_password(world: &mut World, old: &str) {
    assert!(account(world, old).await.is_none());
    assert_eq!(signed_in(world, OWNER, PASSWORD).await, Err(ErrorCode::SignInFailed));
    let session = signed_in(world, OWNER, NEW).await.unwrap();
    organization(world, &session).await;
}

pub(super) async fn create_invitation(world: &mut World) {
    let owner = signed_up_and_confirmed(world, OWNER).await;
    let organization_id = organization(world, &owner).await;
    ready(world).await;
    // People check before they repeat a request.
    loop {
        let open = invitations(world, &owner, &organization_id).await;
        if let [invitation] = &open[..] {
            assert_eq!((invitation.email.as_str(), invitation.role()), (OTHER, Role::Developer));
            return;
        }
        assert!(open.is_empty(), "{open:?}");
        let (organization_id, email) = (organization_id.clone(), OTHER.to_owned());
        let make = v1::CreateInvitationRequest { organization_id, email, role: Role::Developer.into() };
        world.ask_once(async |api| api.create_invitation(person(make, Some(&owner))).await).await;
    }
}

pub(super) async fn update_member(world: &mut World) {
    let owner = signed_up_and_confirmed(world, OWNER).await;
    let organization_id = organization(world, &owner).await;
    let other = signed_up_and_confirmed(world, OTHER).await;
    let token = invited(world, &owner, &organization_id, OTHER).await;
    let join = || {
        person(
            v1::AcceptInvitationRequest { token: token.clone(), ..v1::AcceptInvitationRequest::default() },
            Some(&other),
        )
    };
    world.ask(async |api| api.accept_invitation(join()).await).await.unwrap();
    let user_id = account(world, &other).await.unwrap().user.unwrap().id;
    ready(world).await;
    let request = || {
        let (organization_id, user_id) = (organization_id.clone(), user_id.clone());
        let role = Role::Viewer.into();
        person(v1::UpdateMemberRequest { organization_id, user_id, role, revision: None }, Some(&owner))
    };
    let changed = world.ask(async |api| api.update_member(request()).await).await.unwrap().member.unwrap();
    over(world).await;
    assert_eq!(changed.role(), Role::Viewer);
    let listed = members(world, &owner, &organization_id).await;
    let roles: Vec<Role> = listed.iter().map(v1::Member::role).collect();
    // By e-mail.
    assert_eq!(roles, [Role::Viewer, Role::Owner]);
}

pub(super) async fn revoke_session(world: &mut World) {
    let first = signed_up(world, OWNER).await;
    let second = signed_in(world, OWNER, PASSWORD).await.unwrap();
    let id = account(world, &second).await.unwrap().session.unwrap().id;
    ready(world).await;
    let request = || person(v1::RevokeSessionRequest { id: id.clone() }, Some(&first));
    let answer = world.ask(async |api| api.revoke_session(request()).await).await;
    over(world).await;
    assert!(answer.is_ok() || answer.is_err_and(|status| code(&status) == ErrorCode::SessionNotFound));
    assert!(account(world, &second).await.is_none());
    assert!(account(world, &first).await.is_some());
}

pub(super) async fn sign_out(world: &mut World) {
    let first = signed_up(world, OWNER).await;
    let second = signed_in(world, OWNER, PASSWORD).await.unwrap();
    ready(world).await;
    let request = || person(v1::SignOutRequest {}, Some(&second));
    let answer = world.ask(async |api| api.sign_out(request()).await).await;
    over(world).await;
    assert!(answer.is_ok() || answer.is_err_and(|status| code(&status) == ErrorCode::SignInRequired));
    assert!(account(world, &second).await.is_none());
    assert!(account(world, &first).await.is_some());
    // With many writers the audit log is written after it, and may miss it.
    let min = usize::from(world.store.kind() != StoreKind::Shared);
    assert!((min..=1).contains(&count_audit_rows(world, "session.ended").await));
}

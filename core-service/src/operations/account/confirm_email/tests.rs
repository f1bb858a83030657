//! Proofs of an e-mail, and limits of a person whose e-mail is not proven.

use std::sync::Arc;

use super::*;
use crate::{
    accounts::{
        resets::{self, MAILED},
        sessions,
    },
    control::CONTROL_LOG,
    domain::{
        account::{Actor, CONFIRMATION_MS, Member, OPERATOR, Role, User},
        id,
    },
    operations::{
        account::{
            create_invitation::create_invitation, get_link::get_link, remove_member::remove_member,
            request_live_access::request_live_access, reset_password::reset_password,
            send_confirmation::send_confirmation, sign_in::sign_in, sign_up::sign_up, update_member::update_member,
        },
        admin::{
            create_organization::found_organization, create_project::create_project, list_audit_log::list_audit_log,
        },
    },
    tests::harness::{ManualClock, SharedMemory, core, shared_memory},
};

const PASSWORD: &str = "correct horse battery";
const NEW: &str = "another battery";
/// A link of an operator who does not vouch for memberships.
const HANDED_OVER: (Option<&str>, bool) = (Some(OPERATOR), false);

fn code<T>(outcome: Result<T>) -> Option<ErrorCode> {
    outcome.err().map(|error| error.api.code)
}

/// Signs up; gives the session's person and their organization.
async fn signed_up(core: &Core, email: &str) -> (Person, String) {
    let request = v1::SignUpRequest {
        email: email.to_owned(),
        password: PASSWORD.to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: None,
    };
    let answer = sign_up(core, None, &request).await.unwrap();
    let person = sessions::admit(&core.shared, Some(&answer.session.unwrap().token), None).await.unwrap();
    (person, answer.organization.unwrap().id)
}

fn stored(core: &Core, person: &Person) -> User {
    User::clone(core.shared.control.state().people().user(&person.user.id).unwrap())
}

/// Confirms the e-mail of a person by the link that is mailed to them.
async fn confirm(core: &Core, person: &Person) -> Result<v1::ConfirmEmailResponse> {
    let token = confirmations::token(&core.shared, &person.user);
    confirm_email(core, person, &v1::ConfirmEmailRequest { token }).await
}

async fn invite(core: &Core, person: &Person, organization: &str, email: &str) -> Result<v1::CreateInvitationResponse> {
    let (organization_id, email) = (organization.to_owned(), email.to_owned());
    let request = v1::CreateInvitationRequest { organization_id, email, role: v1::Role::Viewer.into() };
    create_invitation(core, person, &request).await
}

/// Makes a person a member of an organization.
async fn add_member(core: &Core, organization: &str, person: &Person, role: Role) {
    let member = Member {
        organization_id: organization.to_owned(),
        user_id: person.user.id.clone(),
        role: role.into(),
        ..Member::default()
    };
    let add = |_: &ControlState| Ok((vec![ControlChange::Member(member.clone())], ()));
    core.shared.control.change(Actor::operator(None).does("test.member_added"), add).await.unwrap();
}

fn open_invitations(core: &Core) -> usize {
    core.shared.control.state().people().invitations().count()
}

/// A request that uses a new link for a password.
async fn new_reset(core: &Core, person: &Person, creator: (Option<&str>, bool)) -> v1::ResetPasswordRequest {
    let token = resets::create_link(&core.shared, &person.user, creator, Vec::new()).await.unwrap().0;
    v1::ResetPasswordRequest { token, password: NEW.to_owned(), user_agent: None }
}

/// Resets a password by a new link.
async fn reset(core: &Core, person: &Person, creator: (Option<&str>, bool)) -> v1::GetLinkResponse {
    let request = new_reset(core, person, creator).await;
    let link = get_link(core, None, &v1::GetLinkRequest { token: request.token.clone() }).await.unwrap();
    let session = reset_password(core, None, &request).await.unwrap().session.unwrap();
    assert!(session.user.unwrap().email_confirmed_at.is_some());
    link
}

#[tokio::test]
async fn a_link_confirms_its_own_e_mail_for_a_day() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let (ada, _) = signed_up(&core, "Ada@example.com").await;
    let token = confirmations::token(&core.shared, &ada.user);
    let link = get_link(&core, None, &v1::GetLinkRequest { token: token.clone() }).await.unwrap();
    assert_eq!((link.purpose(), link.email.as_deref()), (v1::LinkPurpose::Confirmation, Some("Ada@example.com")));
    assert!(!stored(&core, &ada).is_confirmed(), "reading a link does not use it");
    let other = User { email: "bob@example.com".to_owned(), ..User::clone(&ada.user) };
    let unknown = User { id: id::random("usr_", core.shared.ids.as_ref()), ..User::clone(&ada.user) };
    for wrong in [
        confirmations::token(&core.shared, &other),
        confirmations::token(&core.shared, &unknown),
        new_reset(&core, &ada, MAILED).await.token,
        token.replacen("usr_", "usr_0", 1),
        String::new(),
    ] {
        let refused = confirm_email(&core, &ada, &v1::ConfirmEmailRequest { token: wrong }).await;
        assert_eq!(code(refused), Some(ErrorCode::LinkNotFound));
    }
    // Whoever signed up confirms. The session of another user, who may read the mail, confirms no account of a stranger.
    let (bob, _) = signed_up(&core, "bob@example.com").await;
    let request = v1::ConfirmEmailRequest { token: token.clone() };
    assert_eq!(code(confirm_email(&core, &bob, &request).await), Some(ErrorCode::InsufficientRole));
    assert!(!stored(&core, &ada).is_confirmed() && !stored(&core, &bob).is_confirmed());
    for _ in 0..2 {
        let confirmed = confirm_email(&core, &ada, &request).await.unwrap().user.unwrap();
        assert_eq!(confirmed.email_confirmed_at, confirmed.created_at);
        clock.advance(1);
    }
    let late = confirmations::token(&core.shared, &bob.user);
    clock.advance(CONFIRMATION_MS);
    core.shared.control.catch_up().await.unwrap();
    assert_eq!(
        code(confirm_email(&core, &bob, &v1::ConfirmEmailRequest { token: late }).await),
        Some(ErrorCode::LinkNotFound)
    );
}

#[tokio::test]
async fn who_is_not_confirmed_neither_invites_nor_asks_for_live_access() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let (ada, organization) = signed_up(&core, "ada@example.com").await;
    let request = v1::CreateProjectRequest { organization_id: organization.clone(), name: "Hive".to_owned() };
    let project = create_project(&core, &ada.actor, &request, None).await.unwrap().project.unwrap();
    let live = v1::RequestLiveAccessRequest { project_id: project.id, note: None };
    assert_eq!(code(invite(&core, &ada, &organization, "bob@example.com").await), Some(ErrorCode::EmailNotConfirmed));
    assert_eq!(code(request_live_access(&core, &ada, &live).await), Some(ErrorCode::EmailNotConfirmed));
    // This core sends no mail, so an operator confirms.
    let sent = send_confirmation(&core, &ada, &v1::SendConfirmationRequest {}).await;
    assert_eq!(code(sent), Some(ErrorCode::EmailNotConfirmed));
    confirm(&core, &ada).await.unwrap();
    send_confirmation(&core, &ada, &v1::SendConfirmationRequest {}).await.unwrap();
    invite(&core, &ada, &organization, "bob@example.com").await.unwrap();
    request_live_access(&core, &ada, &live).await.unwrap();
}

#[tokio::test]
async fn the_holder_of_an_address_takes_over_nothing_that_a_stranger_set_up() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let (one, other) = (core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await);
    let (squatter, organization) = signed_up(&one, "ada@example.com").await;
    let founded = v1::AccountServiceCreateOrganizationRequest { name: "Another".to_owned() };
    found_organization(&one, &squatter, &founded).await.unwrap();
    let link = reset(&other, &squatter, MAILED).await;
    assert!(link.ends_memberships);
    let memberships = |person: &Person| {
        other.shared.control.state().people().memberships(&person.user.id).map(|row| row.role()).collect::<Vec<_>>()
    };
    assert!(memberships(&squatter).is_empty());
    // The organization stays, and its audit log says that it has lost its member.
    let request = v1::ListAuditLogRequest { organization_id: Some(organization.clone()), limit: None, cursor: None };
    let newest = list_audit_log(&other, &Actor::operator(None), &request).await.unwrap().data.remove(0);
    assert_eq!((newest.action.as_str(), &newest.actor), ("member.left", &squatter.user.id));
    assert_eq!(newest.subject, format!("{organization}/{}", squatter.user.id));

    // The user of a confirmed e-mail keeps everything.
    let (bob, _) = signed_up(&other, "bob@example.com").await;
    confirm(&other, &bob).await.unwrap();
    assert!(!reset(&other, &bob, MAILED).await.ends_memberships);
    assert_eq!(memberships(&bob), [Role::Owner]);
    // An operator who hands a link over decides about the memberships.
    let (eve, _) = signed_up(&other, "eve@example.com").await;
    let keeping = (Some(OPERATOR), true);
    assert!(!reset(&other, &eve, keeping).await.ends_memberships);
    assert_eq!(memberships(&eve), [Role::Owner]);
    let (kim, _) = signed_up(&other, "kim@example.com").await;
    assert!(reset(&other, &kim, HANDED_OVER).await.ends_memberships);
    assert!(memberships(&kim).is_empty());
}

#[tokio::test]
async fn a_sign_in_finishes_a_takeover_that_a_crash_broke_off() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = core(store.clone(), &clock, 1).await;
    let (squatter, _) = signed_up(&core, "ada@example.com").await;
    let request = new_reset(&core, &squatter, MAILED).await;
    // The password is set, and the change of the control log fails.
    store.refuse(Some(CONTROL_LOG.to_owned()));
    assert!(reset_password(&core, None, &request).await.is_err());
    store.refuse(None);
    assert!(!stored(&core, &squatter).is_confirmed());
    let email = squatter.user.email.clone();
    let request = v1::SignInRequest { email, password: NEW.to_owned(), user_agent: None, device: None };
    let session = sign_in(&core, None, &request).await.unwrap().session.unwrap();
    assert!(session.user.unwrap().email_confirmed_at.is_some());
    assert_eq!(core.shared.control.state().people().memberships(&squatter.user.id).count(), 0);
}

#[tokio::test]
async fn the_invitations_of_a_former_owner_end() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let (ada, organization) = signed_up(&core, "ada@example.com").await;
    confirm(&core, &ada).await.unwrap();
    let (bob, _) = signed_up(&core, "bob@example.com").await;
    confirm(&core, &bob).await.unwrap();
    add_member(&core, &organization, &bob, Role::Owner).await;
    invite(&core, &ada, &organization, "kept@example.com").await.unwrap();
    invite(&core, &bob, &organization, "one@example.com").await.unwrap();
    invite(&core, &bob, &organization, "two@example.com").await.unwrap();
    let (organization_id, user_id) = (organization.clone(), bob.user.id.clone());
    let role = v1::Role::Developer.into();
    let change = v1::UpdateMemberRequest { organization_id, user_id, role, revision: None };
    update_member(&core, &ada, &change).await.unwrap();
    assert_eq!(open_invitations(&core), 1);

    update_member(&core, &ada, &v1::UpdateMemberRequest { role: v1::Role::Owner.into(), ..change }).await.unwrap();
    invite(&core, &bob, &organization, "three@example.com").await.unwrap();
    let remove = v1::RemoveMemberRequest { organization_id: organization, user_id: bob.user.id.clone() };
    remove_member(&core, &ada, &remove).await.unwrap();
    assert_eq!(open_invitations(&core), 1);
}

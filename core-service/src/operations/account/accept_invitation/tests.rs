//! Invitations and the set-up link: once, for whom they are meant, whoever races.

use super::*;
use crate::{
    accounts::AccountSettings,
    domain::account::{Actor, INVITATION_MS},
    operations::{
        account::{get_link::get_link, set_up::set_up_link, sign_up::sign_up},
        admin::{create_user::create_user, set_administrator::set_administrator},
    },
    start::CoreSettings,
    tests::harness::{ManualClock, core, ids, settings, shared_memory},
};

const PASSWORD: &str = "correct horse battery";

async fn two() -> (Arc<ManualClock>, [Arc<Core>; 2]) {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let cores = [core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await];
    (clock, cores)
}

fn token_of(link: &str) -> String {
    link.rsplit('/').next().unwrap().to_owned()
}

fn accepting(token: &str, email: Option<&str>) -> v1::AcceptInvitationRequest {
    v1::AcceptInvitationRequest {
        token: token.to_owned(),
        email: email.map(str::to_owned),
        password: Some(PASSWORD.to_owned()),
        user_agent: None,
    }
}

fn code<T>(outcome: Result<T>) -> Option<ErrorCode> {
    outcome.err().map(|error| error.api.code)
}

async fn invite(core: &Core, email: &str, administrator: bool) -> String {
    let request = v1::CreateUserRequest { email: email.to_owned(), administrator };
    token_of(&create_user(core, &Actor::operator(None), &request).await.unwrap().link)
}

/// Mails an invitation to the organization of the bootstrap keys.
async fn invite_as(core: &Core, email: &str, role: Role) -> String {
    invite_by(core, email, role, true).await
}

async fn invite_by(core: &Core, email: &str, role: Role, mailed: bool) -> String {
    let invitation = Invitation {
        id: id::random("inv_", core.shared.ids.as_ref()),
        organization_id: Some(id::derive("org_", &["default"])),
        email: Some(email.to_owned()),
        role: role.into(),
        administrator: false,
        created_at: core.shared.clock.now_ms(),
        expires_at: Some(core.shared.clock.now_ms() + INVITATION_MS),
        creator: "usr_owner".to_owned(),
        mailed,
    };
    let make = |_: &ControlState| Ok((vec![ControlChange::Invitation(invitation.clone())], ()));
    core.shared.control.change(Actor::operator(None).does("invitation.created"), make).await.unwrap();
    core.shared.keys.link_token(&invitation.id)
}

async fn person(core: &Core, token: &str) -> Person {
    sessions::admit(&core.shared, Some(token), None).await.unwrap()
}

async fn signed_up(core: &Core, email: &str) -> Person {
    let request = v1::SignUpRequest {
        email: email.to_owned(),
        password: PASSWORD.to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: None,
    };
    let session = sign_up(core, None, &request).await.unwrap().session.unwrap();
    person(core, &session.token).await
}

#[tokio::test]
async fn the_set_up_link_makes_one_administrator_who_owns_the_first_organization() {
    let (_clock, [one, other]) = two().await;
    let link = set_up_link(&one).await.unwrap().unwrap();
    assert_eq!(set_up_link(&other).await.unwrap().as_deref(), Some(&*link));
    let token = token_of(&link);
    let link = get_link(&other, None, &v1::GetLinkRequest { token: token.clone() }).await.unwrap();
    assert_eq!((link.purpose(), link.email), (v1::LinkPurpose::SetUp, None));
    assert_eq!((link.organization_name.as_deref(), link.role), (Some("default"), v1::Role::Owner.into()));
    let nameless = accept_invitation(&one, None, None, &accepting(&token, None)).await.unwrap_err();
    assert_eq!(nameless.api.param.as_deref(), Some("email"));

    let (ada, bob) = (accepting(&token, Some("ada@example.com")), accepting(&token, Some("bob@example.com")));
    let outcomes = tokio::join!(accept_invitation(&one, None, None, &ada), accept_invitation(&other, None, None, &bob));
    let (accepted, lost) = if outcomes.0.is_ok() { (outcomes.0, outcomes.1) } else { (outcomes.1, outcomes.0) };
    assert_eq!(code(lost), Some(ErrorCode::LinkNotFound));
    let accepted = accepted.unwrap();
    assert!(accepted.session.unwrap().user.unwrap().administrator);
    assert_eq!(accepted.organization.unwrap().name, "default");
    one.shared.control.catch_up().await.unwrap();
    let member = {
        let state = one.shared.control.state();
        assert_eq!((state.people().users().count(), state.people().invitations().count()), (1, 0));
        let user = state.people().users().next().unwrap();
        state.people().member(&id::derive("org_", &["default"]), &user.id).unwrap().clone()
    };
    assert_eq!((member.role(), member.founder), (Role::Owner, false));
    assert_eq!(set_up_link(&one).await.unwrap(), None);
}

#[tokio::test]
async fn an_invited_administrator_withdraws_the_set_up_link() {
    let (_clock, [one, other]) = two().await;
    let set_up = token_of(&set_up_link(&one).await.unwrap().unwrap());
    let replaced = invite(&one, "Ada@example.com", false).await;
    let invited = invite(&other, "ada@example.com", true).await;
    let outcome = accept_invitation(&one, None, None, &accepting(&replaced, None)).await;
    assert_eq!(code(outcome), Some(ErrorCode::LinkNotFound));
    let accepted = accept_invitation(&one, None, None, &accepting(&invited, None)).await.unwrap();
    assert_eq!((accepted.organization, accepted.session.unwrap().user.unwrap().administrator), (None, true));
    let outcome = accept_invitation(&other, None, None, &accepting(&set_up, Some("bob@example.com"))).await;
    assert_eq!(code(outcome), Some(ErrorCode::LinkNotFound));
    other.shared.control.catch_up().await.unwrap();
    assert_eq!(other.shared.control.state().people().invitations().count(), 0);
    let request = v1::CreateUserRequest { email: "ADA@EXAMPLE.COM".to_owned(), administrator: false };
    let outcome = create_user(&other, &Actor::operator(None), &request).await;
    assert_eq!(code(outcome), Some(ErrorCode::EmailTaken));
}

#[tokio::test]
async fn an_invitation_is_for_its_e_mail_and_works_once_for_a_week() {
    let (clock, [one, other]) = two().await;
    let token = invite_as(&one, "Ada@example.com", Role::Developer).await;
    let bob = signed_up(&one, "bob@example.com").await;
    let outcome = accept_invitation(&other, Some(&bob), None, &accepting(&token, None)).await;
    assert_eq!(code(outcome), Some(ErrorCode::InsufficientRole));
    let ada = signed_up(&other, "ada@Example.com").await;
    let outcome = accept_invitation(&one, None, None, &accepting(&token, None)).await;
    assert_eq!(code(outcome), Some(ErrorCode::SignInRequired));
    let request = accepting(&token, None);
    let outcomes = tokio::join!(
        accept_invitation(&one, Some(&ada), None, &request),
        accept_invitation(&other, Some(&ada), None, &request)
    );
    let (won, lost) = if outcomes.0.is_ok() { (outcomes.0, outcomes.1) } else { (outcomes.1, outcomes.0) };
    assert_eq!(won.unwrap().session, None);
    assert_eq!(code(lost), Some(ErrorCode::LinkNotFound));

    let late = invite_as(&one, "eve@example.com", Role::Viewer).await;
    let no_password = v1::AcceptInvitationRequest { password: None, ..accepting(&late, None) };
    let error = accept_invitation(&one, None, None, &no_password).await.unwrap_err();
    assert_eq!((error.api.code, error.api.param.as_deref()), (ErrorCode::ValidationFailed, Some("password")));
    clock.advance(INVITATION_MS);
    one.shared.control.catch_up().await.unwrap();
    let outcome = accept_invitation(&one, None, None, &accepting(&late, None)).await;
    assert_eq!(code(outcome), Some(ErrorCode::LinkNotFound));
}

#[tokio::test]
async fn an_invitation_raises_a_role_and_never_lowers_it() {
    let (_clock, [one, other]) = two().await;
    let ada = signed_up(&one, "ada@example.com").await;
    let organization = id::derive("org_", &["default"]);
    for (invited, role) in [
        (Role::Developer, Role::Developer),
        (Role::Viewer, Role::Developer),
        (Role::Owner, Role::Owner),
        (Role::Developer, Role::Owner),
    ] {
        let token = invite_as(&one, "ada@example.com", invited).await;
        accept_invitation(&other, Some(&ada), None, &accepting(&token, None)).await.unwrap();
        let has = other.shared.control.state().people().member(&organization, &ada.user.id).unwrap().role();
        assert_eq!(has, role);
    }
}

#[tokio::test]
async fn a_mailed_link_confirms_and_a_handed_over_one_joins_nobody_unconfirmed() {
    let (_clock, [one, other]) = two().await;
    let ada = signed_up(&one, "ada@example.com").await;
    let handed_over = invite_by(&one, "ada@example.com", Role::Viewer, false).await;
    let refused = accept_invitation(&other, Some(&ada), None, &accepting(&handed_over, None)).await;
    assert_eq!(code(refused), Some(ErrorCode::EmailNotConfirmed));
    let is_confirmed = |core: &Core, email: &str| {
        core.shared.control.state().people().user_by_email(email).is_some_and(|user| user.is_confirmed())
    };
    assert!(!is_confirmed(&other, "ada@example.com"));
    let mailed = invite_by(&one, "ada@example.com", Role::Viewer, true).await;
    accept_invitation(&other, Some(&ada), None, &accepting(&mailed, None)).await.unwrap();
    assert!(is_confirmed(&other, "ada@example.com"));
    accept_invitation(&other, Some(&ada), None, &accepting(&handed_over, None)).await.unwrap();

    // A new user joins by either link, and is confirmed by the mailed one.
    for (email, mailed) in [("bob@example.com", false), ("eve@example.com", true)] {
        let token = invite_by(&one, email, Role::Owner, mailed).await;
        let joined = accept_invitation(&other, None, None, &accepting(&token, None)).await.unwrap();
        let user = joined.session.unwrap().user.unwrap();
        assert_eq!((joined.organization.is_some(), user.email_confirmed_at.is_some()), (true, mailed), "{email}");
    }
    // An operator vouches for whom they let in.
    let token = invite(&one, "kim@example.com", false).await;
    accept_invitation(&other, None, None, &accepting(&token, None)).await.unwrap();
    assert!(is_confirmed(&other, "kim@example.com"));
}

#[tokio::test]
async fn who_loses_the_right_to_invite_strangers_while_one_accepts_lets_nobody_in() {
    let clock = ManualClock::new();
    let accounts = AccountSettings { invited_only: true, ..settings().accounts };
    let settings = CoreSettings { accounts, ..settings() };
    let core = Core::start(shared_memory(&clock), settings, clock.clone(), ids(1)).await.unwrap();
    for email in ["ada@example.com", "bob@example.com"] {
        let token = invite(&core, email, true).await;
        accept_invitation(&core, None, None, &accepting(&token, None)).await.unwrap();
    }
    let creator = core.shared.control.state().people().user_by_email("ada@example.com").unwrap().id.clone();
    let invitation = Invitation {
        id: id::random("inv_", core.shared.ids.as_ref()),
        organization_id: Some(id::derive("org_", &["default"])),
        email: Some("eve@example.com".to_owned()),
        role: Role::Viewer.into(),
        creator,
        ..Invitation::default()
    };
    let make = |_: &ControlState| Ok((vec![ControlChange::Invitation(invitation.clone())], ()));
    core.shared.control.change(Actor::operator(None).does("invitation.created"), make).await.unwrap();
    let request = accepting(&core.shared.keys.link_token(&invitation.id), None);
    let demote = v1::SetAdministratorRequest { email: "ada@example.com".to_owned(), administrator: false };
    let operator = Actor::operator(None);
    // The password is hashed in another thread meanwhile.
    let (accepted, demoted) =
        tokio::join!(accept_invitation(&core, None, None, &request), set_administrator(&core, &operator, &demote));
    demoted.unwrap();
    assert_eq!(code(accepted), Some(ErrorCode::SignUpClosed));
    assert!(core.shared.control.state().people().user_by_email("eve@example.com").is_none());
}

//! There is always an administrator, once there was one.

use super::*;
use crate::{
    operations::{
        account::{
            accept_invitation::accept_invitation, get_link::get_link, reset_password::reset_password,
            set_up::set_up_link, sign_up::sign_up,
        },
        admin::{confirm_user::confirm_user, create_reset_link::create_reset_link, create_user::create_user},
    },
    tests::harness::{ManualClock, core, shared_memory},
};

const PASSWORD: &str = "correct horse battery";

async fn set(core: &Core, email: &str, administrator: bool) -> Result<v1::SetAdministratorResponse> {
    let request = v1::SetAdministratorRequest { email: email.to_owned(), administrator };
    set_administrator(core, &Actor::operator(None), &request).await
}

/// Signs up a user whose e-mail is confirmed; gives the id.
async fn confirmed(core: &Core, email: &str) -> String {
    let request = v1::SignUpRequest {
        email: email.to_owned(),
        password: PASSWORD.to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: None,
    };
    sign_up(core, None, &request).await.unwrap();
    let request = v1::ConfirmUserRequest { email: email.to_owned() };
    confirm_user(core, &Actor::operator(None), &request).await.unwrap().user.unwrap().id
}

fn token_of(link: &str) -> String {
    link.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn links_of_a_removed_administrator_let_nobody_in() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let id = confirmed(&core, "ada@example.com").await;
    confirmed(&core, "bob@example.com").await;
    for email in ["ada@example.com", "bob@example.com"] {
        set(&core, email, true).await.unwrap();
    }
    let ada = Actor { id, address: None, is_member: false };
    let operator = Actor::operator(None);
    let invite = async |actor: &Actor, email: &str| {
        let request = v1::CreateUserRequest { email: email.to_owned(), administrator: true };
        let token = token_of(&create_user(&core, actor, &request).await.unwrap().link);
        v1::AcceptInvitationRequest { token, email: None, password: Some(PASSWORD.to_owned()), user_agent: None }
    };
    let reset_link = async |actor: &Actor| {
        let request = v1::CreateResetLinkRequest { email: "bob@example.com".to_owned(), keep_memberships: false };
        token_of(&create_reset_link(&core, actor, &request).await.unwrap().link)
    };
    let (hers, kept) = (invite(&ada, "eve@example.com").await, invite(&operator, "kim@example.com").await);
    let (reset, kept_reset) = (reset_link(&ada).await, reset_link(&operator).await);
    assert!(get_link(&core, None, &v1::GetLinkRequest { token: reset.clone() }).await.is_ok());
    set(&core, "ada@example.com", false).await.unwrap();

    let refused = accept_invitation(&core, None, None, &hers).await.unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::LinkNotFound);
    let refused = get_link(&core, None, &v1::GetLinkRequest { token: reset.clone() }).await.unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::LinkNotFound);
    let using = |token: String| v1::ResetPasswordRequest { token, password: PASSWORD.to_owned(), user_agent: None };
    let refused = reset_password(&core, None, &using(reset)).await.unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::LinkNotFound);
    // The links of others work.
    accept_invitation(&core, None, None, &kept).await.unwrap();
    reset_password(&core, None, &using(kept_reset)).await.unwrap();
}

#[tokio::test]
async fn of_two_administrators_who_step_down_at_once_one_stays() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let (one, other) = (core(store.clone(), &clock, 1).await, core(store, &clock, 2).await);
    for email in ["ada@example.com", "bob@example.com"] {
        let request = v1::SignUpRequest {
            email: email.to_owned(),
            password: "correct horse battery".to_owned(),
            organization_name: "Engines".to_owned(),
            user_agent: None,
        };
        sign_up(&one, None, &request).await.unwrap();
    }
    assert!(set_up_link(&one).await.unwrap().is_some());
    let refused = set(&one, "ada@example.com", true).await.unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::EmailNotConfirmed);
    for email in ["Ada@example.com", "bob@example.com", "bob@example.com"] {
        let request = v1::ConfirmUserRequest { email: email.to_owned() };
        let confirmed = confirm_user(&one, &Actor::operator(None), &request).await.unwrap();
        assert!(confirmed.user.unwrap().email_confirmed_at.is_some());
    }
    for email in ["ADA@example.com", "bob@example.com", "bob@example.com"] {
        assert!(set(&other, email, true).await.unwrap().user.unwrap().administrator);
    }
    assert_eq!(set_up_link(&one).await.unwrap(), None);
    assert_eq!(one.shared.control.state().people().invitations().count(), 0);
    let outcomes = tokio::join!(set(&one, "ada@example.com", false), set(&other, "bob@example.com", false));
    let refused: Vec<_> = [outcomes.0, outcomes.1].into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.iter().map(|error| error.api.code).collect::<Vec<_>>(), [ErrorCode::LastAdministrator]);
    let unknown = set(&one, "eve@example.com", true).await.unwrap_err();
    assert_eq!(unknown.api.code, ErrorCode::UserNotFound);
}

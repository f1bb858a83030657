//! There is always an administrator, once there was one.

use super::*;
use crate::{
    operations::{
        account::{set_up::set_up_link, sign_up::sign_up},
        admin::confirm_user::confirm_user,
    },
    testing::{ManualClock, core, shared_memory},
};

async fn set(core: &Core, email: &str, administrator: bool) -> Result<v1::SetAdministratorResponse> {
    let request = v1::SetAdministratorRequest { email: email.to_owned(), administrator };
    set_administrator(core, &Actor::operator(None), &request).await
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

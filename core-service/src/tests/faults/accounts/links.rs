//! Links that create users, and links for a forgotten password.

use std::{cell::Cell, time::Duration};

use thesis_proto::{
    error::ErrorCode,
    v1::{self, account_service_server::AccountService as _, admin_service_server::AdminService as _},
};

use super::{
    NEW, OTHER, OWNER, PASSWORD, account, code, count_audit_rows, over, ready, signed_in, signed_up, token_of,
};
use crate::{
    accounts::{
        confirmations,
        resets::{self, MAILED},
    },
    domain::account::User,
    grpc::Api,
    operations::account::set_up::set_up_link,
    tests::faults::{
        requests::{person, service},
        world::World,
    },
};

/// Links that a network requests for an account in an hour.
const MAX_RESETS: usize = 3;

/// Becomes a user by a link; checks that the user is an administrator and that the link is used up.
async fn becomes_administrator(world: &mut World, token: &str, email: &str, is_chosen: bool) {
    let request = || {
        let (token, password) = (token.to_owned(), Some(PASSWORD.to_owned()));
        let email = is_chosen.then(|| email.to_owned());
        person(v1::AcceptInvitationRequest { token, email, password, user_agent: None }, None)
    };
    world.ask(async |api| api.accept_invitation(request()).await).await.unwrap();
    world.note_created("user", email);
    let core = world.core().await;
    let state = core.shared.control.state();
    let people = state.people();
    assert!(people.user_by_email(email).is_some_and(|user| user.administrator));
    assert_eq!(people.invitations().count(), 0);
}

pub(in crate::tests::faults) async fn create_user(world: &mut World) {
    ready(world).await;
    let make = || service(v1::CreateUserRequest { email: OTHER.to_owned(), administrator: true });
    let created = world.ask(async |api| api.create_user(make()).await).await.unwrap();
    over(world).await;
    // One link works, however often it was requested: that of the response.
    assert_eq!(world.core().await.shared.control.state().people().invitations().count(), 1);
    becomes_administrator(world, &token_of(&created.link), OTHER, false).await;
}

/// Requests the set-up link as each start does. A failed start ends its process, and another one follows.
async fn set_up_token(world: &mut World) -> Option<String> {
    loop {
        let core = world.core().await;
        let link = set_up_link(&core).await;
        match link {
            Ok(link) if world.process.ended().is_none() => return link.as_deref().map(token_of),
            _ => world.process.end(),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(in crate::tests::faults) async fn set_up(world: &mut World) {
    ready(world).await;
    let token = set_up_token(world).await.expect("there is no administrator");
    over(world).await;
    assert_eq!(set_up_token(world).await.as_ref(), Some(&token));
    assert_eq!(count_audit_rows(world, "invitation.created").await, 1);
    becomes_administrator(world, &token, OWNER, true).await;
    assert_eq!(set_up_token(world).await, None);
}

pub(in crate::tests::faults) async fn request_password_reset(world: &mut World) {
    let session = signed_up(world, OWNER).await;
    ready(world).await;
    let request = || person(v1::RequestPasswordResetRequest { email: OWNER.to_owned() }, None);
    let (requests, mut answered) = (Cell::new(0), 0);
    loop {
        let ask = async |api: Api| {
            requests.set(requests.get() + 1);
            api.request_password_reset(request()).await
        };
        let answer = world.ask(ask).await;
        over(world).await;
        if let Err(status) = answer {
            assert_eq!(code(&status), ErrorCode::RateLimited, "{status:?}");
            break;
        }
        answered += 1;
    }
    // An attempt with a lost response may count.
    assert!((MAX_RESETS - 1..=MAX_RESETS).contains(&answered), "{answered} of {}", requests.get());
    // The audit row is written after the response, so one may be lost with a fault. None is written twice.
    let rows = count_audit_rows(world, "password.reset_asked").await;
    assert!((answered - 1..=answered).contains(&rows), "{rows} of {answered}");
    // Nothing was reset.
    assert!(account(world, &session).await.is_some());
}

/// The user who signed up first.
async fn owner(world: &mut World) -> User {
    let core = world.core().await;
    let state = core.shared.control.state();
    User::clone(state.people().user_by_email(OWNER).unwrap())
}

pub(in crate::tests::faults) async fn confirm_email(world: &mut World) {
    let session = signed_up(world, OWNER).await;
    let token = confirmations::token(&world.core().await.shared, &owner(world).await);
    ready(world).await;
    let request = || person(v1::ConfirmEmailRequest { token: token.clone() }, Some(&session));
    let confirmed = world.ask(async |api| api.confirm_email(request()).await).await.unwrap();
    over(world).await;
    assert!(confirmed.user.unwrap().email_confirmed_at.is_some());
    assert_eq!(count_audit_rows(world, "user.email_confirmed").await, 1);
    assert_eq!(account(world, &session).await.unwrap().memberships.len(), 1);
}

/// The owner of an address takes over the account of a stranger. After a lost response they sign in with the new
/// password, or request another link if that fails.
pub(in crate::tests::faults) async fn take_over(world: &mut World) {
    let stranger = signed_up(world, OWNER).await;
    let user = owner(world).await;
    ready(world).await;
    while !owner(world).await.is_confirmed() {
        let core = world.core().await;
        let link = resets::create_link(&core.shared, &user, MAILED, Vec::new()).await;
        drop(core);
        let Ok((token, _)) = link else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let password = NEW.to_owned();
        let reset = v1::ResetPasswordRequest { token, password, user_agent: None };
        world.ask_once(async |api| api.reset_password(person(reset, None)).await).await;
        if signed_in(world, OWNER, NEW).await.is_ok() {
            // A fault between the two writes of the reset leaves nothing to the stranger.
            assert!(owner(world).await.is_confirmed());
        }
    }
    over(world).await;
    assert!(account(world, &stranger).await.is_none());
    assert_eq!(signed_in(world, OWNER, PASSWORD).await, Err(ErrorCode::SignInFailed));
    let session = signed_in(world, OWNER, NEW).await.unwrap();
    assert!(account(world, &session).await.unwrap().memberships.is_empty());
}

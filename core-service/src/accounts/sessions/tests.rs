//! Signing up, in and out; how long sessions last; and that a new password ends them.

use std::sync::Arc;

use super::*;
use crate::{
    operations::{
        account::{
            change_password::change_password, get_account::get_account, get_link::get_link,
            reset_password::reset_password, revoke_session::revoke_session, sign_in::sign_in, sign_out::sign_out,
            sign_up::sign_up,
        },
        admin::create_reset_link::create_reset_link,
    },
    service::Core,
    store::SharedBackend,
    tests::harness::{ManualClock, core, shared_memory},
};

const EMAIL: &str = "Ada@Example.com";
const PASSWORD: &str = "correct horse battery";

async fn two() -> (Arc<ManualClock>, SharedBackend, [Arc<Core>; 2]) {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let cores = [core(Arc::clone(&store), &clock, 1).await, core(Arc::clone(&store), &clock, 2).await];
    (clock, store, cores)
}

/// Lets time pass, in which both cores follow the control log.
async fn pass(clock: &ManualClock, cores: [&Arc<Core>; 2], ms: i64) {
    clock.advance(ms);
    for core in cores {
        core.shared.control.catch_up().await.unwrap();
    }
}

fn signing_up(email: &str) -> v1::SignUpRequest {
    v1::SignUpRequest {
        email: email.to_owned(),
        password: PASSWORD.to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: Some("a browser\n".to_owned()),
    }
}

async fn signed_up(core: &Core) -> String {
    sign_up(core, Some("192.0.2.1"), &signing_up(EMAIL)).await.unwrap().session.unwrap().token
}

async fn try_sign_in(core: &Core, email: &str, password: &str) -> Result<v1::NewSession> {
    let (email, password) = (email.to_owned(), password.to_owned());
    let request = v1::SignInRequest { email, password, user_agent: None, device: None };
    let answer = sign_in(core, None, &request).await?;
    Ok(answer.session.unwrap())
}

async fn admitted(core: &Core, token: &str) -> Result<Person> {
    admit(&core.shared, Some(token), None).await
}

fn code<T>(outcome: Result<T>) -> Option<ErrorCode> {
    outcome.err().map(|error| error.api.code)
}

#[tokio::test]
async fn who_signs_up_at_one_core_is_admitted_at_the_other_and_signs_out_everywhere() {
    let (_clock, _store, [one, other]) = two().await;
    let token = signed_up(&one).await;
    let person = admitted(&other, &token).await.unwrap();
    let account = get_account(&other, &person, &v1::GetAccountRequest {}).await.unwrap();
    let user = account.user.unwrap();
    assert_eq!((user.email.as_str(), user.administrator), (EMAIL, false));
    let membership = &account.memberships[0];
    assert_eq!((membership.role(), membership.organization.as_ref().unwrap().plan.as_str()), (v1::Role::Owner, "free"));
    let session = account.session.unwrap();
    assert_eq!((session.user_agent.as_deref(), session.address.as_deref()), (Some("a browser"), Some("192.0.2.1")));
    assert!(session.current && !token.contains(&session.id));

    let second = try_sign_in(&other, " ada@example.COM", PASSWORD).await.unwrap().token;
    let person = admitted(&one, &second).await.unwrap();
    assert_eq!(list(&one.shared, &person).await.unwrap().iter().filter(|session| session.current).count(), 1);
    sign_out(&one, &person, &v1::SignOutRequest {}).await.unwrap();
    assert_eq!(code(admitted(&other, &second).await), Some(ErrorCode::SignInRequired));
    let person = admitted(&other, &token).await.unwrap();
    let revoke = v1::RevokeSessionRequest { id: person.session_id.clone() };
    revoke_session(&other, &person, &revoke).await.unwrap();
    assert_eq!(code(revoke_session(&other, &person, &revoke).await), Some(ErrorCode::SessionNotFound));
    assert_eq!(code(admitted(&one, &token).await), Some(ErrorCode::SignInRequired));
    for wrong in [None, Some(""), Some(session.id.as_str()), Some("ses_usr_a_b")] {
        assert_eq!(code(admit(&one.shared, wrong, None).await), Some(ErrorCode::SignInRequired));
    }
}

#[tokio::test]
async fn a_session_ends_after_12_hours_without_use_and_after_30_days() {
    let (clock, _store, [one, other]) = two().await;
    let token = signed_up(&one).await;
    let pass = async |ms| pass(&clock, [&one, &other], ms).await;
    pass(IDLE_MS - 1).await;
    admitted(&other, &token).await.unwrap();
    pass(NOTE_MS - 1).await;
    admitted(&other, &token).await.unwrap();
    // The session records no use so soon after the last one.
    pass(IDLE_MS - NOTE_MS + 1).await;
    assert_eq!(code(admitted(&one, &token).await), Some(ErrorCode::SignInRequired));

    let token = try_sign_in(&one, EMAIL, PASSWORD).await.unwrap().token;
    for _ in 1..MAX_MS / (IDLE_MS / 2) {
        pass(IDLE_MS / 2).await;
        admitted(&one, &token).await.unwrap();
    }
    pass(IDLE_MS / 2 - 1).await;
    admitted(&one, &token).await.unwrap();
    pass(1).await;
    assert_eq!(code(admitted(&one, &token).await), Some(ErrorCode::SignInRequired));
}

#[tokio::test]
async fn a_user_has_at_most_20_sessions_and_the_least_recently_used_go() {
    let (clock, _store, [one, other]) = two().await;
    let first = signed_up(&one).await;
    let mut last = String::new();
    for _ in 1..MAX_SESSIONS {
        clock.advance(1);
        last = try_sign_in(&one, EMAIL, PASSWORD).await.unwrap().token;
    }
    pass(&clock, [&one, &other], NOTE_MS).await;
    let person = admitted(&one, &first).await.unwrap();
    assert_eq!(list(&one.shared, &person).await.unwrap().len(), MAX_SESSIONS);
    try_sign_in(&one, EMAIL, PASSWORD).await.unwrap();
    let left = list(&one.shared, &person).await.unwrap();
    assert_eq!(left.len(), MAX_SESSIONS);
    assert!(admitted(&one, &first).await.is_ok() && admitted(&one, &last).await.is_ok());
}

#[tokio::test]
async fn a_new_password_ends_all_sessions_on_every_core() {
    let (_clock, _store, [one, other]) = two().await;
    let tokens = [signed_up(&one).await, try_sign_in(&other, EMAIL, PASSWORD).await.unwrap().token];
    let person = admitted(&one, &tokens[0]).await.unwrap();
    let change = |current: &str, new: &str| v1::ChangePasswordRequest {
        current_password: current.to_owned(),
        password: new.to_owned(),
        user_agent: None,
    };
    let wrong = change_password(&one, &person, &change("wrong horse battery", "another battery")).await.unwrap_err();
    assert_eq!(wrong.api.param.as_deref(), Some("current_password"));
    let short = change_password(&one, &person, &change(PASSWORD, "short")).await.unwrap_err();
    assert_eq!((short.api.code, short.api.param.as_deref()), (ErrorCode::ValidationFailed, Some("password")));
    let changed = change_password(&one, &person, &change(PASSWORD, "another battery")).await.unwrap();
    for token in &tokens {
        assert_eq!(code(admitted(&other, token).await), Some(ErrorCode::SignInRequired));
    }
    // A sign-in with the old password that ends only now.
    let late = begin(&other.shared, &person.user, (None, None), None, rows::FIRST_GENERATION).await;
    assert_eq!(code(late), Some(ErrorCode::SignInRequired));
    let person = admitted(&other, &changed.session.unwrap().token).await.unwrap();
    assert_eq!(list(&other.shared, &person).await.unwrap().len(), 1);
    assert_eq!(code(try_sign_in(&other, EMAIL, PASSWORD).await), Some(ErrorCode::SignInFailed));
    assert!(try_sign_in(&other, EMAIL, "another battery").await.is_ok());
}

#[tokio::test]
async fn of_two_who_use_a_reset_link_at_once_one_sets_the_password() {
    let (clock, _store, [one, other]) = two().await;
    let token = signed_up(&one).await;
    let ask = v1::CreateResetLinkRequest { email: "ADA@example.com".to_owned(), keep_memberships: false };
    let operator = Actor::operator(None);
    let link = async || {
        let link = create_reset_link(&other, &operator, &ask).await.unwrap().link;
        link.rsplit('/').next().unwrap().to_owned()
    };
    let reset = |token: &str, password: &str| v1::ResetPasswordRequest {
        token: token.to_owned(),
        password: password.to_owned(),
        user_agent: None,
    };
    let (earlier, open) = (link().await, link().await);
    let earlier = v1::GetLinkRequest { token: earlier };
    assert!(get_link(&one, None, &earlier).await.is_ok(), "another link voids none");
    let request = v1::GetLinkRequest { token: open.clone() };
    let found = get_link(&one, None, &request).await.unwrap();
    assert_eq!((found.purpose(), found.email.as_deref()), (v1::LinkPurpose::PasswordReset, Some(EMAIL)));
    let (first, second) = (reset(&open, "the first battery"), reset(&open, "the second battery"));
    let outcomes = tokio::join!(reset_password(&one, None, &first), reset_password(&other, None, &second));
    let passwords = ["the first battery", "the second battery"];
    let (won, lost) = if outcomes.0.is_ok() { (passwords[0], outcomes.1) } else { (passwords[1], outcomes.0) };
    assert_eq!(code(lost), Some(ErrorCode::LinkNotFound));
    for void in [&request, &earlier] {
        assert_eq!(code(get_link(&one, None, void).await), Some(ErrorCode::LinkNotFound));
    }
    assert!(try_sign_in(&one, EMAIL, won).await.is_ok());
    assert_eq!(code(admitted(&one, &token).await), Some(ErrorCode::SignInRequired));
    for lost in passwords.into_iter().filter(|password| *password != won) {
        assert_eq!(code(try_sign_in(&other, EMAIL, lost).await), Some(ErrorCode::SignInFailed));
    }

    let late = link().await;
    pass(&clock, [&one, &other], DAY_MS).await;
    let late = reset_password(&one, None, &reset(&late, PASSWORD)).await;
    assert_eq!(code(late), Some(ErrorCode::LinkNotFound));
}

#[tokio::test]
async fn an_e_mail_is_taken_in_any_case_whoever_is_first() {
    let (_clock, _store, [one, other]) = two().await;
    let (first, second) = (signing_up(EMAIL), signing_up("ada@EXAMPLE.com "));
    let outcomes = tokio::join!(sign_up(&one, None, &first), sign_up(&other, None, &second));
    let refused: Vec<_> = [outcomes.0, outcomes.1].into_iter().filter_map(code).collect();
    assert_eq!(refused, [ErrorCode::EmailTaken]);
    assert_eq!(code(sign_up(&one, None, &second).await), Some(ErrorCode::EmailTaken));
    one.shared.control.catch_up().await.unwrap();
    assert_eq!(one.shared.control.state().people().users().count(), 1);
    let wrong = v1::SignUpRequest { email: "ada".to_owned(), organization_name: String::new(), ..first };
    let error = sign_up(&one, None, &wrong).await.unwrap_err();
    let params: Vec<_> = error.api.field_errors().map(|error| error.param).collect();
    assert_eq!(params, ["email", "organization_name"]);
}

#[tokio::test]
async fn ten_sign_ups_an_hour_come_from_an_address() {
    let (_clock, _store, [one, _]) = two().await;
    for number in 0..10 {
        sign_up(&one, Some("192.0.2.1"), &signing_up(&format!("ada{number}@example.com"))).await.unwrap();
    }
    let more = sign_up(&one, Some("192.0.2.1"), &signing_up(EMAIL)).await;
    assert_eq!(code(more), Some(ErrorCode::RateLimited));
    assert!(sign_up(&one, Some("192.0.2.2"), &signing_up(EMAIL)).await.is_ok());
}

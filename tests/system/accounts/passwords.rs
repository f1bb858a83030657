//! Forgotten and changed passwords: all sessions end, at every core.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, LinkPurpose},
};

use crate::{
    admin::admin,
    harness::{
        Person, Service,
        person::{patiently, refused, token_of},
        text,
    },
};

on_both_stores![
    a_forgotten_password_is_replaced_once,
    a_newer_link_leaves_the_older_good,
    a_changed_password_ends_all_other_sessions,
    asking_for_a_link_tells_nothing,
];

const NEW: &str = "a wholly new password";

/// The token of a new link for a person's password.
fn reset_token(service: &Service, person: &Person) -> String {
    let made = admin(service, &["user", "reset-link", &person.email]);
    assert!(made["expires_at"].is_string(), "{made}");
    token_of(text(&made, "link")).to_owned()
}

/// Demands that a session has ended at every core.
async fn has_ended(service: &Service, person: &Person) {
    for _ in &service.cores {
        assert!(!person.is_signed_in().await);
    }
}

async fn a_forgotten_password_is_replaced_once(service: &Service) {
    let (first, _) = service.owner().await;
    let (mut second, mut third) = (first.elsewhere(), first.elsewhere());
    second.sign_in().await.unwrap();
    let token = reset_token(service, &first);
    let told = third.ask().get_link(v1::GetLinkRequest { token: token.clone() }).await.unwrap().into_inner();
    assert_eq!((told.purpose(), told.email.as_deref()), (LinkPurpose::PasswordReset, Some(&*first.email)));
    // A wrong password leaves the link unused, and the link no session ended.
    let error = third.reset(&token, "short").await.unwrap_err();
    assert_eq!((error.code, error.param.as_deref()), (ErrorCode::ValidationFailed, Some("password")));
    assert!(first.is_signed_in().await && second.is_signed_in().await);

    third.reset(&token, NEW).await.unwrap();
    has_ended(service, &first).await;
    has_ended(service, &second).await;
    assert!(third.is_signed_in().await);
    assert_eq!(third.sessions().await.len(), 1);
    let error = second.reset(&token, "yet another password").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::LinkNotFound);
    let old = second.fail_to_sign_in(&first.password).await;
    assert_eq!(old.code, ErrorCode::SignInFailed);
    NEW.clone_into(&mut second.password);
    second.sign_in().await.unwrap();
    assert_eq!(second.id, first.id);
}

async fn a_newer_link_leaves_the_older_good(service: &Service) {
    let (mut person, _) = service.owner().await;
    let tokens = [reset_token(service, &person), reset_token(service, &person)];
    assert_ne!(tokens[0], tokens[1]);
    for token in &tokens {
        person.ask().get_link(v1::GetLinkRequest { token: token.clone() }).await.unwrap();
    }
    // The use of one voids both, and so does a changed password.
    person.reset(&tokens[0], NEW).await.unwrap();
    let last = reset_token(service, &person);
    for token in &tokens {
        assert_eq!(person.reset(token, NEW).await.unwrap_err().code, ErrorCode::LinkNotFound);
    }
    person.change_password("yet another password").await.unwrap();
    assert_eq!(person.reset(&last, NEW).await.unwrap_err().code, ErrorCode::LinkNotFound);
    assert!(person.is_signed_in().await);
}

async fn a_changed_password_ends_all_other_sessions(service: &Service) {
    let (mut person, _) = service.owner().await;
    let (mut other, mut old) = (person.elsewhere(), person.elsewhere());
    other.sign_in().await.unwrap();
    old.session.clone_from(&person.session);
    // With the right one only.
    let wrong = v1::ChangePasswordRequest {
        current_password: "not the right password".to_owned(),
        password: NEW.to_owned(),
        user_agent: None,
    };
    let error = patiently(async || person.ask().change_password(wrong.clone()).await).await.unwrap_err();
    assert_eq!((error.code, error.param.as_deref()), (ErrorCode::ValidationFailed, Some("current_password")));
    assert!(other.is_signed_in().await);

    person.change_password(NEW).await.unwrap();
    has_ended(service, &other).await;
    has_ended(service, &old).await;
    assert!(person.is_signed_in().await);
    let error = other.fail_to_sign_in(&other.password).await;
    assert_eq!(error.code, ErrorCode::SignInFailed);
    NEW.clone_into(&mut other.password);
    other.sign_in().await.unwrap();
}

async fn asking_for_a_link_tells_nothing(service: &Service) {
    let (person, _) = service.owner().await;
    for email in [person.email.clone(), "nobody@people.example".to_owned()] {
        let request = v1::RequestPasswordResetRequest { email };
        person.ask().request_password_reset(request).await.unwrap();
    }
    let wrong = v1::RequestPasswordResetRequest { email: "no e-mail".to_owned() };
    let answer = person.ask().request_password_reset(wrong).await;
    // The form of an e-mail is no secret.
    assert_eq!(refused(answer, ErrorCode::ValidationFailed).param.as_deref(), Some("email"));
    assert!(person.is_signed_in().await);
}

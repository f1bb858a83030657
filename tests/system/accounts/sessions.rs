//! Sessions: listed, revoked and ended, at every core.

use thesis_proto::{error::ErrorCode, v1};

use crate::harness::{
    Person, Service,
    person::{at, refused},
};

on_both_stores![sessions_are_listed_and_revoked, a_session_is_ones_own, what_is_no_session_is_refused];

/// The id of a person's session.
async fn id(person: &Person) -> String {
    person.account().await.session.unwrap().id
}

async fn sessions_are_listed_and_revoked(service: &Service) {
    let (first, _) = service.owner().await;
    let (mut second, mut third) = (first.elsewhere(), first.elsewhere());
    second.sign_in().await.unwrap();
    third.sign_in().await.unwrap();
    let ids = [id(&first).await, id(&second).await, id(&third).await];
    let listed = first.sessions().await;
    assert_eq!(listed.len(), 3);
    for (person, own) in [&first, &second, &third].into_iter().zip(&ids) {
        let row = listed.iter().find(|row| row.id == *own).unwrap();
        assert_eq!((row.address.as_deref(), row.user_agent.as_deref()), (Some(&*person.address), Some("tests")));
        assert_eq!(row.current, *own == ids[0]);
        let began = at(row.created_at);
        assert!(at(row.used_at) >= began && at(row.expires_at) > began, "{row:?}");
        // An id is no secret, and not a part of one.
        assert!(row.id.starts_with("ses_") && !person.session.as_ref().unwrap().contains(&row.id[4..]));
    }

    let revoke = v1::RevokeSessionRequest { id: ids[1].clone() };
    first.ask().revoke_session(revoke.clone()).await.unwrap();
    for _ in &service.cores {
        assert!(!second.is_signed_in().await);
        assert!(third.is_signed_in().await);
    }
    drop(first.ask().revoke_session(revoke).await);
    third.ask().sign_out(v1::SignOutRequest {}).await.unwrap();
    for _ in &service.cores {
        assert!(!third.is_signed_in().await);
    }
    let left: Vec<String> = first.sessions().await.into_iter().map(|row| row.id).collect();
    assert_eq!(left, ids[..1]);
}

async fn a_session_is_ones_own(service: &Service) {
    let ((one, _), (other, _)) = (service.owner().await, service.owner().await);
    let theirs = v1::RevokeSessionRequest { id: id(&other).await };
    let unknown = v1::RevokeSessionRequest { id: format!("ses_{}", "0".repeat(32)) };
    let errors = [one.ask().revoke_session(theirs).await, one.ask().revoke_session(unknown).await]
        .map(|answer| refused(answer, ErrorCode::SessionNotFound));
    assert_eq!(errors[0], errors[1]);
    assert!(other.is_signed_in().await);
}

async fn what_is_no_session_is_refused(service: &Service) {
    let (person, _) = service.owner().await;
    let (token, mut other) = (person.session.clone().unwrap(), person.elsewhere());
    let cut = &token[..token.len() - 1];
    let last = if token.ends_with('a') { 'b' } else { 'a' };
    let unknown_user = format!("ses_usr_{}_{}", "0".repeat(25), "0".repeat(40));
    for wrong in [String::new(), "ses_".to_owned(), cut.to_owned(), format!("{cut}{last}"), unknown_user] {
        other.session = Some(wrong);
        assert!(!other.is_signed_in().await);
    }
    other.session = None;
    assert!(!other.is_signed_in().await);
    // Not without the service credential.
    let mut request = tonic::Request::new(v1::GetAccountRequest {});
    request.metadata_mut().insert("x-session", token.parse().unwrap());
    let mut bare = v1::account_service_client::AccountServiceClient::new(service.first_core());
    assert_eq!(bare.get_account(request).await.unwrap_err().code(), tonic::Code::Unauthenticated);
}

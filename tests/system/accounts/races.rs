//! Many at once: a link works once, limits hold, and of two changes of one thing the later is told.

use futures::future::join_all;
use thesis_proto::{
    error::ErrorCode,
    v1::{self, Role},
};

use super::outcomes;
use crate::{
    admin::admin,
    harness::{Person, Service, person::token_of, text},
};

on_both_stores![
    an_invitation_makes_one_user,
    an_invitation_makes_one_member,
    a_link_sets_one_password,
    one_email_signs_up_once,
    a_limit_of_organizations_holds,
    two_owners_do_not_both_leave,
    the_later_of_two_is_told,
];

const AT_ONCE: usize = 10;

async fn an_invitation_makes_one_user(service: &Service) {
    let (owner, organization) = service.owner().await;
    let invited = service.person();
    let link = owner.invite(&organization, &invited.email, Role::Viewer).await;
    let tries = (0..AT_ONCE).map(|number| {
        let mut person = invited.elsewhere();
        person.password = format!("the password of number {number}");
        let token = token_of(&link).to_owned();
        async move { person.accept(&token).await.map(|_| person).map_err(|error| error.code) }
    });
    let answers = join_all(tries).await;
    let (done, refused) = outcomes(&answers);
    assert_eq!(done, 1, "{refused:?}");
    let known = [ErrorCode::LinkNotFound, ErrorCode::SignInRequired];
    assert!(refused.iter().all(|code| known.contains(code)), "{refused:?}");
    // The one whose password counts is the one who was let in.
    let mut winner = answers.into_iter().find_map(Result::ok).unwrap();
    assert!(winner.is_signed_in().await);
    winner.session = None;
    winner.sign_in().await.unwrap();
    assert_eq!(owner.members(&organization).await.len(), 2);
    assert_eq!(winner.sessions().await.len(), 2);
}

async fn an_invitation_makes_one_member(service: &Service) {
    let (owner, organization) = service.owner().await;
    let (invited, _) = service.owner().await;
    let link = owner.invite(&organization, &invited.email, Role::Developer).await;
    let tries = (0..AT_ONCE).map(|_| async {
        let token = token_of(&link).to_owned();
        let request = v1::AcceptInvitationRequest { token, ..v1::AcceptInvitationRequest::default() };
        let answer = invited.ask().accept_invitation(request).await;
        answer.map_err(|status| thesis_proto::error::ApiError::from_status(&status).code)
    });
    let (done, refused) = outcomes(&join_all(tries).await);
    assert_eq!(done, 1, "{refused:?}");
    assert!(refused.iter().all(|code| *code == ErrorCode::LinkNotFound), "{refused:?}");
    assert_eq!(owner.members(&organization).await.len(), 2);
}

async fn a_link_sets_one_password(service: &Service) {
    let (person, _) = service.owner().await;
    let made = admin(service, &["user", "reset-link", &person.email]);
    let tries = (0..AT_ONCE).map(|number| {
        let (mut other, token) = (person.elsewhere(), token_of(text(&made, "link")).to_owned());
        let password = format!("the password of number {number}");
        async move { other.reset(&token, &password).await.map(|()| other).map_err(|error| error.code) }
    });
    let answers = join_all(tries).await;
    let (done, refused) = outcomes(&answers);
    assert_eq!(done, 1, "{refused:?}");
    assert!(refused.iter().all(|code| *code == ErrorCode::LinkNotFound), "{refused:?}");
    let mut winner = answers.into_iter().find_map(Result::ok).unwrap();
    assert!(winner.is_signed_in().await && !person.is_signed_in().await);
    winner.session = None;
    winner.sign_in().await.unwrap();
}

async fn one_email_signs_up_once(service: &Service) {
    let person = service.person();
    let tries = (0..AT_ONCE).map(|number| {
        let mut other = person.elsewhere();
        other.password = format!("the password of number {number}");
        async move { other.sign_up("Acme").await.map(|_| other).map_err(|error| error.code) }
    });
    let answers = join_all(tries).await;
    let (done, refused) = outcomes(&answers);
    assert_eq!(done, 1, "{refused:?}");
    assert!(refused.iter().all(|code| *code == ErrorCode::EmailTaken), "{refused:?}");
    let mut winner = answers.into_iter().find_map(Result::ok).unwrap();
    winner.session = None;
    winner.sign_in().await.unwrap();
    assert_eq!(winner.account().await.memberships.len(), 1);
}

async fn a_limit_of_organizations_holds(service: &Service) {
    // One who owns nothing yet.
    let mut person = service.person();
    let made = admin(service, &["user", "create", "--email", &person.email]);
    person.accept(token_of(text(&made, "link"))).await.unwrap();
    let tries = (0..6).map(|number| {
        let request = v1::AccountServiceCreateOrganizationRequest { name: format!("Number {number}") };
        let mut accounts = person.ask();
        async move {
            let answer = accounts.create_organization(request).await;
            answer.map_err(|status| thesis_proto::error::ApiError::from_status(&status).code)
        }
    });
    assert_eq!(outcomes(&join_all(tries).await), (5, vec![ErrorCode::AccountLimitReached]));
    assert_eq!(person.account().await.memberships.len(), 5);
}

async fn leave(person: &Person, organization: &str) -> Result<(), ErrorCode> {
    let request = v1::RemoveMemberRequest { organization_id: organization.to_owned(), user_id: person.id.clone() };
    let answer = person.ask().remove_member(request).await;
    answer.map(drop).map_err(|status| thesis_proto::error::ApiError::from_status(&status).code)
}

async fn two_owners_do_not_both_leave(service: &Service) {
    let (owner, organization) = service.owner().await;
    let other = service.member(&owner, &organization, Role::Owner).await;
    let answers = [leave(&owner, &organization), leave(&other, &organization)];
    assert_eq!(outcomes(&join_all(answers).await), (1, vec![ErrorCode::LastOwner]));
}

async fn the_later_of_two_is_told(service: &Service) {
    let (owner, organization) = service.owner().await;
    let other = service.member(&owner, &organization, Role::Owner).await;
    let asked = v1::GetOrganizationRequest { id: organization.clone() };
    let revision = owner.ask().get_organization(asked).await.unwrap().into_inner().organization.unwrap().revision;
    let rename = async |person: &Person, name: &str| {
        let (id, name, revision) = (organization.clone(), name.to_owned(), Some(revision));
        let answer = person.ask().update_organization(v1::UpdateOrganizationRequest { id, name, revision }).await;
        answer.map_err(|status| thesis_proto::error::ApiError::from_status(&status).code)
    };
    let (one, two) = tokio::join!(rename(&owner, "By the one"), rename(&other, "By the other"));
    assert_eq!(outcomes(&[one, two]), (1, vec![ErrorCode::ChangedMeanwhile]));
}

//! Invitations by link.

use thesis_proto::v1::Role;

use super::PASSWORD;
use crate::harness::{
    Service,
    browser::{Browser, Origin},
};

on_both_stores![a_new_user_accepts_by_link, a_user_with_an_account_accepts, a_withdrawn_invitation_is_over];

/// Invites somebody by the members' page; gives the link's path.
async fn invite(owner: &Browser, organization: &str, email: &str, role: &str) -> String {
    let page = owner.open(&format!("/console/organizations/{organization}/members")).await.is(200);
    let form = page.form(&format!("/console/organizations/{organization}/invitations"));
    let page = owner.submit(&form.fill("email", email).fill("role", role)).await.is(200).says(email);
    format!("/console/links/{}", page.link_token())
}

async fn a_new_user_accepts_by_link(service: &Service) {
    let (owner, organization) = service.owner().await;
    let (person, invited) = (service.person(), service.browser());
    let link = invite(&service.browser_of(&owner), &organization, &person.email, "developer").await;
    let page = invited.open(&link).await.is(200).says("Acme").says(&person.email);
    // Who has the link chooses no other e-mail.
    let form = page.form(&link).fill("password", PASSWORD);
    let joined = invited.submit(&form).await.is(200).says("Acme");
    assert!(joined.path.contains(&organization), "{joined}");
    let members = owner.members(&organization).await;
    let found = members.iter().find(|member| member.user.as_ref().unwrap().email == person.email).unwrap();
    assert_eq!((members.len(), found.role()), (2, Role::Developer));
    // Once, whoever has it.
    service.browser().open(&link).await.is(404);
    let late = service.browser();
    let fields = [("csrf", late.csrf().await), ("password", PASSWORD.to_owned())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    late.post(&link, &fields, Origin::Here).await.is(404);
    assert!(late.session().is_none());
    service.browser().sign_in(&person.email, PASSWORD).await.is(200);
}

async fn a_user_with_an_account_accepts(service: &Service) {
    let (owner, organization) = service.owner().await;
    let (person, _) = service.owner().await;
    let link = invite(&service.browser_of(&owner), &organization, &person.email, "viewer").await;
    // Without a session they are asked to sign in, and are led back.
    let visitor = service.browser();
    let page = visitor.open(&link).await;
    let sign_in = page.all("a").filter_map(|anchor| anchor.get("href")).find(|href| href.contains("sign-in?next="));
    let page = visitor.open(sign_in.unwrap_or_else(|| panic!("no way to sign in: {page}"))).await.is(200);
    let form = page.form("/console/sign-in").fill("email", &person.email).fill("password", &person.password);
    let page = visitor.submit(&form).await.is(200);
    assert_eq!(page.path, link);
    let joined = visitor.submit(&page.form(&link)).await.is(200);
    assert!(joined.html.contains(&organization), "{joined}");
    assert_eq!(person.account().await.memberships.len(), 2);
    // It is for nobody else who is signed in.
    let link = invite(&service.browser_of(&owner), &organization, "somebody@people.example", "owner").await;
    let csrf = visitor.csrf().await;
    let answer = visitor.post(&link, &[("csrf", &csrf)], Origin::Here).await;
    assert_eq!(answer.status, 403, "{answer}");
}

async fn a_withdrawn_invitation_is_over(service: &Service) {
    let (owner, organization) = service.owner().await;
    let owner = service.browser_of(&owner);
    let link = invite(&owner, &organization, "gone@people.example", "viewer").await;
    let page = owner.open(&format!("/console/organizations/{organization}/members")).await.is(200);
    let forms = page.forms();
    let form = forms.iter().find(|form| form.action.starts_with("/console/invitations/")).unwrap();
    owner.submit(form).await.is(200);
    service.browser().open(&link).await.is(404);
}

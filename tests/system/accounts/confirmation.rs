//! Confirmed e-mails where no mail is sent: an operator confirms. `tests/clients` has a mail server.

use serde_json::{Value, json};
use thesis_proto::{
    error::ErrorCode,
    v1::{self, Role},
};

use crate::{
    admin::admin,
    harness::{
        Person, Service,
        person::{new_invitation, refused, token_of},
        text,
    },
};

on_both_stores![
    an_unconfirmed_person_neither_invites_nor_asks_nor_administers,
    a_link_that_was_handed_over_proves_no_e_mail,
    a_link_of_an_operator_confirms,
    the_links_of_a_removed_administrator_end,
    the_invitations_of_a_former_owner_end,
];

/// A person who has signed up, with their organization. Nobody has confirmed the e-mail.
async fn unconfirmed(service: &Service) -> (Person, String) {
    let mut person = service.person();
    let organization = person.sign_up("Acme").await.unwrap().id;
    (person, organization)
}

async fn is_confirmed(person: &Person) -> bool {
    person.account().await.user.unwrap().email_confirmed_at.is_some()
}

async fn an_unconfirmed_person_neither_invites_nor_asks_nor_administers(service: &Service) {
    let (person, organization) = unconfirmed(service).await;
    let project = person.project(&organization, "Hive").await.id;
    let account = person.account().await;
    assert!(!account.sends_mail && account.user.unwrap().email_confirmed_at.is_none());
    let invite = new_invitation(&organization, "somebody@people.example", Role::Viewer);
    let live = v1::RequestLiveAccessRequest { project_id: project.clone(), note: None };
    let administrate = v1::SetAdministratorRequest { email: person.email.clone(), administrator: true };
    refused(person.ask().create_invitation(invite.clone()).await, ErrorCode::EmailNotConfirmed);
    refused(person.ask().request_live_access(live).await, ErrorCode::EmailNotConfirmed);
    refused(person.ask().send_confirmation(v1::SendConfirmationRequest {}).await, ErrorCode::EmailNotConfirmed);
    refused(service.admin().set_administrator(administrate.clone()).await, ErrorCode::EmailNotConfirmed);

    let confirmed = admin(service, &["user", "confirm", &person.email.to_uppercase()]);
    assert!(confirmed["email_confirmed_at"].is_string(), "{confirmed}");
    // Confirming again keeps the time.
    assert_eq!(admin(service, &["user", "confirm", &person.email]), confirmed);
    for _ in &service.cores {
        assert!(is_confirmed(&person).await);
    }
    person.ask().create_invitation(invite).await.unwrap();
    person.request_live(&project).await;
    person.ask().send_confirmation(v1::SendConfirmationRequest {}).await.unwrap();
    service.admin().set_administrator(administrate).await.unwrap();
    let unknown = v1::ConfirmUserRequest { email: "nobody@people.example".to_owned() };
    refused(service.admin().confirm_user(unknown).await, ErrorCode::UserNotFound);
}

async fn a_link_that_was_handed_over_proves_no_e_mail(service: &Service) {
    let (owner, organization) = service.owner().await;
    let (mut squatter, _) = unconfirmed(service).await;
    let link = owner.invite(&organization, &squatter.email, Role::Owner).await;
    assert_eq!(squatter.accept(token_of(&link)).await.unwrap_err().code, ErrorCode::EmailNotConfirmed);
    assert_eq!(owner.members(&organization).await.len(), 1);
    service.confirm(&squatter.email).await;
    squatter.accept(token_of(&link)).await.unwrap();

    // A new person joins, and invites nobody before their e-mail is confirmed.
    let mut new = service.person();
    let link = owner.invite(&organization, &new.email, Role::Owner).await;
    new.accept(token_of(&link)).await.unwrap();
    assert!(!is_confirmed(&new).await);
    let invite = new_invitation(&organization, "somebody@people.example", Role::Viewer);
    refused(new.ask().create_invitation(invite).await, ErrorCode::EmailNotConfirmed);
}

async fn a_link_of_an_operator_confirms(service: &Service) {
    let mut person = service.person();
    let created = admin(service, &["user", "create", "--email", &person.email]);
    person.accept(token_of(text(&created, "link"))).await.unwrap();
    assert!(is_confirmed(&person).await);

    let (mut forgetful, organization) = unconfirmed(service).await;
    let created = admin(service, &["user", "reset-link", &forgetful.email, "--keep-memberships"]);
    let effect = |answer: &Value| (answer["email_confirmed"].clone(), answer["ends_memberships"].clone());
    assert_eq!(effect(&created), (json!(false), json!(false)));
    assert!(text(&created, "note").contains("memberships stay"), "{created}");
    let token = token_of(text(&created, "link"));
    let link = forgetful.ask().get_link(v1::GetLinkRequest { token: token.to_owned() }).await.unwrap().into_inner();
    assert!(!link.ends_memberships);
    forgetful.reset(token, "a wholly new password").await.unwrap();
    let account = forgetful.account().await;
    let organizations: Vec<_> = account.memberships.iter().filter_map(|row| row.organization.as_ref()).collect();
    assert_eq!(organizations.iter().map(|row| &row.id).collect::<Vec<_>>(), [&organization]);
    assert!(account.user.unwrap().email_confirmed_at.is_some());
    let created = admin(service, &["user", "reset-link", &forgetful.email]);
    assert_eq!(effect(&created), (json!(true), json!(false)));
    assert!(created["note"].is_null(), "{created}");

    // Without the flag the memberships of the stranger end.
    let (mut victim, _) = unconfirmed(service).await;
    let created = admin(service, &["user", "reset-link", &victim.email]);
    assert_eq!(effect(&created), (json!(false), json!(true)));
    assert!(text(&created, "note").contains("--keep-memberships"), "{created}");
    let token = token_of(text(&created, "link"));
    let link = victim.ask().get_link(v1::GetLinkRequest { token: token.to_owned() }).await.unwrap().into_inner();
    assert!(link.ends_memberships);
    victim.reset(token, "a wholly new password").await.unwrap();
    let account = victim.account().await;
    assert!(account.memberships.is_empty() && account.user.unwrap().email_confirmed_at.is_some());
}

async fn the_links_of_a_removed_administrator_end(service: &Service) {
    let (administrator, other) = (service.administrator().await, service.administrator().await);
    let mut invited = service.person();
    let request = v1::CreateUserRequest { email: invited.email.clone(), administrator: true };
    let invitation = administrator.administer().create_user(request).await.unwrap().into_inner();
    let request = v1::CreateResetLinkRequest { email: other.email.clone(), keep_memberships: false };
    let reset = administrator.administer().create_reset_link(request).await.unwrap().into_inner();
    let request = v1::GetLinkRequest { token: token_of(&reset.link).to_owned() };
    other.ask().get_link(request.clone()).await.unwrap();

    let remove = v1::SetAdministratorRequest { email: administrator.email.clone(), administrator: false };
    service.admin().set_administrator(remove).await.unwrap();
    assert_eq!(invited.accept(token_of(&invitation.link)).await.unwrap_err().code, ErrorCode::LinkNotFound);
    for _ in &service.cores {
        refused(other.ask().get_link(request.clone()).await, ErrorCode::LinkNotFound);
    }
    let taken = other.elsewhere().reset(token_of(&reset.link), "a wholly new password").await;
    assert_eq!(taken.unwrap_err().code, ErrorCode::LinkNotFound);
    assert!(other.is_signed_in().await);
}

async fn the_invitations_of_a_former_owner_end(service: &Service) {
    let (owner, organization) = service.owner().await;
    let former = service.member(&owner, &organization, Role::Owner).await;
    let mut guest = service.person();
    let link = former.invite(&organization, &guest.email, Role::Viewer).await;
    let kept = owner.invite(&organization, "kept@people.example", Role::Viewer).await;
    let remove = v1::RemoveMemberRequest { organization_id: organization.clone(), user_id: former.id.clone() };
    owner.ask().remove_member(remove).await.unwrap();
    assert_eq!(guest.accept(token_of(&link)).await.unwrap_err().code, ErrorCode::LinkNotFound);
    let request = v1::GetLinkRequest { token: token_of(&kept).to_owned() };
    guest.ask().get_link(request).await.unwrap();
}

//! Invitations: accepted by a new user and by one who has an account, once, and withdrawn.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, LinkPurpose, Role},
};

use crate::harness::{
    Service,
    person::{at, new_invitation, refused, token_of},
};

on_both_stores![
    a_new_user_accepts_once,
    a_user_with_an_account_accepts,
    a_withdrawn_invitation_is_over,
    a_token_that_was_changed_is_none,
];

fn link(token: &str) -> v1::GetLinkRequest {
    v1::GetLinkRequest { token: token.to_owned() }
}

async fn a_new_user_accepts_once(service: &Service) {
    let (owner, organization) = service.owner().await;
    let mut invited = service.person();
    let link_text = owner.invite(&organization, &invited.email, Role::Developer).await;
    let token = token_of(&link_text);
    let listed = v1::ListInvitationsRequest { organization_id: organization.clone() };
    let open = owner.ask().list_invitations(listed.clone()).await.unwrap().into_inner().data;
    assert_eq!(open.iter().map(|open| &open.email).collect::<Vec<_>>(), [&invited.email]);
    assert!(open[0].id.starts_with("inv_") && at(open[0].expires_at) > at(open[0].created_at));

    // Looking does not use it.
    for _ in 0..2 {
        let told = invited.ask().get_link(link(token)).await.unwrap().into_inner();
        assert_eq!((told.purpose(), told.role()), (LinkPurpose::Invitation, Role::Developer));
        assert_eq!((told.email.as_deref(), told.organization_name.as_deref()), (Some(&*invited.email), Some("Acme")));
        assert!(!told.has_account && told.expires_at.is_some());
    }
    let joined = invited.accept(token).await.unwrap().unwrap();
    assert_eq!(joined.id, organization);
    let members = owner.members(&organization).await;
    let found = members.iter().find(|member| member.user.as_ref().unwrap().id == invited.id).unwrap();
    assert_eq!((members.len(), found.role()), (2, Role::Developer));
    assert!(owner.ask().list_invitations(listed).await.unwrap().into_inner().data.is_empty());

    // Once, whoever has it.
    assert_eq!(invited.accept(token).await.unwrap_err().code, ErrorCode::LinkNotFound);
    assert_eq!(service.person().accept(token).await.unwrap_err().code, ErrorCode::LinkNotFound);
    refused(invited.ask().get_link(link(token)).await, ErrorCode::LinkNotFound);
    // The account is an ordinary one.
    invited.session = None;
    invited.sign_in().await.unwrap();
}

async fn a_user_with_an_account_accepts(service: &Service) {
    let (owner, organization) = service.owner().await;
    let (mut invited, own) = service.owner().await;
    let link_text = owner.invite(&organization, &invited.email.to_uppercase(), Role::Viewer).await;
    let token = token_of(&link_text);
    let told = service.person().ask().get_link(link(token)).await.unwrap().into_inner();
    assert!(told.has_account);
    // Without their session it makes no second account, and signs nobody in.
    let mut stranger = service.person();
    assert_eq!(stranger.accept(token).await.unwrap_err().code, ErrorCode::SignInRequired);
    // Nor is it for somebody else who is signed in.
    let (mut other, _) = service.owner().await;
    assert_eq!(other.accept(token).await.unwrap_err().code, ErrorCode::InsufficientRole);

    invited.accept(token).await.unwrap();
    let memberships = invited.account().await.memberships;
    let mut found: Vec<(String, Role)> =
        memberships.iter().map(|one| (one.organization.clone().unwrap().id, one.role())).collect();
    let mut expected = vec![(organization, Role::Viewer), (own, Role::Owner)];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(invited.accept(token).await.unwrap_err().code, ErrorCode::LinkNotFound);
}

async fn a_withdrawn_invitation_is_over(service: &Service) {
    let (owner, organization) = service.owner().await;
    let mut invited = service.person();
    let request = new_invitation(&organization, &invited.email, Role::Viewer);
    let made = owner.ask().create_invitation(request).await.unwrap().into_inner();
    let (id, link_text) = (made.invitation.unwrap().id, made.link.unwrap());
    let withdraw = v1::DeleteInvitationRequest { id };
    owner.ask().delete_invitation(withdraw.clone()).await.unwrap();
    let token = token_of(&link_text);
    refused(invited.ask().get_link(link(token)).await, ErrorCode::LinkNotFound);
    assert_eq!(invited.accept(token).await.unwrap_err().code, ErrorCode::LinkNotFound);
    // No account was left behind: the e-mail is free.
    invited.sign_up("Free").await.unwrap();
    refused(owner.ask().delete_invitation(withdraw).await, ErrorCode::InvitationNotFound);
}

async fn a_token_that_was_changed_is_none(service: &Service) {
    let (owner, organization) = service.owner().await;
    let mut invited = service.person();
    let link_text = owner.invite(&organization, &invited.email, Role::Viewer).await;
    let token = token_of(&link_text);
    let (id, mac) = token.rsplit_once('.').unwrap();
    let last = if mac.ends_with('a') { 'b' } else { 'a' };
    let other_mac = format!("{id}.{}{last}", &mac[..mac.len() - 1]);
    for wrong in ["", "x", id, &format!("{id}."), &other_mac, &format!("inv_0.{mac}"), &format!("{}.x", owner.id)] {
        refused(invited.ask().get_link(link(wrong)).await, ErrorCode::LinkNotFound);
        assert_eq!(invited.accept(wrong).await.unwrap_err().code, ErrorCode::LinkNotFound, "{wrong}");
        let error = invited.reset(wrong, "another password of mine").await.unwrap_err();
        assert_eq!(error.code, ErrorCode::LinkNotFound, "{wrong}");
    }
    // An invitation is no link for a password.
    let error = invited.reset(token, "another password of mine").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::LinkNotFound);
    invited.accept(token).await.unwrap();
}

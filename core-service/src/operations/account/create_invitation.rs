//! Invites somebody to an organization.

use std::sync::Arc;

use thesis_proto::v1;

use super::update_member::role;
use crate::{
    access::rights,
    accounts::{
        Person,
        attempts::{self, INVITATIONS_OF_ORGANIZATION, INVITATIONS_TO},
        fields::{email_fault, refuse},
        mail::Letter,
    },
    control::ControlState,
    convert,
    domain::{
        account::{INVITATION_MS, Invitation, MAX_INVITATIONS, MIN_AGE_FOR_TEXTS_MS, Role, User, folded_email},
        control::{ControlChange, Organization},
        id,
    },
    error::Result,
    operations::admin::{invalid, limit_reached},
    service::Core,
};

/// Expired invitations that one new invitation deletes.
const MAX_DROPPED: usize = 50;

/// Returns the organization, if the person may invite to it.
fn demand_inviter<'a>(
    state: &'a ControlState,
    person: &Person,
    organization_id: &str,
) -> Result<&'a Arc<Organization>> {
    let organization = rights::organization(state, &person.actor, organization_id, Role::Owner)?;
    rights::demand_confirmed(state, &person.actor)?;
    Ok(organization)
}

/// Builds the changes of a new invitation. They delete an earlier one for the same person and expired ones.
fn changes(state: &ControlState, new: &Invitation, organization_id: &str) -> Result<Vec<ControlChange>> {
    let (people, folded) = (state.people(), folded_email(new.email.as_deref().unwrap_or_default()));
    let user = people.user_by_email(&folded);
    if user.is_some_and(|user| people.member(organization_id, &user.id).is_some()) {
        return Err(invalid("email", "is a member of the organization already"));
    }
    let is_same = |other: &Invitation| other.email.as_deref().is_some_and(|email| folded_email(email) == folded);
    let others = people.invitations().filter(|other| other.organization_id.as_deref() == Some(organization_id));
    let (open, expired): (Vec<_>, Vec<_>) = others.partition(|other| other.is_open(new.created_at));
    let (replaced, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|other| is_same(other));
    if open.len() >= MAX_INVITATIONS {
        let rule = format!("an organization has at most {MAX_INVITATIONS} open invitations; withdraw one");
        return Err(limit_reached(&rule));
    }
    let gone = replaced.into_iter().chain(expired.into_iter().take(MAX_DROPPED));
    let gone = gone.filter(|other| other.id != new.id).map(|other| ControlChange::InvitationGone(other.id.clone()));
    Ok([ControlChange::Invitation(new.clone())].into_iter().chain(gone).collect())
}

/// True if the mail may name the organization. Texts of a young account are not mailed to people who did not request
/// them.
fn may_mail_texts(user: &User, now_ms: i64) -> bool {
    user.is_confirmed() && now_ms - user.created_at >= MIN_AGE_FOR_TEXTS_MS
}

/// Invites somebody to an organization for seven days. Only owners with a confirmed e-mail may. The link goes by mail;
/// without mail it is in the response.
pub async fn create_invitation(
    core: &Core,
    person: &Person,
    message: &v1::CreateInvitationRequest,
) -> Result<v1::CreateInvitationResponse> {
    let role = role(message.role);
    refuse([email_fault("email", &message.email), role.as_ref().err().cloned()])?;
    let email = message.email.trim();
    let invitation = Invitation {
        id: id::random("inv_", core.shared.ids.as_ref()),
        organization_id: Some(message.organization_id.clone()),
        email: Some(email.to_owned()),
        role: role.unwrap_or(Role::Viewer).into(),
        administrator: false,
        created_at: person.now_ms,
        expires_at: Some(person.now_ms + INVITATION_MS),
        creator: person.user.id.clone(),
        mailed: core.accounts.mail.is_some(),
    };
    core.shared.control.refresh().await?;
    demand_inviter(&core.shared.control.state(), person, &message.organization_id)?;
    let account = attempts::account(&core.shared, email);
    let mut limits = vec![(INVITATIONS_TO, format!("{}/{account}", message.organization_id))];
    if invitation.mailed {
        limits.push((INVITATIONS_OF_ORGANIZATION, message.organization_id.clone()));
    }
    let tries = attempts::reserve_all(&core.shared, limits).await?;
    let invite = |state: &ControlState| {
        let organization = demand_inviter(state, person, &message.organization_id)?;
        let user = state.people().user(&person.user.id);
        let name = user.filter(|user| may_mail_texts(user, person.now_ms)).map(|_| organization.name.clone());
        Ok((changes(state, &invitation, &message.organization_id)?, name))
    };
    let name = match core.shared.control.change(person.actor.does("invitation.created"), invite).await {
        Ok(name) => name,
        Err(error) => {
            attempts::give_back(&core.shared, tries).await;
            return Err(error);
        }
    };
    let link = core.accounts.link(&core.shared.keys.link_token(&invitation.id));
    let link = match &core.accounts.mail {
        Some(mail) => {
            mail.post(Letter::invitation(email, name.as_deref(), &link));
            None
        }
        None => Some(link),
    };
    Ok(v1::CreateInvitationResponse { invitation: Some(convert::account::invitation(&invitation)), link })
}

#[cfg(test)]
mod tests {
    use thesis_proto::error::ErrorCode;

    use super::*;
    use crate::{
        accounts::sessions,
        domain::{account::Actor, window::DAY_MS},
        operations::account::sign_up::sign_up,
        tests::harness::{ManualClock, core_with_mail, shared_memory},
    };

    #[tokio::test]
    async fn an_organization_mails_50_invitations_a_day_and_what_is_refused_does_not_count() {
        let clock = ManualClock::new();
        let core = core_with_mail(shared_memory(&clock), &clock).await;
        let request = v1::SignUpRequest {
            email: "owner@example.com".to_owned(),
            password: "correct horse battery".to_owned(),
            organization_name: "Engines".to_owned(),
            user_agent: None,
        };
        let answer = sign_up(&core, None, &request).await.unwrap();
        let (session, organization) = (answer.session.unwrap(), answer.organization.unwrap());
        let person = sessions::admit(&core.shared, Some(&session.token), None).await.unwrap();
        let confirmed = person.user.confirmed(person.now_ms);
        let confirm = |_: &ControlState| Ok((vec![ControlChange::User(confirmed.clone())], ()));
        core.shared.control.change(Actor::operator(None).does("test.confirmed"), confirm).await.unwrap();
        let invite = async |email: &str| {
            let (organization_id, email) = (organization.id.clone(), email.to_owned());
            let request = v1::CreateInvitationRequest { organization_id, email, role: v1::Role::Viewer.into() };
            create_invitation(&core, &person, &request).await.err().map(|error| error.api.code)
        };
        for _ in 0..6 {
            assert_eq!(invite("owner@example.com").await, Some(ErrorCode::ValidationFailed), "a member already");
        }
        for number in 0..50 {
            assert_eq!(invite(&format!("{number}@example.com")).await, None);
        }
        clock.advance(DAY_MS / 2);
        for _ in 0..6 {
            assert_eq!(invite("ada@example.com").await, Some(ErrorCode::RateLimited));
        }
        // Attempts older than half a day no longer count. Refused attempts never count.
        clock.advance(DAY_MS / 2);
        for _ in 0..5 {
            assert_eq!(invite("ada@example.com").await, None);
        }
        assert_eq!(invite("ada@example.com").await, Some(ErrorCode::RateLimited));
    }

    #[test]
    fn a_letter_says_no_text_of_a_young_or_unconfirmed_account() {
        let created = User { created_at: 1_000, ..User::default() };
        let confirmed = created.confirmed(1_000);
        assert!(may_mail_texts(&confirmed, 1_000 + DAY_MS));
        assert!(!may_mail_texts(&confirmed, 999 + DAY_MS));
        assert!(!may_mail_texts(&created, 1_000 + 2 * DAY_MS));
    }
}

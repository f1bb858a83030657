//! Sets a new password by a link. All sessions of the user end, and a new one starts, for a user with a second factor
//! only after its proof. It confirms the e-mail. At the first proof of the e-mail, memberships and second factors end
//! unless the operator keeps them: the owner of the address inherits nothing from a stranger who signed up with it, and
//! is not shut out by one.

use thesis_proto::v1;

use super::{
    get_link::{Link, read_link},
    remove_member::ended_invitations,
};
use crate::{
    accounts::{
        factors::{self, ChallengePurpose, new_challenge},
        fields::{password_fault, refuse},
        notices::{self, Notice},
        passwords::Requester,
        resets::{self, no_link},
        sessions,
    },
    control::{ControlState, People},
    domain::{account::User, control::ControlChange},
    error::Result,
    service::Core,
    store::{Consistency, Expect},
    tables::{
        account::{self as rows, Password},
        control::member_id,
    },
};

/// Builds the changes that end all memberships of a user. An organization may remain without a member.
fn ended_memberships(people: &People, user_id: &str) -> impl Iterator<Item = ControlChange> {
    people.memberships(user_id).flat_map(move |member| {
        let invitations = ended_invitations(people, &member.organization_id, &member.user_id);
        [ControlChange::MemberGone(member_id(member))].into_iter().chain(invitations)
    })
}

/// Confirms a user's e-mail after a new password by a link, and ends memberships and second factors if the link says
/// so. It changes nothing once the e-mail is confirmed.
pub(super) async fn confirm_by_link(
    core: &Core,
    user: &User,
    address: Option<&str>,
    ends_memberships: bool,
) -> Result<User> {
    if user.is_confirmed() {
        return Ok(user.clone());
    }
    let (now_ms, actor) = (core.shared.clock.now_ms(), sessions::actor(user, address));
    if ends_memberships {
        // Before the confirmation: after a crash here the e-mail is not confirmed, and this runs again.
        factors::remove_all(&core.shared, &user.id, &actor).await?;
    }
    let confirm = |state: &ControlState| {
        let before = state.people().user(&user.id).ok_or_else(no_link)?;
        let confirmed = before.confirmed(now_ms);
        let second_factor = confirmed.second_factor && !ends_memberships;
        let after = User { second_factor, ..confirmed };
        let mut changes = Vec::new();
        if !before.is_confirmed() {
            changes.push(ControlChange::User(after.clone()));
            changes.extend(ended_memberships(state.people(), &user.id).filter(|_| ends_memberships));
        }
        Ok((changes, after))
    };
    core.shared.control.change(actor.does("user.email_confirmed"), confirm).await
}

pub async fn reset_password(
    core: &Core,
    address: Option<&str>,
    message: &v1::ResetPasswordRequest,
) -> Result<v1::ResetPasswordResponse> {
    let shared = &core.shared;
    let Link::Reset(link) = read_link(&shared.keys, &message.token)? else { return Err(no_link()) };
    shared.control.refresh().await?;
    let mut found = resets::find(shared, &link, Consistency::Quorum).await?;
    refuse([password_fault("password", &message.password)])?;
    let user = shared.control.state().people().user(&found.user_id).cloned().ok_or_else(no_link)?;
    let requester = Requester { subject: &user.id, address, is_known: true };
    let hash = core.accounts.passwords.hash(requester, &message.password, shared.ids.as_ref()).await?;
    let ends_memberships = !found.link.keeps_memberships;
    let password = Password { hash, changed_at: shared.clock.now_ms(), ends_memberships };
    let actor = sessions::actor(&user, address);
    let mut consistency = Consistency::Quorum;
    let generation = loop {
        let before = rows::password(&shared.backend, &user.id, consistency).await?.map(|(generation, _)| generation);
        let conditions = (before, Expect::Version(found.version));
        let beside = vec![sessions::audit_row(shared, &actor.does("password.reset").to(&user.id))];
        if rows::set_password(&shared.backend, &user.id, conditions, &password, beside).await? {
            break rows::next_generation(before);
        }
        // A concurrent request used the link or changed the password.
        consistency = Consistency::Serial;
        found = resets::find(shared, &link, consistency).await?;
    };
    // The stranger's sessions have ended by now. If this step fails, the next sign-in or another link repeats it.
    let user = confirm_by_link(core, &user, address, ends_memberships).await?;
    notices::post(&core.accounts, shared, &user, Notice::PasswordSet, address).await;
    // Access to the user's mail is one factor; the second one must be proven too.
    let (_, factors) = rows::factors(&shared.backend, &user.id, Consistency::Quorum).await?;
    if factors.are_required() {
        let challenge = new_challenge(shared, &user.id, &ChallengePurpose::SignIn(generation));
        return Ok(v1::ResetPasswordResponse { session: None, challenge });
    }
    let session = sessions::begin(shared, &user, (address, None), message.user_agent.as_deref(), generation).await?;
    Ok(v1::ResetPasswordResponse { session: Some(session), challenge: String::new() })
}

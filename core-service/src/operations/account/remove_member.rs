//! Removes a member, and ends the invitations that they created. Owners remove others. Every member may leave, except
//! the last owner.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    control::{ControlState, People},
    domain::{account::Role, control::ControlChange},
    error::Result,
    service::Core,
    tables::control::member_id,
};

/// Builds the changes that end the invitations of a former owner.
pub(super) fn ended_invitations(
    people: &People,
    organization_id: &str,
    user_id: &str,
) -> impl Iterator<Item = ControlChange> {
    people.invitations_by(organization_id, user_id).map(|row| ControlChange::InvitationGone(row.id.clone()))
}

pub async fn remove_member(
    core: &Core,
    person: &Person,
    message: &v1::RemoveMemberRequest,
) -> Result<v1::RemoveMemberResponse> {
    let leaves = message.user_id == person.user.id;
    let (min_role, action) = if leaves { (Role::Viewer, "member.left") } else { (Role::Owner, "member.removed") };
    let remove = |state: &ControlState| {
        rights::organization(state, &person.actor, &message.organization_id, min_role)?;
        let found = state.people().member(&message.organization_id, &message.user_id);
        let member = found.ok_or_else(rights::no_member)?;
        rights::demand_other_owner(state, member)?;
        let ended = ended_invitations(state.people(), &member.organization_id, &member.user_id);
        let changes: Vec<_> = [ControlChange::MemberGone(member_id(member))].into_iter().chain(ended).collect();
        Ok((changes, v1::RemoveMemberResponse {}))
    };
    core.shared.control.change(person.actor.does(action), remove).await
}

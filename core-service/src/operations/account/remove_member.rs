//! Removes a member from an organization.

use thesis_proto::v1;

use super::update_member::demand_other_owner;
use crate::{
    access::rights,
    accounts::Person,
    domain::{account::Role, control::ControlChange},
    error::Result,
    operations::Core,
    shared::control::ControlState,
    tables::control::member_id,
};

/// Removes a member. Owners remove others, and everybody may leave, except the last owner.
///
/// # Errors
/// `ORGANIZATION_NOT_FOUND`, `INSUFFICIENT_ROLE`, `MEMBER_NOT_FOUND`, `LAST_OWNER`, or when the store does not answer.
pub async fn remove_member(
    core: &Core,
    person: &Person,
    message: &v1::RemoveMemberRequest,
) -> Result<v1::RemoveMemberResponse> {
    let leaves = message.user_id == person.user.id;
    let (least, action) = if leaves { (Role::Viewer, "member.left") } else { (Role::Owner, "member.removed") };
    let remove = |state: &ControlState| {
        rights::organization(state, &person.actor, &message.organization_id, least)?;
        let found = state.people().member(&message.organization_id, &message.user_id);
        let member = found.ok_or_else(rights::no_member)?;
        demand_other_owner(state, member)?;
        Ok((vec![ControlChange::MemberGone(member_id(member))], v1::RemoveMemberResponse {}))
    };
    core.shared.control.change(person.actor.does(action), remove).await
}

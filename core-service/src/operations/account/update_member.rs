//! Changes the role of a member, and ends the invitations that a former owner created. Owners only. The last owner
//! stays one.

use thesis_proto::{
    error::{ApiError, FieldError},
    v1,
};

use super::remove_member::ended_invitations;
use crate::{
    access::rights,
    accounts::Person,
    control::ControlState,
    convert,
    domain::{
        account::{Member, Role},
        control::ControlChange,
    },
    error::Result,
    service::Core,
};

pub(super) fn role(number: i32) -> std::result::Result<Role, FieldError> {
    Role::try_from(number).map_err(|_| FieldError::new("role", "must be viewer, developer or owner"))
}

pub async fn update_member(
    core: &Core,
    person: &Person,
    message: &v1::UpdateMemberRequest,
) -> Result<v1::UpdateMemberResponse> {
    let role = role(message.role).map_err(|fault| ApiError::validation(&[fault]))?;
    let change = |state: &ControlState| {
        rights::organization(state, &person.actor, &message.organization_id, Role::Owner)?;
        let people = state.people();
        let before = people.member(&message.organization_id, &message.user_id).ok_or_else(rights::no_member)?;
        rights::demand_revision(message.revision, before.revision)?;
        let mut member = Member::clone(before);
        let mut changes = Vec::new();
        if member.role() != role {
            rights::demand_other_owner(state, before)?;
            member.role = role.into();
            member.revision += 1;
            changes.push(ControlChange::Member(member.clone()));
            // Only owners invite, so a new owner has created no invitation.
            changes.extend(ended_invitations(people, &member.organization_id, &member.user_id));
        }
        let member = convert::account::member(&member, people.user(&member.user_id).map(|user| &**user));
        Ok((changes, v1::UpdateMemberResponse { member: Some(member) }))
    };
    core.shared.control.change(person.actor.does("member.role_changed"), change).await
}

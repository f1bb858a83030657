//! Withdraws an invitation, so that its link stops working. Owners only.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    control::ControlState,
    domain::{account::Role, control::ControlChange},
    error::Result,
    service::Core,
};

pub async fn delete_invitation(
    core: &Core,
    person: &Person,
    message: &v1::DeleteInvitationRequest,
) -> Result<v1::DeleteInvitationResponse> {
    let withdraw = |state: &ControlState| {
        rights::invitation(state, &person.actor, &message.id, Role::Owner)?;
        Ok((vec![ControlChange::InvitationGone(message.id.clone())], v1::DeleteInvitationResponse {}))
    };
    core.shared.control.change(person.actor.does("invitation.withdrawn"), withdraw).await
}

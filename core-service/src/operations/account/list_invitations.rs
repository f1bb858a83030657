//! Lists the open invitations to an organization, newest first. Owners only.

use thesis_proto::v1;

use crate::{access::rights, accounts::Person, convert, domain::account::Role, error::Result, service::Core};

pub async fn list_invitations(
    core: &Core,
    person: &Person,
    message: &v1::ListInvitationsRequest,
) -> Result<v1::ListInvitationsResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    rights::organization(&state, &person.actor, &message.organization_id, Role::Owner)?;
    let of = Some(message.organization_id.as_str());
    let invitations = state.people().invitations();
    let mut rows: Vec<_> =
        invitations.filter(|row| row.organization_id.as_deref() == of && row.is_open(person.now_ms)).collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let data = rows.into_iter().map(|row| convert::account::invitation(row)).collect();
    Ok(v1::ListInvitationsResponse { data })
}

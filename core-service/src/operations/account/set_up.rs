//! The link that creates the first administrator.
//!
//! It is an invitation without an e-mail, made at a start on the embedded store while there is no administrator. The
//! program keeps it in the data folder, and the next start removes it.

use crate::{
    control::{ControlState, People},
    domain::{
        account::{Actor, Invitation, Role},
        control::ControlChange,
        id,
    },
    error::Result,
    service::Core,
};

/// Builds the changes that withdraw the set-up link. Every change that creates an administrator includes them.
pub(in crate::operations) fn withdrawn(people: &People) -> impl Iterator<Item = ControlChange> {
    let unused = people.invitations().filter(|invitation| invitation.is_set_up());
    unused.map(|invitation| ControlChange::InvitationGone(invitation.id.clone()))
}

/// Returns the link that creates the first administrator, who becomes an owner of the organization of the bootstrap
/// keys. The link is always the same; there is none once an administrator exists.
pub async fn set_up_link(core: &Core) -> Result<Option<String>> {
    let shared = &core.shared;
    let new = Invitation {
        id: id::random("inv_", shared.ids.as_ref()),
        role: Role::Owner.into(),
        administrator: true,
        created_at: shared.clock.now_ms(),
        creator: Actor::service().id,
        ..Invitation::default()
    };
    let bootstrap = id::derive("org_", &["default"]);
    let make = |state: &ControlState| {
        let people = state.people();
        if people.administrators() > 0 {
            return Ok((Vec::new(), None));
        }
        let before = people.invitations().find(|invitation| invitation.is_set_up());
        let organization_id = state.organization(&bootstrap).map(|organization| organization.id.clone());
        let link = Invitation { organization_id, ..before.map_or_else(|| new.clone(), |row| Invitation::clone(row)) };
        let id = Some(link.id.clone());
        let is_there = before.is_some_and(|before| **before == link);
        Ok((if is_there { Vec::new() } else { vec![ControlChange::Invitation(link)] }, id))
    };
    let id = shared.control.change(Actor::service().does("invitation.created"), make).await?;
    Ok(id.map(|id| core.accounts.link(&shared.keys.link_token(&id))))
}

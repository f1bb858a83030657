//! Lists the audit log of an organization, or the entries without one, newest first. Owners see an administrator as
//! such, without the person.

use thesis_proto::v1;

use super::invalid;
use crate::{
    access::rights,
    convert,
    domain::{
        account::{Actor, Role},
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
    tables::audit,
};

/// Entries of the largest page.
const MAX_LIMIT: i32 = 100;
/// Entries of a page if the request has no limit.
const DEFAULT_LIMIT: i32 = 25;

pub async fn list_audit_log(
    core: &Core,
    actor: &Actor,
    message: &v1::ListAuditLogRequest,
) -> Result<v1::ListAuditLogResponse> {
    core.shared.control.refresh().await?;
    let organization_id = message.organization_id.as_deref();
    if let Some(id) = organization_id {
        rights::organization(&core.shared.control.state(), actor, id, Role::Owner)?;
    }
    let limit = message.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(invalid("limit", &format!("must be from 1 to {MAX_LIMIT}")));
    }
    let limit = usize::try_from(limit).unwrap_or_default();
    let (signer, name) = (core.shared.keys.cursor_signer(), list_name(&["audit", organization_id.unwrap_or_default()]));
    let read = |cursor| signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor);
    let after = message.cursor.as_deref().map(read).transpose()?;
    // An action whose core crashed is listed too.
    core.shared.control.project().await?;
    let after = after.map(|position| (position.created_at, position.id));
    let now_ms = core.shared.clock.now_ms();
    let mut rows = audit::list(&core.shared.backend, organization_id, after, now_ms, limit + 1).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    if actor.is_member {
        for row in &mut rows {
            row.act = std::mem::take(&mut row.act).for_members();
        }
    }
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        let position = TimePosition { created_at: last.at, id: last.id.clone(), ..TimePosition::default() };
        signer.sign(&name, &position)
    });
    let state = core.shared.control.state();
    let data = rows
        .iter()
        .map(|row| {
            let by = state.people().user(&row.act.actor).map(|user| &**user);
            convert::account::audit_entry(row, by)
        })
        .collect();
    Ok(v1::ListAuditLogResponse { data, next_cursor, has_more })
}

//! Lists the audit log of an organization, or the entries without one, newest first. Owners see an administrator as
//! such, without the person.

use thesis_proto::v1;

use super::invalid;
use crate::{
    access::rights,
    convert,
    domain::{
        account::{Actor, Role},
        list_cursor::list_name,
    },
    error::Result,
    operations::paging::Paging,
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
    let name = list_name(&["audit", organization_id.unwrap_or_default()]);
    let paging = Paging::new(core, name, message.cursor.as_deref())?;
    // An action whose core crashed is listed too.
    core.shared.control.project().await?;
    let now_ms = core.shared.clock.now_ms();
    let after = paging.after.clone();
    let mut rows = audit::list(&core.shared.backend, organization_id, after, now_ms, limit + 1).await?;
    let next_cursor = paging.cut(&mut rows, limit, |row| (row.at, row.id.as_str()));
    if actor.is_member {
        for row in &mut rows {
            row.act = std::mem::take(&mut row.act).for_members();
        }
    }
    let state = core.shared.control.state();
    let data = rows
        .iter()
        .map(|row| {
            let by = state.people().user(&row.act.actor).map(|user| &**user);
            convert::account::audit_entry(row, by)
        })
        .collect();
    Ok(v1::ListAuditLogResponse { data, has_more: next_cursor.is_some(), next_cursor })
}

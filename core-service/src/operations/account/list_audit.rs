//! Lists the audit log of an organization.

use thesis_proto::v1;

use crate::{
    access::rights, accounts::Person, domain::account::Role, error::Result,
    operations::admin::list_audit_log::read_page, service::Core,
};

/// Lists the audit log of an organization, newest first. Owners only.
///
/// # Errors
/// 422, `ORGANIZATION_NOT_FOUND`, `INSUFFICIENT_ROLE`, `INVALID_CURSOR`, or when the store does not answer.
pub async fn list_audit(
    core: &Core,
    person: &Person,
    message: &v1::ListAuditEntriesRequest,
) -> Result<v1::ListAuditEntriesResponse> {
    core.shared.control.refresh().await?;
    let id = message.organization_id.as_str();
    rights::organization(&core.shared.control.state(), &person.actor, id, Role::Owner)?;
    let v1::ListAuditLogResponse { data, next_cursor, has_more } =
        read_page(core, Some(id), true, message.limit, message.cursor.as_deref()).await?;
    Ok(v1::ListAuditEntriesResponse { data, next_cursor, has_more })
}

//! Lists the alerts of a key's project and environment, newest first. Fails with `INVALID_CURSOR`.

use std::sync::Arc;

use thesis_proto::v1;

use super::{fields::Fields, get_alert::shown};
use crate::{
    access::gate::Call,
    domain::{
        alert::Alert,
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
};

pub async fn list_alerts(core: &Core, call: &Call, message: v1::ListAlertsRequest) -> Result<v1::ListAlertsResponse> {
    let mut fields = Fields::default();
    let limit = fields.page(message.limit, message.cursor.as_deref());
    fields.finish()?;
    call.charge().await?;
    let (caller, signer) = (&call.caller, core.shared.keys.cursor_signer());
    let name = list_name(&["alerts", &caller.scope()]);
    let read = |cursor: String| signer.read::<TimePosition>(&name, &cursor).ok_or_else(Error::invalid_cursor);
    let after = message.cursor.map(read).transpose()?;
    core.shared.control.refresh().await?;
    let mut rows: Vec<Arc<Alert>> = core
        .shared
        .control
        .state()
        .alerts()
        .of(&caller.project.id, caller.key.live)
        .filter(|alert| {
            after.as_ref().is_none_or(|after| (alert.created_at, &alert.id) < (after.created_at, &after.id))
        })
        .cloned()
        .collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        signer
            .sign(&name, &TimePosition { created_at: last.created_at, id: last.id.clone(), ..TimePosition::default() })
    });
    Ok(v1::ListAlertsResponse { data: shown(core, &rows).await?, next_cursor, has_more })
}

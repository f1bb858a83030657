//! Lists the alerts of a key's project and environment, newest first. Fails with `INVALID_CURSOR`.

use std::sync::Arc;

use thesis_proto::v1;

use super::{fields::Fields, get_alert::shown, paging::Paging};
use crate::{
    access::gate::Call,
    domain::{alert::Alert, list_cursor::list_name},
    error::Result,
    service::Core,
};

pub async fn list_alerts(core: &Core, call: &Call, message: v1::ListAlertsRequest) -> Result<v1::ListAlertsResponse> {
    let mut fields = Fields::default();
    let limit = fields.page(message.limit, message.cursor.as_deref());
    fields.finish()?;
    call.charge().await?;
    let caller = &call.caller;
    let paging = Paging::new(core, list_name(&["alerts", &caller.scope()]), message.cursor.as_deref())?;
    core.shared.control.refresh().await?;
    let (rows, next_cursor) = {
        let state = core.shared.control.state();
        let rows = state.alerts().of(&caller.project.id, caller.key.live).cloned();
        paging.select(rows, limit, |alert: &Arc<Alert>| (alert.created_at, alert.id.as_str()))
    };
    Ok(v1::ListAlertsResponse { data: shown(core, &rows).await?, has_more: next_cursor.is_some(), next_cursor })
}

//! Reads one alert with its state. Fails with `ALERT_NOT_FOUND`.

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use super::missing::missing;
use crate::{
    access::gate::{Call, Caller},
    control::ControlState,
    convert,
    domain::alert::Alert,
    error::Result,
    service::Core,
    tables::alerts::progress,
};

/// The caller's alert of this id.
pub(super) fn own_alert<'a>(state: &'a ControlState, caller: &Caller, id: &str) -> Result<&'a Arc<Alert>> {
    let is_own = |alert: &&Arc<Alert>| alert.project_id == caller.project.id && alert.live == caller.key.live;
    state.alerts().get(id).filter(is_own).ok_or_else(|| missing(ErrorCode::AlertNotFound, id))
}

/// Alerts of one project and environment with their states.
pub(super) async fn shown(core: &Core, alerts: &[Arc<Alert>]) -> Result<Vec<v1::Alert>> {
    let Some(dataset) = alerts.first().map(|alert| alert.dataset()) else { return Ok(Vec::new()) };
    let ids: Vec<&str> = alerts.iter().map(|alert| alert.id.as_str()).collect();
    let states = progress(&core.shared.backend, dataset.name(), &ids).await?;
    Ok(alerts.iter().zip(&states).map(|(alert, progress)| convert::alert::alert(alert, progress)).collect())
}

pub async fn get_alert(core: &Core, call: &Call, message: v1::GetAlertRequest) -> Result<v1::GetAlertResponse> {
    call.charge().await?;
    core.shared.control.refresh().await?;
    let alert = own_alert(&core.shared.control.state(), &call.caller, &message.id).cloned()?;
    Ok(v1::GetAlertResponse { alert: shown(core, &[alert]).await?.pop() })
}

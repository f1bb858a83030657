//! Deletes an alert with its progress. No event follows. Fails with `ALERT_NOT_FOUND`.

use thesis_proto::v1;

use super::get_alert::own_alert;
use crate::{
    access::gate::Call,
    control::ControlState,
    domain::control::ControlChange,
    error::Result,
    service::Core,
    store::{Consistency, StoreResult},
    tables::{alerts, log::ROWS},
};

pub async fn delete_alert(
    core: &Core,
    call: &Call,
    message: v1::DeleteAlertRequest,
) -> Result<v1::DeleteAlertResponse> {
    call.charge().await?;
    let delete = |state: &ControlState| {
        let alert = own_alert(state, &call.caller, &message.id)?;
        call.demand_right(state)?;
        Ok((vec![ControlChange::AlertDeleted(message.id.clone())], alert.dataset()))
    };
    let dataset = core.shared.control.change(call.actor().does("alert.deleted"), delete).await?;
    // The alert is deleted already, and a progress without an alert only takes space.
    if let Err(error) = delete_progress(core, dataset.name(), &message.id).await {
        tracing::warn!(alert = message.id, %error, "the progress of a deleted alert stays");
    }
    Ok(v1::DeleteAlertResponse { id: message.id })
}

async fn delete_progress(core: &Core, dataset: &str, id: &str) -> StoreResult<()> {
    let log = &core.shared.log;
    let projected = log.checkpoint(dataset, ROWS).await?;
    let head = log.head(dataset, projected, Consistency::Quorum).await?;
    alerts::delete_progress(&core.shared.backend, dataset, id, head).await
}

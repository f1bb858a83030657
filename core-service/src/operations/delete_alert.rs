//! Deletes an alert. No event follows. Fails with `ALERT_NOT_FOUND`.

use thesis_proto::v1;

use super::get_alert::own_alert;
use crate::{access::gate::Call, control::ControlState, domain::control::ControlChange, error::Result, service::Core};

pub async fn delete_alert(
    core: &Core,
    call: &Call,
    message: v1::DeleteAlertRequest,
) -> Result<v1::DeleteAlertResponse> {
    call.charge().await?;
    let delete = |state: &ControlState| {
        own_alert(state, &call.caller, &message.id)?;
        call.demand_right(state)?;
        Ok((vec![ControlChange::AlertDeleted(message.id.clone())], ()))
    };
    core.shared.control.change(call.actor().does("alert.deleted"), delete).await?;
    Ok(v1::DeleteAlertResponse { id: message.id })
}

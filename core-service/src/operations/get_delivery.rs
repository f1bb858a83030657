//! Reads a delivery of the caller's project and environment, with the JSON body that its attempts send. Fails with
//! `DELIVERY_NOT_FOUND`.

use thesis_proto::{error::ErrorCode, v1};

use super::{get_webhook::own_webhook, missing::missing};
use crate::{
    access::gate::Call,
    convert,
    delivery::rule::DeliveryRule,
    domain::delivery::Delivery,
    error::{Error, Result},
    service::Core,
};

/// Finds a delivery of the caller's project and environment.
pub(super) async fn own_delivery(core: &Core, call: &Call, id: &str) -> Result<Delivery> {
    let missing = || missing(ErrorCode::DeliveryNotFound, id);
    core.shared.control.refresh().await?;
    let delivery = core.shared.deliveries.get(id).await?.ok_or_else(missing)?;
    let state = core.shared.control.state();
    let webhook = own_webhook(&state, &call.caller, &delivery.webhook_id).map_err(|_| missing())?;
    Ok(DeliveryRule::of(&state, webhook, call.now_ms).counted(delivery))
}

pub async fn get_delivery(
    core: &Core,
    call: &Call,
    message: v1::GetDeliveryRequest,
) -> Result<v1::GetDeliveryResponse> {
    call.charge().await?;
    let row = own_delivery(core, call, &message.id).await?;
    let event = core.dispatcher.body_of(&row).await?;
    let webhook = core.shared.control.state().webhook(&row.webhook_id).cloned();
    let payload = match webhook {
        Some(webhook) => convert::delivery::payload(&webhook, &event)
            .ok_or_else(|| Error::internal(format!("the payload of {} is no event", row.id)))?,
        None => event,
    };
    let delivery = Some(convert::delivery::delivery(&row));
    Ok(v1::GetDeliveryResponse { delivery, payload, replay_of: row.replay_of })
}

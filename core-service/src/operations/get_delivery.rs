//! Reads one delivery.

use bytes::Bytes;
use thesis_proto::error::ErrorCode;

use super::{get_webhook::own_webhook, missing::missing};
use crate::{
    access::gate::Call, delivery::rule::DeliveryRule, domain::delivery::Delivery, error::Result, service::Core,
};

/// Finds a delivery of the caller's project and environment.
///
/// # Errors
/// `DELIVERY_NOT_FOUND`, or when the store does not answer.
pub(super) async fn own_delivery(core: &Core, call: &Call, id: &str) -> Result<Delivery> {
    let missing = || missing(ErrorCode::DeliveryNotFound, id);
    core.shared.control.refresh().await?;
    let delivery = core.shared.deliveries.get(id).await?.ok_or_else(missing)?;
    let state = core.shared.control.state();
    let webhook = own_webhook(&state, &call.caller, &delivery.webhook_id).map_err(|_| missing())?;
    Ok(DeliveryRule::of(&state, webhook, call.now_ms).counted(delivery))
}

/// Reads a delivery of the caller's project and environment, with the JSON body that its attempts send.
///
/// # Errors
/// `DELIVERY_NOT_FOUND`, or when the store does not answer.
pub async fn get_delivery(core: &Core, call: &Call, id: &str) -> Result<(Delivery, Bytes)> {
    let delivery = own_delivery(core, call, id).await?;
    let body = core.dispatcher.body_of(&delivery).await?;
    Ok((delivery, body))
}

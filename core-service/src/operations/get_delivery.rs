//! Reads a delivery of the caller's project and environment, with the JSON body that its attempts send and the
//! beginnings of the responses to failed ones. Fails with `DELIVERY_NOT_FOUND`.

use thesis_proto::{error::ErrorCode, v1};

use super::{get_webhook::own_webhook, missing::missing};
use crate::{
    access::gate::Call,
    convert,
    delivery::rule::DeliveryRule,
    domain::delivery::Delivery,
    error::{Error, Result},
    keys::key_ring::SealPurpose,
    service::Core,
    tables::failed_responses,
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

/// Adds the beginnings of the responses to failed attempts. One that was encrypted with another secret key is left out.
async fn add_responses(core: &Core, delivery: &mut v1::WebhookDelivery, now_ms: i64) -> Result<()> {
    // Most deliveries have no failed attempt.
    if delivery.attempts.iter().all(|attempt| attempt.response_status.is_none_or(|status| (200..300).contains(&status)))
    {
        return Ok(());
    }
    for (number, sealed) in failed_responses::list(&core.shared.backend, &delivery.id, now_ms).await? {
        let purpose = SealPurpose::FailedResponse(&delivery.id, number);
        let body = core.shared.keys.open(purpose, &sealed).unwrap_or_default();
        if let Some(attempt) = delivery.attempts.iter_mut().find(|attempt| attempt.attempt == number) {
            attempt.response_body = body.into();
        }
    }
    Ok(())
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
    let mut delivery = convert::delivery::delivery(&row);
    add_responses(core, &mut delivery, call.now_ms).await?;
    Ok(v1::GetDeliveryResponse { delivery: Some(delivery), payload, replay_of: row.replay_of })
}

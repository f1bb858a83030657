//! Sends a delivery of the caller's project and environment again, as a new one, or makes the next attempt of one that
//! is retrying now. Fails with `DELIVERY_NOT_FOUND`, `DELIVERY_IN_PROGRESS` or `RATE_LIMITED`.

use thesis_proto::{error::ErrorCode, v1};

use super::get_delivery::own_delivery;
use crate::{
    access::gate::Call,
    convert,
    domain::{
        delivery::{Delivery, Status, delivery_id},
        id,
    },
    error::{Error, Result},
    queue_hints::PendingDelivery,
    service::Core,
};

pub async fn replay_delivery(
    core: &Core,
    call: &Call,
    message: v1::ReplayDeliveryRequest,
) -> Result<v1::ReplayDeliveryResponse> {
    call.demand_send()?;
    call.charge().await?;
    let perform = async |seed: &str| {
        let counted = own_delivery(core, call, &message.id).await?;
        if message.now && counted.status() == Status::Retrying {
            call.take_send()?;
            core.shared.hasten(&counted, call.now_ms).await?;
            let delivery = Delivery { next_attempt_at: Some(call.now_ms), ..counted };
            return Ok(v1::ReplayDeliveryResponse { delivery: Some(convert::delivery::delivery(&delivery)) });
        }
        if !counted.is_over() {
            let message = "the delivery is still under way: replay it once it is delivered or failed";
            return Err(Error::new(ErrorCode::DeliveryInProgress, message));
        }
        call.take_send()?;
        // A repeated request completes the first attempt, with the time of the first.
        let now_ms = id::time_of_seed(seed).unwrap_or(call.now_ms);
        let delivery = replay(core, &counted, now_ms, seed).await?;
        Ok(v1::ReplayDeliveryResponse { delivery: Some(convert::delivery::delivery(&delivery)) })
    };
    core.idempotency.once(call, &message, perform).await
}

/// Sends a delivery again, for any caller, as a new one named after the seed.
pub async fn replay(core: &Core, original: &Delivery, now_ms: i64, seed: &str) -> Result<Delivery> {
    let replay = replay_of(original, now_ms, seed);
    create_deliveries(core, vec![replay.clone()]).await?;
    Ok(replay)
}

/// The delivery that sends another one again. Its id derives from the seed, the time and the other delivery.
pub(super) fn replay_of(original: &Delivery, now_ms: i64, seed: &str) -> Delivery {
    Delivery {
        id: delivery_id(&original.webhook_id, now_ms, &["replay", seed, &original.id]),
        webhook_id: original.webhook_id.clone(),
        event_id: original.event_id.clone(),
        event_type: original.event_type,
        // A replay refers to the event as its original does, because an erasure may change the event. Only a test has
        // its own body.
        dataset: original.dataset.clone(),
        seq: original.seq,
        body: original.body.clone(),
        status: Status::Pending.into(),
        next_attempt_at: Some(now_ms),
        created_at: now_ms,
        is_test: original.is_test,
        replay_of: Some(original.replay_of.as_ref().unwrap_or(&original.id).clone()),
        ..Delivery::default()
    }
}

/// Creates requested deliveries, and queues them. An earlier try of the request may have done so.
pub(super) async fn create_deliveries(core: &Core, deliveries: Vec<Delivery>) -> Result<()> {
    let pending = |delivery: Delivery| {
        let body = delivery.body.clone().into();
        PendingDelivery { delivery, body, erasure: 0, epoch: 0 }
    };
    let pending = deliveries.into_iter().map(pending).collect();
    // The present time: marks in the minute of an earlier try may have been read already.
    Ok(core.shared.create_deliveries(pending, true, core.shared.clock.now_ms()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::{ManualClock, NOON, core, shared_memory};

    #[tokio::test]
    async fn a_replay_is_read_before_it_is_sent() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        // No dispatcher takes the hints.
        core.close().await;
        drop(core.shared.hints.take_pending());
        let original = Delivery {
            id: delivery_id("wh_1", NOON, &["original"]),
            webhook_id: "wh_1".to_owned(),
            body: b"{}".to_vec(),
            ..Delivery::default()
        };
        // The second is the repeat of a request whose first try was cut off.
        for _ in 0..2 {
            replay(&core, &original, NOON, "seed").await.unwrap();
            let hints = core.shared.hints.take_pending();
            assert_eq!(hints.queues.into_iter().collect::<Vec<_>>(), [("wh_1".to_owned(), NOON)]);
            assert!(hints.deliveries.is_empty());
        }
    }
}

//! Begins to send many finished deliveries of a webhook of the caller's project and environment again. Fails with
//! `WEBHOOK_NOT_FOUND`, `DELIVERY_IN_PROGRESS` while another replay of the webhook runs, or `RATE_LIMITED`.

use std::sync::Arc;

use thesis_proto::{
    error::ErrorCode,
    time::{is_time, to_millis},
    v1,
};

use super::{fields::Fields, get_webhook::read_webhook, webhook_replays};
use crate::{
    access::gate::Call,
    convert,
    domain::{delivery::Status, id, webhook_replay::WebhookReplay},
    error::{Error, Result},
    service::Core,
    store::{Consistency, StoreError},
    tables::webhook_replays as rows,
};

/// Maximum number of tries while other requests begin replays of the same webhook.
const MAX_TRIES: usize = 4;

/// The checked fields of a request: the time, and the status of the deliveries.
fn check(call: &Call, message: &v1::StartWebhookReplayRequest) -> Result<(i64, Status)> {
    let mut fields = Fields::default();
    let since = message.since.as_ref();
    match since {
        None => fields.reject("since", "is required"),
        Some(since) if !is_time(since) => fields.reject("since", "must be a time of the years 1 to 9999"),
        Some(since) if to_millis(since) > call.now_ms => fields.reject("since", "must not be in the future"),
        Some(_) => {}
    }
    let status = match message.status() {
        v1::DeliveryStatus::Delivered => Status::Delivered,
        v1::DeliveryStatus::Unspecified if message.status == 0 => Status::Failed,
        v1::DeliveryStatus::Failed => Status::Failed,
        _ => {
            fields.reject("status", "must be failed or delivered");
            Status::Failed
        }
    };
    fields.finish()?;
    Ok((since.map(to_millis).unwrap_or_default(), status))
}

pub async fn start_webhook_replay(
    core: &Arc<Core>,
    call: &Call,
    message: v1::StartWebhookReplayRequest,
) -> Result<v1::StartWebhookReplayResponse> {
    let (since, status) = check(call, &message)?;
    call.demand_send()?;
    call.charge().await?;
    let perform = async |seed: &str| {
        let webhook = read_webhook(core, &call.caller, &message.id).await?;
        // A repeated request completes the first attempt, with the time of the first.
        let now_ms = id::time_of_seed(seed).unwrap_or(call.now_ms);
        let replay = WebhookReplay {
            id: id::derive("rpl_", &["webhook replay", seed]),
            since,
            status: status.into(),
            created_at: now_ms,
            after_at: now_ms,
            step_at: now_ms,
            ..WebhookReplay::default()
        };
        let replay = begin(core, call, &webhook.id, replay).await?;
        Ok(v1::StartWebhookReplayResponse { replay: Some(convert::delivery::webhook_replay(&webhook.id, &replay)) })
    };
    core.idempotency.once(call, &message, perform).await
}

/// Stores a new replay and begins it, unless an earlier try of the request has done so.
async fn begin(core: &Arc<Core>, call: &Call, webhook: &str, replay: WebhookReplay) -> Result<WebhookReplay> {
    let backend = &core.shared.backend;
    let mut is_taken = false;
    for _ in 0..MAX_TRIES {
        let stored = rows::read(backend, webhook, Consistency::Serial).await?;
        match &stored {
            Some((_, Some(stored))) if stored.id == replay.id => return Ok(stored.clone()),
            Some((_, Some(stored))) if stored.finished_at.is_none() => {
                let message = "a replay of this webhook is still under way; wait until it is done";
                return Err(Error::new(ErrorCode::DeliveryInProgress, message));
            }
            Some(_) | None => {}
        }
        if !is_taken {
            call.take_send()?;
            is_taken = true;
        }
        if let Some(version) = rows::write(backend, webhook, stored.map(|(version, _)| version), &replay).await? {
            webhook_replays::spawn(core, webhook.to_owned(), (version, replay.clone()));
            return Ok(replay);
        }
    }
    Err(StoreError::InDoubt("other requests begin replays of the webhook".to_owned()).into())
}

//! Creates, lists, reads and deletes webhooks, and lists their deliveries.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::{
    control::ControlState,
    core::Core,
    error::{Error, Result},
    gate::{Call, Caller},
};
use crate::{
    domain::{
        control::{ControlChange, Project, Webhook},
        delivery::Delivery,
        id,
        list_cursor::{TimePosition, list_name},
    },
    store::deliveries::LogPosition,
};

/// Characters of a signing secret that may be shown.
const SECRET_PREFIX: usize = "whsec_".len() + 4;
/// Rows of a delivery log that one page looks at, at most.
const LOOKED_AT: usize = 500;

/// What a webhook is to be, its shape checked.
#[derive(Clone, Debug, Default)]
pub struct NewWebhook {
    /// Where it receives.
    pub url: String,
    /// Numbers of the event types, each once.
    pub events: Vec<i32>,
    /// Which events.
    pub filters: v1::EventFilters,
    /// For people.
    pub description: Option<String>,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page starts, when there is one.
    pub next_cursor: Option<String>,
}

/// Which deliveries are listed.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Rows of a page.
    pub limit: usize,
    /// Where the page starts.
    pub cursor: Option<String>,
    /// Number of the status.
    pub status: Option<i32>,
    /// Number of the event type.
    pub event_type: Option<i32>,
    /// The event.
    pub event_id: Option<String>,
}

fn not_found() -> Error {
    Error::new(ErrorCode::WebhookNotFound, "there is no such webhook")
}

/// Creates a webhook, named after the seed; answers it with its signing secret.
///
/// # Errors
/// `WEBHOOK_URL_FORBIDDEN`, `WEBHOOK_LIMIT_REACHED`, or when the store does not answer.
pub async fn create(core: &Core, call: &Call, new: &NewWebhook, seed: &str) -> Result<(Arc<Webhook>, String)> {
    let caller = &call.caller;
    core.urls.vet(&new.url, caller.key.live).await?;
    let id = id::derive("wh_", &[seed]);
    let secret = core.shared.keys.new_signing_secret();
    let sealed = core.shared.keys.seal(secret.as_bytes());
    let limit = caller.plan.webhook_endpoints;
    let webhook = core
        .shared
        .control
        .change(|state| {
            // Only a repetition of this very request has made it already.
            if let Some(existing) = state.webhook(&id) {
                return Ok((Vec::new(), Arc::clone(existing)));
            }
            let used = state.webhooks(&caller.project.id, caller.key.live).count();
            if used >= usize::try_from(limit).unwrap_or(usize::MAX) {
                let environment = if caller.key.live { "live" } else { "test" };
                let message = format!("the plan allows {limit} webhooks per project and environment");
                let details = serde_json::json!({ "limit": limit, "environment": environment });
                return Err(ApiError::new(ErrorCode::WebhookLimitReached, message).with_details(details).into());
            }
            let webhook = Webhook {
                id: id.clone(),
                project_id: caller.project.id.clone(),
                live: caller.key.live,
                url: new.url.clone(),
                description: new.description.clone(),
                events: new.events.clone(),
                tokens: new.filters.token.clone(),
                handles: new.filters.handle.clone(),
                chains: new.filters.chain.clone(),
                status: v1::WebhookStatus::Enabled.into(),
                secret: sealed.clone(),
                secret_prefix: secret.chars().take(SECRET_PREFIX).collect(),
                created_at: call.now_ms,
                updated_at: call.now_ms,
            };
            Ok((vec![ControlChange::Webhook(webhook.clone())], Arc::new(webhook)))
        })
        .await?;
    let secret = signing_secret(core, &webhook)?;
    Ok((webhook, secret))
}

/// The signing secret of a webhook, for signing and for the answer to its creation.
///
/// # Errors
/// When it was encrypted with another secret key.
pub fn signing_secret(core: &Core, webhook: &Webhook) -> Result<String> {
    let plain = core.shared.keys.open(&webhook.secret).and_then(|plain| String::from_utf8(plain).ok());
    plain.ok_or_else(|| Error::internal(format!("the secret of {} cannot be decrypted", webhook.id)))
}

/// Reads a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, or when the store does not answer.
pub async fn get(core: &Core, caller: &Caller, id: &str) -> Result<Arc<Webhook>> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let found = state.webhooks(&caller.project.id, caller.key.live).find(|webhook| webhook.id == id);
    found.cloned().ok_or_else(not_found)
}

/// Deletes a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, or when the store does not answer.
pub async fn delete(core: &Core, caller: &Caller, id: &str) -> Result<()> {
    let delete = |state: &ControlState| {
        let mut own = state.webhooks(&caller.project.id, caller.key.live);
        if own.any(|webhook| webhook.id == id) {
            Ok((vec![ControlChange::WebhookDeleted(id.to_owned())], ()))
        } else {
            Err(not_found())
        }
    };
    core.shared.control.change(delete).await
}

/// Lists the webhooks of the caller's project and environment, newest first.
///
/// # Errors
/// `INVALID_CURSOR`, or when the store does not answer.
pub async fn list(
    core: &Core,
    caller: &Caller,
    status: Option<i32>,
    limit: usize,
    cursor: Option<&str>,
) -> Result<Page<Arc<Webhook>>> {
    let signer = core.shared.keys.cursor_signer();
    let name = list_name(&["webhooks", &caller.scope(), &status.unwrap_or_default().to_string()]);
    let after = match cursor {
        Some(cursor) => Some(signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor)?),
        None => None,
    };
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let mut rows: Vec<Arc<Webhook>> = state
        .webhooks(&caller.project.id, caller.key.live)
        .filter(|webhook| status.is_none_or(|status| status == webhook.status))
        .filter(|webhook| {
            after.as_ref().is_none_or(|after| (webhook.created_at, &webhook.id) < (after.created_at, &after.id))
        })
        .cloned()
        .collect();
    drop(state);
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        signer
            .sign(&name, &TimePosition { created_at: last.created_at, id: last.id.clone(), ..TimePosition::default() })
    });
    Ok(Page { rows, next_cursor })
}

/// A delivery of a webhook as it counts, whatever is stored: withdrawing live access cancels what waits, and approval
/// afterwards brings none of it back.
#[must_use]
pub fn counted(state: &ControlState, webhook: &Webhook, delivery: Delivery) -> Delivery {
    let goes_on = |project: &Arc<Project>| project.live_approved && project.live_cancelled_until < delivery.created_at;
    if !webhook.live || delivery.is_over() || state.project(&webhook.project_id).is_some_and(goes_on) {
        delivery
    } else {
        delivery.cancelled()
    }
}

/// Lists the deliveries of a webhook, newest first. A page looks at a bounded number of them, so it may be short.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, `INVALID_CURSOR`, or when the store does not answer.
pub async fn list_deliveries(
    core: &Core,
    call: &Call,
    webhook_id: &str,
    query: &DeliveryQuery,
) -> Result<Page<Delivery>> {
    let webhook = get(core, &call.caller, webhook_id).await?;
    let as_counted = |delivery| counted(&core.shared.control.state(), &webhook, delivery);
    let signer = core.shared.keys.cursor_signer();
    let number = |number: Option<i32>| number.unwrap_or_default().to_string();
    let event_id = query.event_id.as_deref().unwrap_or_default();
    let name = list_name(&["deliveries", webhook_id, &number(query.status), &number(query.event_type), event_id]);
    let mut after: Option<LogPosition> = match &query.cursor {
        Some(cursor) => {
            let position: TimePosition = signer.read(&name, cursor).ok_or_else(Error::invalid_cursor)?;
            Some((position.created_at, position.id))
        }
        None => None,
    };
    let mut rows = Vec::new();
    let mut looked_at = 0;
    let mut has_more = true;
    while has_more && rows.len() < query.limit && looked_at < LOOKED_AT {
        let positions = core.shared.deliveries.log(webhook_id, after.as_ref(), call.now_ms, query.limit + 1).await?;
        has_more = positions.len() > query.limit;
        let ids: Vec<String> = positions.iter().map(|(_, id)| id.clone()).collect();
        let found = core.shared.deliveries.get_many(&ids).await?;
        looked_at += positions.len();
        for (position, delivery) in positions.into_iter().zip(found) {
            if rows.len() == query.limit {
                has_more = true;
                break;
            }
            after = Some(position);
            rows.extend(delivery.map(as_counted).filter(|delivery| {
                query.status.is_none_or(|status| status == delivery.status)
                    && query.event_type.is_none_or(|event_type| event_type == delivery.event_type)
                    && query.event_id.as_ref().is_none_or(|id| *id == delivery.event_id)
            }));
        }
    }
    let next_cursor = after
        .filter(|_| has_more)
        .map(|(created_at, id)| signer.sign(&name, &TimePosition { created_at, id, ..TimePosition::default() }));
    Ok(Page { rows, next_cursor })
}

//! Lists the deliveries of a webhook.

use super::{get_webhook::get_webhook, list_webhooks::Page};
use crate::{
    access::gate::Call,
    delivery::rule::DeliveryRule,
    domain::{
        delivery::Delivery,
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
    tables::deliveries::LogPosition,
};

/// Rows of a delivery log that one page scans.
const LOOKED_AT: usize = 500;

/// The deliveries to list.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Rows of a page.
    pub limit: usize,
    /// Cursor of the page.
    pub cursor: Option<String>,
    /// Number of the status.
    pub status: Option<i32>,
    /// Number of the event type.
    pub event_type: Option<i32>,
    /// The event.
    pub event_id: Option<String>,
}

/// Lists the deliveries of a webhook, newest first. A page scans a bounded number of them, so it may be short.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, `INVALID_CURSOR`, or when the store does not answer.
pub async fn list_deliveries(
    core: &Core,
    call: &Call,
    webhook_id: &str,
    query: &DeliveryQuery,
) -> Result<Page<Delivery>> {
    let webhook = get_webhook(core, &call.caller, webhook_id).await?;
    let as_counted = |delivery| DeliveryRule::of(&core.shared.control.state(), &webhook, call.now_ms).counted(delivery);
    let signer = core.shared.keys.cursor_signer();
    // The name contains every field of a query, except those of the page.
    let DeliveryQuery { limit: _, cursor: _, status, event_type, event_id } = query;
    let number = |number: &Option<i32>| number.unwrap_or_default().to_string();
    let event = event_id.as_deref().unwrap_or_default();
    let name = list_name(&["deliveries", webhook_id, &number(status), &number(event_type), event]);
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
        let found = core.shared.deliveries.page(webhook_id, after.as_ref(), call.now_ms, query.limit + 1).await?;
        has_more = found.len() > query.limit;
        looked_at += found.len();
        for (position, delivery) in found {
            if rows.len() == query.limit {
                has_more = true;
                break;
            }
            after = Some(position);
            rows.extend(Some(as_counted(delivery)).filter(|delivery| {
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

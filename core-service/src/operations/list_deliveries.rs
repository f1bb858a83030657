//! Lists the deliveries of a webhook, newest first. A page scans a bounded number of them, so it may be short. Fails
//! with `WEBHOOK_NOT_FOUND` or `INVALID_CURSOR`.

use thesis_proto::{time::to_millis, v1};

use super::{fields::Fields, get_webhook::read_webhook, paging::Paging};
use crate::{
    access::gate::Call,
    convert,
    delivery::rule::DeliveryRule,
    domain::{list_cursor::list_name, window::DAY_MS},
    error::Result,
    service::Core,
    tables::deliveries::LogPosition,
};

/// Rows of a delivery log that one page scans.
const LOOKED_AT: usize = 500;

/// The name of a list. It contains every field of a request, except those of the page.
fn name_of(message: &v1::ListDeliveriesRequest) -> [u8; 32] {
    let v1::ListDeliveriesRequest { id, limit: _, cursor: _, status, event_type, event_id, created_from, created_to } =
        message;
    let [status, event_type] = [status, event_type].map(i32::to_string);
    let span = [created_from, created_to].map(|at| at.as_ref().map(to_millis));
    let span_text = format!("{span:?}");
    let event = event_id.as_deref().unwrap_or_default();
    let mut name = vec!["deliveries", id.as_str(), status.as_str(), event_type.as_str(), event];
    // Cursors of an earlier version have no span.
    if span != [None, None] {
        name.push(&span_text);
    }
    list_name(&name)
}

pub async fn list_deliveries(
    core: &Core,
    call: &Call,
    message: v1::ListDeliveriesRequest,
) -> Result<v1::ListDeliveriesResponse> {
    let mut fields = Fields::default();
    let limit = fields.page(message.limit, message.cursor.as_deref());
    fields.optional_length("event_id", message.event_id.as_deref(), 1..=64);
    let [from, to] = [&message.created_from, &message.created_to].map(|at| at.as_ref().map(to_millis));
    let status = fields.choice::<v1::DeliveryStatus>("status", message.status);
    let event_type = fields.choice::<v1::EventType>("event_type", message.event_type);
    fields.finish()?;
    call.charge().await?;
    let webhook = read_webhook(core, &call.caller, &message.id).await?;
    let as_counted = |delivery| DeliveryRule::of(&core.shared.control.state(), &webhook, call.now_ms).counted(delivery);
    let paging = Paging::new(core, name_of(&message), message.cursor.as_deref())?;
    let v1::ListDeliveriesRequest { id, event_id, .. } = message;
    // No delivery is created after tomorrow, so the page skips all later months.
    let end = to.map(|to| to.saturating_add(1).min(call.now_ms + DAY_MS));
    let mut after: Option<LogPosition> = paging.after.clone().or_else(|| Some((end?, String::new())));
    let mut data = Vec::new();
    let mut looked_at = 0;
    let mut has_more = true;
    while has_more && data.len() < limit && looked_at < LOOKED_AT {
        let found = core.shared.deliveries.page(&id, after.as_ref(), call.now_ms, limit + 1).await?;
        has_more = found.len() > limit;
        looked_at += found.len();
        for (position, delivery) in found {
            if data.len() == limit {
                has_more = true;
                break;
            }
            if from.is_some_and(|from| position.0 < from) {
                has_more = false;
                break;
            }
            after = Some(position);
            let Some(delivery) = delivery.map(&as_counted) else { continue };
            if status.is_none_or(|status| status == delivery.status)
                && event_type.is_none_or(|event_type| event_type == delivery.event_type)
                && event_id.as_ref().is_none_or(|id| *id == delivery.event_id)
            {
                data.push(convert::delivery::delivery(&delivery));
            }
        }
    }
    let next_cursor = after.filter(|_| has_more).map(|(created_at, id)| paging.cursor_after(created_at, id));
    Ok(v1::ListDeliveriesResponse { data, has_more: next_cursor.is_some(), next_cursor })
}

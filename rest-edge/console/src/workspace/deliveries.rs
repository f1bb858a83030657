//! Deliveries of webhooks: the log of a webhook, single deliveries, and the recent events that its filters match.

mod delivery;
mod matches;
pub(super) mod of_event;

use askama::filters::HtmlSafeOutput;
use axum::{Router, routing::get};
use prost_types::Timestamp;
use thesis_proto::{
    names::{DELIVERY_STATUSES, EVENT_TYPES, delivery_status_name, parse_delivery_status, parse_event_type},
    v1,
};
use tonic::Status;

use super::Workspace;
use crate::{
    failure::Failed,
    form::Faults,
    page_query::{PageQuery, encoded},
    view::{ALL, Badge, Choice, Moment, choices, exact_moment},
};

const LIMIT: i32 = 25;
/// Links to other pages of the log keep these parameters.
const KEPT: &[&str] = &["status", "event_type"];
/// The placeholder for a missing value.
const NONE: &str = "–";

pub(super) fn routes() -> Router {
    Router::new()
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/matches", get(matches::show))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/deliveries/{delivery}", get(delivery::show))
        .route(
            "/console/projects/{id}/{environment}/webhooks/{webhook}/deliveries/{delivery}/replay",
            get(delivery::back).post(delivery::replay),
        )
        .route(
            "/console/projects/{id}/{environment}/webhooks/{webhook}/deliveries/{delivery}/now",
            get(delivery::back).post(delivery::send_now),
        )
}

pub(super) fn delivery_path(workspace: &Workspace, webhook_id: &str, id: &str) -> String {
    format!("{}/deliveries/{}", workspace.webhook_path(webhook_id), encoded(id))
}

/// Formats a time, or the placeholder.
pub(super) fn format_time(at: Option<&Timestamp>) -> Moment {
    at.map_or_else(|| HtmlSafeOutput(NONE.to_owned()), |at| exact_moment(Some(at)))
}

/// Formats a number, or the placeholder.
pub(super) fn number(number: Option<&i32>) -> String {
    number.map_or_else(|| NONE.to_owned(), i32::to_string)
}

pub(super) fn badge(status: v1::DeliveryStatus) -> Badge {
    let class = match status {
        v1::DeliveryStatus::Delivered => "good",
        v1::DeliveryStatus::Retrying => "warn",
        v1::DeliveryStatus::Failed => "bad",
        v1::DeliveryStatus::Pending | v1::DeliveryStatus::Unspecified => "",
    };
    Badge { word: delivery_status_name(status), class }
}

/// The marks of a delivery that is a test, a replay, or both.
pub(super) fn marks(delivery: &v1::WebhookDelivery) -> Vec<&'static str> {
    [(delivery.is_test, "test"), (delivery.is_replay, "replay")]
        .into_iter()
        .filter_map(|(is_so, mark)| is_so.then_some(mark))
        .collect()
}

/// The choices of an enum's names, after the choice of all.
fn named<T>(all: &'static [(T, &'static str)], taken: &str) -> Vec<Choice> {
    choices([ALL].into_iter().chain(all.iter().map(|&(_, name)| (name, name))), taken)
}

/// Explains the reason for a missing response.
pub(super) fn failure_meaning(reason: &str) -> &'static str {
    match reason {
        "timeout" => "The endpoint did not respond in time.",
        "dns failed" => "The host's name leads to no address: DNS has none, or did not answer.",
        "connection refused" => "The host refused the connection: nothing listens at this port.",
        "connection failed" => "No connection came about: the host cannot be reached, or ended it at once.",
        "tls failed" => "TLS failed: the endpoint did not show a valid certificate for its name.",
        "no valid response" => "The endpoint did not answer with HTTP.",
        reason if reason.starts_with("address refused") => "The service does not send to this address.",
        _ => "",
    }
}

/// True if the endpoint accepted the event.
pub(super) fn has_succeeded(attempt: &v1::DeliveryAttempt) -> bool {
    attempt.response_status.is_some_and(|status| (200..300).contains(&status))
}

/// The beginning of a response's body as text.
pub(super) fn body_text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// True if no attempt will follow.
pub(super) fn is_over(status: v1::DeliveryStatus) -> bool {
    matches!(status, v1::DeliveryStatus::Delivered | v1::DeliveryStatus::Failed)
}

/// A page of a webhook's delivery log. `deliveries_log.html` shows it as `log`.
pub(super) struct DeliveryLog {
    /// The path of the webhook's page, which contains the log.
    pub(super) path: String,
    pub(super) statuses: Vec<Choice>,
    pub(super) event_types: Vec<Choice>,
    /// True if the query filters the deliveries.
    pub(super) is_filtered: bool,
    /// The faults of the query.
    pub(super) faults: Faults,
    /// Newest first. A page may be empty although older pages have rows.
    pub(super) rows: Vec<v1::WebhookDelivery>,
    /// The path of the newest page; none on that page.
    pub(super) first: Option<String>,
    /// The path of the next page, with older deliveries.
    pub(super) next: Option<String>,
}

async fn list(
    workspace: &Workspace,
    webhook_id: &str,
    query: &PageQuery,
) -> Result<v1::ListDeliveriesResponse, Status> {
    let mut read = query.reader();
    let message = v1::ListDeliveriesRequest {
        id: webhook_id.to_owned(),
        limit: Some(LIMIT),
        cursor: read.text("cursor"),
        status: read.choice("status", parse_delivery_status).unwrap_or_default().into(),
        event_type: read.choice("event_type", parse_event_type).unwrap_or_default().into(),
        ..v1::ListDeliveriesRequest::default()
    };
    let message = read.finish(message)?;
    Ok(workspace.core().webhooks.list_deliveries(workspace.request(message)).await?.into_inner())
}

/// Reads the page of a webhook's delivery log that the parameters `status`, `event_type` and `cursor` select.
///
/// # Errors
/// Fails when the webhook does not exist, or core does not respond.
pub(super) async fn log(workspace: &Workspace, webhook_id: &str, query: &PageQuery) -> Result<DeliveryLog, Failed> {
    let (listed, faults) = Faults::of_query(list(workspace, webhook_id, query).await)?;
    let path = workspace.webhook_path(webhook_id);
    Ok(DeliveryLog {
        statuses: named(DELIVERY_STATUSES, query.text("status")),
        event_types: named(EVENT_TYPES, query.text("event_type")),
        is_filtered: query.has_value(KEPT),
        faults,
        rows: listed.data,
        first: query.given("cursor").map(|_| query.link(&path, KEPT, None)),
        next: listed.next_cursor.as_deref().map(|cursor| query.link(&path, KEPT, Some(cursor))),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_delivery_is_beside_is_marked() {
        let delivery = v1::WebhookDelivery { is_test: true, is_replay: true, ..v1::WebhookDelivery::default() };
        assert_eq!(marks(&delivery), ["test", "replay"]);
        assert!(marks(&v1::WebhookDelivery::default()).is_empty());
    }
}

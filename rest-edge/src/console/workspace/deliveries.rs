//! What webhooks are sent: the log of a webhook's deliveries, single ones, and what its filters match.

mod delivery;
mod matches;

use std::sync::Arc;

use axum::{Router, routing::get};
use prost_types::Timestamp;
use thesis_proto::{
    names::{
        DELIVERY_STATUSES, EVENT_TYPES, delivery_status_name, event_type_name, parse_delivery_status, parse_event_type,
    },
    v1,
};
use tonic::Status;

use super::{Workspace, webhooks::path_of};
use crate::console::{
    Console,
    form::Faults,
    page_query::{PageQuery, encoded},
    view::{ALL, Badge, Choice, Failed, choices, exact_time},
};

/// Deliveries of a page of the log.
const LIMIT: i32 = 25;
/// The parameters that links to other pages of the log keep.
const KEPT: &[&str] = &["status", "event_type"];
/// What stands for a value that is not there.
const NONE: &str = "–";

/// The routes of deliveries, below those of their webhook.
pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/matches", get(matches::show))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/deliveries/{delivery}", get(delivery::show))
        .route(
            "/console/projects/{id}/{environment}/webhooks/{webhook}/deliveries/{delivery}/replay",
            get(delivery::back).post(delivery::replay),
        )
}

/// The path of a delivery's page.
fn delivery_path(workspace: &Workspace, webhook_id: &str, id: &str) -> String {
    format!("{}/deliveries/{}", path_of(workspace, webhook_id), encoded(id))
}

/// A time, or what stands for none.
fn moment(at: Option<&Timestamp>) -> String {
    at.map_or_else(|| NONE.to_owned(), |at| exact_time(Some(at)))
}

/// A number, or what stands for none.
fn number(number: Option<i32>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

/// The badge of a delivery's status.
fn badge(status: v1::DeliveryStatus) -> Badge {
    let class = match status {
        v1::DeliveryStatus::Delivered => "good",
        v1::DeliveryStatus::Retrying => "warn",
        v1::DeliveryStatus::Failed => "bad",
        v1::DeliveryStatus::Pending | v1::DeliveryStatus::Unspecified => "",
    };
    Badge { word: delivery_status_name(status), class }
}

/// What a delivery is beside an event's own one: a test, a replay, or both.
fn marks(delivery: &v1::WebhookDelivery) -> Vec<&'static str> {
    [(delivery.is_test, "test"), (delivery.is_replay, "replay")]
        .into_iter()
        .filter_map(|(is_so, mark)| is_so.then_some(mark))
        .collect()
}

/// The names of a list, and the choice of all.
fn named<T>(all: &'static [(T, &'static str)], taken: &str) -> Vec<Choice> {
    choices([ALL].into_iter().chain(all.iter().map(|&(_, name)| (name, name))), taken)
}

/// A delivery as a row of the log.
pub(super) struct DeliveryRow {
    /// The path of its page.
    pub(super) path: String,
    pub(super) event_type: &'static str,
    pub(super) status: Badge,
    /// How many attempts were made, of how many at most.
    pub(super) attempts: String,
    /// The status of the last answer.
    pub(super) code: String,
    /// How long the last attempt took, in milliseconds.
    pub(super) latency: String,
    pub(super) created: String,
    pub(super) delivered: String,
    pub(super) marks: Vec<&'static str>,
    /// Whether it can be replayed.
    pub(super) is_over: bool,
}

/// Whether no attempt will follow.
fn is_over(status: v1::DeliveryStatus) -> bool {
    matches!(status, v1::DeliveryStatus::Delivered | v1::DeliveryStatus::Failed)
}

impl DeliveryRow {
    fn of(workspace: &Workspace, delivery: &v1::WebhookDelivery) -> Self {
        Self {
            path: delivery_path(workspace, &delivery.webhook_id, &delivery.id),
            event_type: event_type_name(delivery.event_type()),
            status: badge(delivery.status()),
            attempts: format!("{} of {}", delivery.attempt, delivery.max_attempts),
            code: number(delivery.response_status),
            latency: number(delivery.latency_ms),
            created: moment(delivery.created_at.as_ref()),
            delivered: moment(delivery.delivered_at.as_ref()),
            marks: marks(delivery),
            is_over: is_over(delivery.status()),
        }
    }
}

/// A page of a webhook's delivery log. `deliveries_log.html` shows it, under the name `log`.
pub(super) struct DeliveryLog {
    /// The path of the webhook's page, on which the log stands.
    pub(super) path: String,
    pub(super) statuses: Vec<Choice>,
    pub(super) event_types: Vec<Choice>,
    /// Whether only some deliveries are asked for.
    pub(super) is_filtered: bool,
    /// What is wrong with the question.
    pub(super) faults: Faults,
    /// Newest first. There may be none although `next` has some.
    pub(super) rows: Vec<DeliveryRow>,
    /// The newest page, where this is another one.
    pub(super) first: Option<String>,
    /// The page with older ones.
    pub(super) next: Option<String>,
}

async fn list(
    console: &Console,
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
        event_id: None,
    };
    let message = read.finish(message)?;
    Ok(console.core.webhooks.list_deliveries(workspace.request(message)).await?.into_inner())
}

/// Reads a page of a webhook's delivery log: the one that the query of the webhook's page asks for by `status`,
/// `event_type` and `cursor`.
///
/// # Errors
/// When there is no such webhook, or core does not answer.
pub(super) async fn log(
    console: &Console,
    workspace: &Workspace,
    webhook_id: &str,
    query: &PageQuery,
) -> Result<DeliveryLog, Failed> {
    let (listed, faults) = Faults::of_query(list(console, workspace, webhook_id, query).await)?;
    let path = path_of(workspace, webhook_id);
    Ok(DeliveryLog {
        statuses: named(DELIVERY_STATUSES, query.text("status")),
        event_types: named(EVENT_TYPES, query.text("event_type")),
        is_filtered: query.has_value(KEPT),
        faults,
        rows: listed.data.iter().map(|delivery| DeliveryRow::of(workspace, delivery)).collect(),
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

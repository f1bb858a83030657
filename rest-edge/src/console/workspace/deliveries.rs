//! What webhooks are sent: the log of a webhook's deliveries, single ones, and what its filters match.

mod delivery;
mod matches;

use std::{collections::HashMap, sync::Arc};

use axum::{Router, routing::get};
use prost_types::Timestamp;
use thesis_proto::{
    names::{
        DELIVERY_STATUSES, EVENT_TYPES, delivery_status_name, event_type_name, parse_delivery_status, parse_event_type,
    },
    time::{format_millis, to_millis},
    v1,
};

use super::Workspace;
use crate::console::{Console, view::Failed};

/// Deliveries of a page of the log.
const LIMIT: i32 = 25;
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

/// The path of a webhook's page. Its id is one that core told.
fn webhook_path(workspace: &Workspace, webhook_id: &str) -> String {
    workspace.path(&format!("/webhooks/{webhook_id}"))
}

/// The path of a delivery's page. The ids are those that core told.
fn delivery_path(workspace: &Workspace, webhook_id: &str, id: &str) -> String {
    workspace.path(&format!("/webhooks/{webhook_id}/deliveries/{id}"))
}

/// A time for people, in UTC to the second.
fn moment(at: Option<&Timestamp>) -> String {
    let Some(at) = at else { return NONE.to_owned() };
    let text = format_millis(to_millis(at));
    format!("{} {} UTC", &text[..10], &text[11..19])
}

/// A number, or what stands for none.
fn number(number: Option<i32>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

/// A delivery's status.
#[derive(Clone, Copy)]
pub(super) struct Badge {
    pub(super) text: &'static str,
    /// The class of its colour.
    pub(super) class: &'static str,
}

impl From<v1::DeliveryStatus> for Badge {
    fn from(status: v1::DeliveryStatus) -> Self {
        let class = match status {
            v1::DeliveryStatus::Delivered => "good",
            v1::DeliveryStatus::Retrying => "warn",
            v1::DeliveryStatus::Failed => "bad",
            v1::DeliveryStatus::Pending | v1::DeliveryStatus::Unspecified => "",
        };
        Self { text: delivery_status_name(status), class }
    }
}

/// What a delivery is beside an event's own one: a test, a replay, or both.
fn marks(delivery: &v1::WebhookDelivery) -> Vec<&'static str> {
    [(delivery.is_test, "test"), (delivery.is_replay, "replay")]
        .into_iter()
        .filter_map(|(is_so, mark)| is_so.then_some(mark))
        .collect()
}

/// A choice of a list.
pub(super) struct Choice {
    pub(super) name: &'static str,
    pub(super) is_chosen: bool,
}

fn choices<T: Copy + PartialEq>(all: &[(T, &'static str)], chosen: Option<T>) -> Vec<Choice> {
    all.iter().map(|&(value, name)| Choice { name, is_chosen: chosen == Some(value) }).collect()
}

/// A delivery as a row of the log.
pub(super) struct Row {
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

impl Row {
    fn of(workspace: &Workspace, delivery: &v1::WebhookDelivery) -> Self {
        Self {
            path: delivery_path(workspace, &delivery.webhook_id, &delivery.id),
            event_type: event_type_name(delivery.event_type()),
            status: delivery.status().into(),
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
pub(super) struct Log {
    /// The path of the webhook's page, on which the log stands.
    pub(super) path: String,
    pub(super) statuses: Vec<Choice>,
    pub(super) event_types: Vec<Choice>,
    /// Whether only some deliveries are asked for.
    pub(super) is_filtered: bool,
    /// Newest first. There may be none although `next` has some.
    pub(super) rows: Vec<Row>,
    /// The newest page, where this is another one.
    pub(super) first: Option<String>,
    /// The page with older ones.
    pub(super) next: Option<String>,
}

/// Reads a page of a webhook's delivery log: the one that the query of the webhook's page asks for by `status`,
/// `event_type` and `cursor`.
///
/// # Errors
/// When there is no such webhook, the cursor is not of this list, or core does not answer.
pub(super) async fn log(
    console: &Console,
    workspace: &Workspace,
    webhook_id: &str,
    query: &HashMap<String, String>,
) -> Result<Log, Failed> {
    let asked = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let (status, event_type) = (asked("status"), asked("event_type"));
    let (status, event_type) = (status.and_then(parse_delivery_status), event_type.and_then(parse_event_type));
    let cursor = asked("cursor");
    let message = v1::ListDeliveriesRequest {
        id: webhook_id.to_owned(),
        limit: Some(LIMIT),
        cursor: cursor.map(str::to_owned),
        status: status.unwrap_or_default().into(),
        event_type: event_type.unwrap_or_default().into(),
        event_id: None,
    };
    let listed = console.core.webhooks.list_deliveries(workspace.request(message)).await?.into_inner();
    let path = webhook_path(workspace, webhook_id);
    let page = |cursor: Option<&str>| {
        let (status, event_type) = (status.map(delivery_status_name), event_type.map(event_type_name));
        link(&path, &[("status", status), ("event_type", event_type), ("cursor", cursor)])
    };
    Ok(Log {
        statuses: choices(DELIVERY_STATUSES, status),
        event_types: choices(EVENT_TYPES, event_type),
        is_filtered: status.is_some() || event_type.is_some(),
        rows: listed.data.iter().map(|delivery| Row::of(workspace, delivery)).collect(),
        first: cursor.map(|_| page(None)),
        next: listed.next_cursor.as_deref().map(|cursor| page(Some(cursor))),
        path,
    })
}

/// A path with a query of the parameters that there are.
fn link(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let told: Vec<(&str, &str)> = query.iter().filter_map(|&(name, value)| Some((name, value?))).collect();
    // Pairs of texts can always be written.
    let query = serde_html_form::to_string(told).unwrap_or_default();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn pages_keep_what_was_asked_for() {
        assert_eq!(link("/log", &[("status", None), ("cursor", None)]), "/log");
        assert_eq!(
            link("/log", &[("status", Some("failed")), ("cursor", Some("a=&b"))]),
            "/log?status=failed&cursor=a%3D%26b"
        );
    }

    #[test]
    fn times_are_told_to_the_second() {
        assert_eq!(moment(Some(&from_millis(1_767_225_601_999))), "2026-01-01 00:00:01 UTC");
        assert_eq!(moment(None), NONE);
    }

    #[test]
    fn what_a_delivery_is_beside_is_marked() {
        let delivery = v1::WebhookDelivery { is_test: true, is_replay: true, ..v1::WebhookDelivery::default() };
        assert_eq!(marks(&delivery), ["test", "replay"]);
        assert!(marks(&v1::WebhookDelivery::default()).is_empty());
    }
}

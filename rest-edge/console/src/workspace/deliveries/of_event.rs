//! The deliveries of one event to the webhooks of its environment.

use futures::future::try_join_all;
use thesis_proto::v1;
use tonic::Status;

use super::Workspace;

/// Maximum number of webhooks whose deliveries are read. Each costs the member two calls.
const MAX_WEBHOOKS: usize = 10;
/// Webhooks per page of their list.
const LIST: i32 = 100;
/// Maximum number of deliveries per webhook on the page: the first one, and replays.
const LIMIT: i32 = 10;

/// A delivery, with the name of its webhook.
pub(in crate::workspace) struct EventDelivery {
    /// The description or URL of the webhook.
    pub(in crate::workspace) webhook: String,
    pub(in crate::workspace) delivery: v1::WebhookDelivery,
}

/// Reads the deliveries of an event. None if they cannot be read now: the page is useful without them.
pub(in crate::workspace) async fn deliveries_of(
    workspace: &Workspace,
    event: &v1::Event,
) -> Option<Vec<EventDelivery>> {
    match read(workspace, event).await {
        Ok(found) => Some(found),
        Err(status) => {
            tracing::debug!(%status, "the deliveries of an event are not shown");
            None
        }
    }
}

async fn read(workspace: &Workspace, event: &v1::Event) -> Result<Vec<EventDelivery>, Status> {
    let message = v1::ListWebhooksRequest { limit: Some(LIST), ..v1::ListWebhooksRequest::default() };
    let webhooks = workspace.core().webhooks.list_webhooks(workspace.request(message)).await?.into_inner().data;
    // A webhook gets only events after its creation.
    let is_older = |webhook: &v1::Webhook| at(webhook.created_at.as_ref()) <= at(event.created_at.as_ref());
    let wants = |webhook: &v1::Webhook| webhook.events().any(|event_type| event_type == event.r#type());
    let mut webhooks: Vec<_> = webhooks.into_iter().filter(is_older).collect();
    // The types of a webhook may have changed since the event, so the others are kept but come last.
    webhooks.sort_by_key(|webhook| !wants(webhook));
    webhooks.truncate(MAX_WEBHOOKS);
    let reads = webhooks.iter().map(|webhook| of_webhook(workspace, webhook, event));
    Ok(try_join_all(reads).await?.into_iter().flatten().collect())
}

fn at(time: Option<&prost_types::Timestamp>) -> i64 {
    time.map_or(0, thesis_proto::time::to_millis)
}

async fn list(workspace: &Workspace, message: v1::ListDeliveriesRequest) -> Result<Vec<v1::WebhookDelivery>, Status> {
    Ok(workspace.core().webhooks.list_deliveries(workspace.request(message)).await?.into_inner().data)
}

/// Reads the first delivery of an event to a webhook, which has the event's time, and replays among the newest ones.
async fn of_webhook(
    workspace: &Workspace,
    webhook: &v1::Webhook,
    event: &v1::Event,
) -> Result<Vec<EventDelivery>, Status> {
    let newest = v1::ListDeliveriesRequest {
        id: webhook.id.clone(),
        limit: Some(LIMIT),
        event_id: Some(event.id.clone()),
        ..v1::ListDeliveriesRequest::default()
    };
    let first =
        v1::ListDeliveriesRequest { created_from: event.created_at, created_to: event.created_at, ..newest.clone() };
    let (mut found, mut first) = tokio::try_join!(list(workspace, newest), list(workspace, first))?;
    // The first one may be among the newest.
    first.retain(|delivery| found.iter().all(|other| other.id != delivery.id));
    found.append(&mut first);
    let name = webhook.description.as_deref().filter(|text| !text.is_empty()).unwrap_or(&webhook.url);
    Ok(found.into_iter().map(|delivery| EventDelivery { webhook: name.to_owned(), delivery }).collect())
}

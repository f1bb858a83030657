//! `WebhookService`.

use thesis_proto::v1::{self, webhook_service_server::WebhookService};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::answer,
    event::compile,
    fields::Fields,
    thesis::{CURSOR, DEFAULT_LIMIT, LIMIT},
};
use crate::{
    convert,
    domain::operation::Operation,
    error::Result as Outcome,
    operations::{
        create_webhook::{NewWebhook, create_webhook},
        delete_webhook::delete_webhook,
        get_webhook::get_webhook,
        list_deliveries::{DeliveryQuery, list_deliveries},
        list_webhooks::list_webhooks,
    },
};

fn new_webhook(message: &v1::CreateWebhookRequest) -> Outcome<NewWebhook> {
    let mut fields = Fields::default();
    let url = fields.required("url", message.url.as_deref(), 1..=2048);
    if !(1..=10).contains(&message.events.len()) {
        fields.reject("events", "must have 1 to 10 items");
    }
    let mut events = Vec::new();
    for number in &message.events {
        if v1::EventType::try_from(*number).is_ok_and(|event| event != v1::EventType::Unspecified) {
            if !events.contains(number) {
                events.push(*number);
            }
        } else {
            fields.reject("events", "names an unknown event type");
        }
    }
    compile(&mut fields, &[], message.filters.as_ref(), "filters.");
    fields.optional_length("description", message.description.as_deref(), 0..=500);
    fields.finish()?;
    Ok(NewWebhook {
        url: url.to_owned(),
        events,
        filters: message.filters.clone().unwrap_or_default(),
        description: message.description.clone(),
    })
}

/// An enum's number that may be absent; an unknown one is noted.
fn choice<E: TryFrom<i32>>(fields: &mut Fields, param: &str, number: i32) -> Option<i32> {
    if E::try_from(number).is_err() {
        fields.reject(param, "names an unknown value");
    }
    (number != 0).then_some(number)
}

#[async_trait]
impl WebhookService for Api {
    async fn create_webhook(
        &self,
        request: Request<v1::CreateWebhookRequest>,
    ) -> Result<Response<v1::CreateWebhookResponse>, Status> {
        let operation = Operation::CreateWebhook;
        answer(&self.core, operation, request, |call, message| async move {
            let new = new_webhook(&message)?;
            call.charge().await?;
            let create = async |seed: &str| {
                let (webhook, secret) = create_webhook(&self.core, &call, &new, seed).await?;
                Ok(v1::CreateWebhookResponse { webhook: Some(convert::control::webhook(&webhook)), secret })
            };
            self.core.idempotency.once(&call, operation, &message, create).await
        })
        .await
    }

    async fn list_webhooks(
        &self,
        request: Request<v1::ListWebhooksRequest>,
    ) -> Result<Response<v1::ListWebhooksResponse>, Status> {
        answer(&self.core, Operation::ListWebhooks, request, |call, message| async move {
            let mut fields = Fields::default();
            let limit = fields.limit("limit", message.limit, LIMIT, DEFAULT_LIMIT);
            fields.optional_length("cursor", message.cursor.as_deref(), CURSOR);
            let status = choice::<v1::WebhookStatus>(&mut fields, "status", message.status);
            fields.finish()?;
            call.charge().await?;
            let page = list_webhooks(&self.core, &call.caller, status, limit, message.cursor.as_deref()).await?;
            Ok(v1::ListWebhooksResponse {
                data: page.rows.iter().map(|row| convert::control::webhook(row)).collect(),
                has_more: page.next_cursor.is_some(),
                next_cursor: page.next_cursor,
            })
        })
        .await
    }

    async fn get_webhook(
        &self,
        request: Request<v1::GetWebhookRequest>,
    ) -> Result<Response<v1::GetWebhookResponse>, Status> {
        answer(&self.core, Operation::GetWebhook, request, |call, message| async move {
            call.charge().await?;
            let webhook = get_webhook(&self.core, &call.caller, &message.id).await?;
            Ok(v1::GetWebhookResponse { webhook: Some(convert::control::webhook(&webhook)) })
        })
        .await
    }

    async fn update_webhook(
        &self,
        _: Request<v1::UpdateWebhookRequest>,
    ) -> Result<Response<v1::UpdateWebhookResponse>, Status> {
        Err(Status::unimplemented("changing webhooks is not built yet"))
    }

    async fn delete_webhook(
        &self,
        request: Request<v1::DeleteWebhookRequest>,
    ) -> Result<Response<v1::DeleteWebhookResponse>, Status> {
        answer(&self.core, Operation::DeleteWebhook, request, |call, message| async move {
            call.charge().await?;
            delete_webhook(&self.core, &call.caller, &message.id).await?;
            Ok(v1::DeleteWebhookResponse { id: message.id })
        })
        .await
    }

    async fn rotate_webhook_secret(
        &self,
        _: Request<v1::RotateWebhookSecretRequest>,
    ) -> Result<Response<v1::RotateWebhookSecretResponse>, Status> {
        Err(Status::unimplemented("rotating secrets is not built yet"))
    }

    async fn test_webhook(
        &self,
        _: Request<v1::TestWebhookRequest>,
    ) -> Result<Response<v1::TestWebhookResponse>, Status> {
        Err(Status::unimplemented("test sends are not built yet"))
    }

    async fn list_deliveries(
        &self,
        request: Request<v1::ListDeliveriesRequest>,
    ) -> Result<Response<v1::ListDeliveriesResponse>, Status> {
        answer(&self.core, Operation::ListDeliveries, request, |call, message| async move {
            let mut fields = Fields::default();
            let limit = fields.limit("limit", message.limit, LIMIT, DEFAULT_LIMIT);
            fields.optional_length("cursor", message.cursor.as_deref(), CURSOR);
            fields.optional_length("event_id", message.event_id.as_deref(), 1..=64);
            let status = choice::<v1::DeliveryStatus>(&mut fields, "status", message.status);
            let event_type = choice::<v1::EventType>(&mut fields, "event_type", message.event_type);
            fields.finish()?;
            call.charge().await?;
            let query = DeliveryQuery { limit, cursor: message.cursor, status, event_type, event_id: message.event_id };
            let page = list_deliveries(&self.core, &call, &message.id, &query).await?;
            Ok(v1::ListDeliveriesResponse {
                data: page.rows.iter().map(convert::delivery::delivery).collect(),
                has_more: page.next_cursor.is_some(),
                next_cursor: page.next_cursor,
            })
        })
        .await
    }

    async fn replay_delivery(
        &self,
        _: Request<v1::ReplayDeliveryRequest>,
    ) -> Result<Response<v1::ReplayDeliveryResponse>, Status> {
        Err(Status::unimplemented("replays are not built yet"))
    }
}

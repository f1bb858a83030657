//! `WebhookService`.

use thesis_proto::{
    names, near,
    time::{is_time, to_millis},
    v1::{self, webhook_service_server::WebhookService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{answer, change},
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
        get_delivery::get_delivery,
        get_webhook::get_webhook,
        list_deliveries::{DeliveryQuery, list_deliveries},
        list_webhooks::{WebhookQuery, list_webhooks},
        replay_delivery::replay_delivery,
        rotate_webhook_secret::rotate_webhook_secret,
        test_webhook::test_webhook,
        update_webhook::{WebhookChanges, update_webhook},
    },
};

/// The event types of a webhook, each once.
fn event_types(fields: &mut Fields, numbers: &[i32]) -> Vec<i32> {
    if !(1..=10).contains(&numbers.len()) {
        fields.reject("events", "must have 1 to 10 items");
    }
    let known: Vec<&str> = names::EVENT_TYPES.iter().map(|(_, name)| *name).collect();
    let mut events = Vec::new();
    for number in numbers {
        if v1::EventType::try_from(*number).is_ok_and(|event| event != v1::EventType::Unspecified) {
            if !events.contains(number) {
                events.push(*number);
            }
        } else {
            fields.reject("events", format!("names an unknown event type; it must be of: {}", known.join(", ")));
        }
    }
    events
}

fn new_webhook(message: &v1::CreateWebhookRequest) -> Outcome<NewWebhook> {
    let mut fields = Fields::default();
    let url = fields.required("url", message.url.as_deref(), 1..=2048);
    let events = event_types(&mut fields, &message.events);
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

/// Returns the fields of a request without a mask.
fn given(message: &v1::UpdateWebhookRequest) -> Vec<&str> {
    let given = [
        ("url", message.url.is_some()),
        ("events", !message.events.is_empty()),
        ("filters", message.filters.is_some()),
        ("description", message.description.is_some()),
        ("status", message.status != 0),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

/// Only the fields in the mask change. An absent one is cleared, if that is allowed.
fn changes(message: &v1::UpdateWebhookRequest) -> Outcome<WebhookChanges> {
    let mut fields = Fields::default();
    let mut changes = WebhookChanges::default();
    let paths = match &message.update_mask {
        Some(mask) => mask.paths.iter().map(String::as_str).collect(),
        None => given(message),
    };
    for path in paths {
        match path {
            "url" => changes.url = Some(fields.required("url", message.url.as_deref(), 1..=2048).to_owned()),
            "events" => changes.events = Some(event_types(&mut fields, &message.events)),
            "filters" => {
                compile(&mut fields, &[], message.filters.as_ref(), "filters.");
                changes.filters = Some(message.filters.clone().unwrap_or_default());
            }
            "description" => {
                fields.optional_length("description", message.description.as_deref(), 0..=500);
                changes.description = Some(message.description.clone());
            }
            "status" => {
                if !matches!(message.status(), v1::WebhookStatus::Enabled | v1::WebhookStatus::Disabled) {
                    fields.reject("status", "must be enabled or disabled");
                }
                changes.status = Some(message.status);
            }
            other => {
                let rule = "must be of: url, events, filters, description, status";
                let known = ["url", "events", "filters", "description", "status"];
                fields.reject("update_mask", near::with_nearest(rule, other, known));
            }
        }
    }
    if message.unchanged_since.as_ref().is_some_and(|time| !is_time(time)) {
        fields.reject("unchanged_since", "must be a time of the years 1 to 9999");
    }
    changes.unchanged_since = message.unchanged_since.as_ref().map(to_millis);
    fields.finish()?;
    Ok(changes)
}

/// Reads an optional number of an enum; notes an unknown one.
fn choice<E: TryFrom<i32>>(fields: &mut Fields, param: &str, number: i32) -> Option<i32> {
    if E::try_from(number).is_err() {
        fields.reject(param, "names an unknown value; name one of the enum, or none");
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
        change(&self.core, operation, request, |core, call, message| async move {
            let new = new_webhook(&message)?;
            call.charge().await?;
            let create = async |seed: &str| {
                let (webhook, secret) = create_webhook(&core, &call, &new, seed).await?;
                Ok(v1::CreateWebhookResponse { webhook: Some(convert::control::webhook(&webhook)), secret })
            };
            core.idempotency.once(&call, operation, &message, create).await
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
            let query = WebhookQuery { limit, cursor: message.cursor, status };
            let page = list_webhooks(&self.core, &call.caller, &query).await?;
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
        request: Request<v1::UpdateWebhookRequest>,
    ) -> Result<Response<v1::UpdateWebhookResponse>, Status> {
        let operation = Operation::UpdateWebhook;
        change(&self.core, operation, request, |core, call, message| async move {
            let changes = changes(&message)?;
            call.charge().await?;
            let update = async |_: &str| {
                let webhook = update_webhook(&core, &call, &message.id, &changes).await?;
                Ok(v1::UpdateWebhookResponse { webhook: Some(convert::control::webhook(&webhook)) })
            };
            core.idempotency.once(&call, operation, &message, update).await
        })
        .await
    }

    async fn delete_webhook(
        &self,
        request: Request<v1::DeleteWebhookRequest>,
    ) -> Result<Response<v1::DeleteWebhookResponse>, Status> {
        change(&self.core, Operation::DeleteWebhook, request, |core, call, message| async move {
            call.charge().await?;
            delete_webhook(&core, &call, &message.id).await?;
            Ok(v1::DeleteWebhookResponse { id: message.id })
        })
        .await
    }

    async fn rotate_webhook_secret(
        &self,
        request: Request<v1::RotateWebhookSecretRequest>,
    ) -> Result<Response<v1::RotateWebhookSecretResponse>, Status> {
        let operation = Operation::RotateWebhookSecret;
        change(&self.core, operation, request, |core, call, message| async move {
            call.charge().await?;
            let rotate = async |seed: &str| {
                let (webhook, secret) = rotate_webhook_secret(&core, &call, &message.id, seed).await?;
                let webhook = Some(convert::control::webhook(&webhook));
                Ok(v1::RotateWebhookSecretResponse { webhook, secret })
            };
            core.idempotency.once(&call, operation, &message, rotate).await
        })
        .await
    }

    async fn test_webhook(
        &self,
        request: Request<v1::TestWebhookRequest>,
    ) -> Result<Response<v1::TestWebhookResponse>, Status> {
        let operation = Operation::TestWebhook;
        change(&self.core, operation, request, |core, call, message| async move {
            call.demand_send()?;
            call.charge().await?;
            let test = async |seed: &str| {
                let delivery = test_webhook(&core, &call, &message.id, seed).await?;
                Ok(v1::TestWebhookResponse { delivery: Some(convert::delivery::delivery(&delivery)) })
            };
            core.idempotency.once(&call, operation, &message, test).await
        })
        .await
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

    async fn get_delivery(
        &self,
        request: Request<v1::GetDeliveryRequest>,
    ) -> Result<Response<v1::GetDeliveryResponse>, Status> {
        answer(&self.core, Operation::GetDelivery, request, |call, message| async move {
            call.charge().await?;
            let (delivery, payload) = get_delivery(&self.core, &call, &message.id).await?;
            let delivery_message = Some(convert::delivery::delivery(&delivery));
            Ok(v1::GetDeliveryResponse { delivery: delivery_message, payload, replay_of: delivery.replay_of })
        })
        .await
    }

    async fn replay_delivery(
        &self,
        request: Request<v1::ReplayDeliveryRequest>,
    ) -> Result<Response<v1::ReplayDeliveryResponse>, Status> {
        let operation = Operation::ReplayDelivery;
        change(&self.core, operation, request, |core, call, message| async move {
            call.demand_send()?;
            call.charge().await?;
            let replay = async |seed: &str| {
                let delivery = replay_delivery(&core, &call, &message.id, seed).await?;
                Ok(v1::ReplayDeliveryResponse { delivery: Some(convert::delivery::delivery(&delivery)) })
            };
            core.idempotency.once(&call, operation, &message, replay).await
        })
        .await
    }
}

//! The responses about webhooks that are no resources.

use serde::{Deserialize, Serialize};
use utoipa::{
    ToSchema,
    openapi::{Object, ObjectBuilder, Type},
};

use super::{Webhook, object_of_webhook, part};
use crate::v1;

/// A webhook with its signing secret, which is shown only when it is new.
#[derive(Serialize, ToSchema)]
pub struct WebhookWithSecret<'a> {
    #[serde(flatten)]
    webhook: Webhook<'a>,
    /// The signing secret, prefix `whsec_`. Keep it: it is not shown again.
    secret: &'a str,
}

impl<'a> From<&'a v1::CreateWebhookResponse> for WebhookWithSecret<'a> {
    fn from(response: &'a v1::CreateWebhookResponse) -> Self {
        Self { webhook: part(&response.webhook), secret: &response.secret }
    }
}

impl<'a> From<&'a v1::RotateWebhookSecretResponse> for WebhookWithSecret<'a> {
    fn from(response: &'a v1::RotateWebhookSecretResponse) -> Self {
        Self { webhook: part(&response.webhook), secret: &response.secret }
    }
}

/// A deleted webhook.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedWebhook<'a> {
    #[schema(schema_with = object_of_webhook)]
    object: &'static str,
    /// Id of the webhook that is no more.
    id: &'a str,
    #[schema(schema_with = always_true)]
    deleted: bool,
}

impl<'a> From<&'a v1::DeleteWebhookResponse> for DeletedWebhook<'a> {
    fn from(response: &'a v1::DeleteWebhookResponse) -> Self {
        Self { object: "webhook", id: &response.id, deleted: true }
    }
}

fn always_true() -> Object {
    let object = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
    object.description(Some("Always true.")).build()
}

/// The fields of a thin payload.
#[derive(Deserialize, Serialize)]
struct ThinEvent<'a> {
    object: &'a str,
    id: &'a str,
    r#type: &'a str,
    created_at: &'a str,
    livemode: bool,
}

/// Makes the thin payload of an event from its canonical JSON. None if the text is not the JSON of an event.
#[must_use]
pub fn thin_event(event: &[u8]) -> Option<Vec<u8>> {
    let thin: ThinEvent<'_> = serde_json::from_slice(event).ok()?;
    serde_json::to_vec(&thin).ok()
}

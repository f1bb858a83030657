//! Webhooks.

use std::mem::take;

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, names, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param, enum_texts},
    route::{Route, route},
};

pub(super) const TAG: &str = "Webhooks";
pub(super) const ID: &str = "The webhook, `wh_…`";

const CREATE: &[Param] = &[
    Param::required("url", Kind::Text(1, 2048), "Public endpoint: `https`, or `http` for test keys"),
    Param::required("events", Kind::EventTypeList(1, 10), "Types to deliver"),
    Param::new("filters", Kind::Filters, "What an event must match besides; nothing when absent"),
    Param::new("description", Kind::NullableText(500), "For people"),
    Param::new(
        "headers",
        Kind::Headers,
        "Headers to send with each attempt, at most 10 with 4 KiB together; their values are never shown again",
    ),
    Param::new("payload", Kind::OneOf(payloads), "What deliveries contain; `full` unless given"),
];

fn payloads() -> Vec<&'static str> {
    enum_texts(names::WEBHOOK_PAYLOADS)
}

/// The statuses that a client can set.
fn given_statuses() -> Vec<&'static str> {
    vec!["enabled", "disabled"]
}

const UPDATE: &[Param] = &[
    Param::new("url", Kind::Text(1, 2048), "Public endpoint: `https`, or `http` for test keys"),
    Param::new("events", Kind::EventTypeList(1, 10), "Types to deliver"),
    Param::new("filters", Kind::Filters, "All filters anew; `{}` clears them"),
    Param::new("description", Kind::NullableText(500), "For people; null clears it"),
    Param::new("status", Kind::OneOf(given_statuses), "Whether it gets events"),
    Param::new(
        "headers",
        Kind::HeaderChanges,
        "Headers to set or, with null, to remove; others stay as they are. At most 10, with 4 KiB together",
    ),
    Param::new("payload", Kind::OneOf(payloads), "What deliveries contain"),
];

const LIST: &[Param] = &[
    Param::LIMIT,
    Param::CURSOR,
    Param::new("status", Kind::OneOf(|| enum_texts(names::WEBHOOK_STATUSES)), "Only those in this state"),
];

/// The routes of `/v1/webhooks`.
pub(super) fn list_routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/webhooks", "WebhookService/ListWebhooks", list)
            .named("listWebhooks", TAG, "Lists the webhooks of the key's project and environment.")
            .about(
                "Newest first. A test key lists test webhooks, a live key live ones. `limit` rows make a page; \
                 pass `next_cursor` as `cursor`, with the same filters, for the next one, until `has_more` is \
                 false.",
            )
            .needs(Some("webhooks:write"), "standard")
            .query(LIST)
            .answers::<json::WebhookList<'_>>(200),
        route!(POST, "/v1/webhooks", "WebhookService/CreateWebhook", create)
            .named("createWebhook", TAG, "Creates a webhook; its signing secret is shown only this once.")
            .about(
                "The answer holds the signing `secret`, which is shown only this once. The webhook gets every \
                 matching event created after the answer. Its name is resolved now and before every attempt, and \
                 addresses that are not public are refused with 422 `WEBHOOK_URL_FORBIDDEN` and `details.reason`. A \
                 live webhook must be `https`. When the plan's number of webhooks is reached the answer is 403 \
                 `WEBHOOK_LIMIT_REACHED`. 404 `FEATURE_DISABLED` is for services without webhooks; this version always \
                 has them. `headers` may not have names that HTTP, signatures or this service use.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookLimitReached, ErrorCode::FeatureDisabled, ErrorCode::WebhookUrlForbidden])
            .body("CreateWebhook", CREATE)
            .answers::<json::WebhookWithSecret<'_>>(201),
    ]
}

/// The routes of one webhook.
pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/webhooks/{id}", "WebhookService/GetWebhook", get)
            .named("getWebhook", TAG, "Reads one webhook.")
            .about(
                "A webhook of another project or of the other environment does not exist: 404. The signing secret \
                 is not shown again.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound])
            .path_parameter(ID)
            .answers::<json::Webhook<'_>>(200)
            .tagged(),
        route!(PATCH, "/v1/webhooks/{id}", "WebhookService/UpdateWebhook", update)
            .named(
                "updateWebhook",
                TAG,
                "Changes the fields that are given. Events after the answer are matched by them.",
            )
            .about(
                "Only the fields given change; `{}` changes nothing. `filters` replaces all filters. `status` may \
                 be set to `enabled` or `disabled`; enabling a webhook that is `disabled_failing` begins its \
                 count of failures anew. Null clears `description` and is 422 for all else, except for one of the \
                 `headers`, which it removes. Attempts use URL, `headers` and `payload` as they are then.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound, ErrorCode::WebhookUrlForbidden])
            .path_parameter(ID)
            .body("UpdateWebhook", UPDATE)
            .answers::<json::Webhook<'_>>(200),
        route!(DELETE, "/v1/webhooks/{id}", "WebhookService/DeleteWebhook", delete)
            .named("deleteWebhook", TAG, "Deletes a webhook; waiting deliveries end.")
            .about("Deliveries that wait end as `failed`. Afterwards the webhook and its deliveries are 404.")
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound])
            .path_parameter(ID)
            .answers::<json::DeletedWebhook<'_>>(200),
        route!(POST, "/v1/webhooks/{id}/rotate-secret", "WebhookService/RotateWebhookSecret", rotate)
            .named(
                "rotateWebhookSecret",
                TAG,
                "Makes a new signing secret, which is shown only this once. The old one signs too for 24 hours.",
            )
            .about(
                "The answer holds the new signing `secret`, which is shown only this once. For 24 hours attempts \
                 carry two signatures, by the new secret and by the old one; a second rotation within that time drops \
                 the oldest secret.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound])
            .path_parameter(ID)
            .empty_body()
            .answers::<json::WebhookWithSecret<'_>>(200),
    ]
}

async fn list(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::ListWebhooksRequest {
        limit: query.integer("limit"),
        cursor: query.text("cursor"),
        status: query.one_of("status", names::parse_webhook_status).unwrap_or_default().into(),
    };
    call.add_unread(query.unread());
    let (metadata, page, _) = edge.core.webhooks.list_webhooks(call.request(request)).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::WebhookList::from(&page))
}

async fn create(edge: &Context, call: &Call) -> Answer {
    let mut fields = call.fields()?;
    let request = v1::CreateWebhookRequest {
        url: fields.text("url"),
        events: fields.event_types("events"),
        filters: fields.filters("filters"),
        description: fields.nullable_text("description"),
        headers: fields.headers("headers", false),
        payload: fields.one_of("payload", names::parse_webhook_payload, payloads).unwrap_or_default(),
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.webhooks.create_webhook(call.request(request)).await?.into_parts();
    json(StatusCode::CREATED, &metadata, &json::WebhookWithSecret::from(&answer))
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let (metadata, answer, _) =
        edge.core.webhooks.get_webhook(call.request(v1::GetWebhookRequest { id })).await?.into_parts();
    let webhook = answer.webhook.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Webhook::from(&webhook))
}

async fn update(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let mut fields = call.fields()?;
    let paths = fields.names();
    ["url", "events", "filters", "status", "headers", "payload"].into_iter().for_each(|name| fields.refuse_null(name));
    let request = v1::UpdateWebhookRequest {
        id,
        update_mask: Some(prost_types::FieldMask { paths }),
        url: fields.text("url"),
        events: fields.event_types("events"),
        filters: fields.filters("filters"),
        description: fields.nullable_text("description"),
        status: fields.one_of("status", names::parse_webhook_status, given_statuses).unwrap_or_default(),
        headers: fields.headers("headers", true),
        payload: fields.one_of("payload", names::parse_webhook_payload, payloads).unwrap_or_default(),
        ..v1::UpdateWebhookRequest::default()
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.webhooks.update_webhook(call.request(request)).await?.into_parts();
    let webhook = answer.webhook.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Webhook::from(&webhook))
}

async fn rotate(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    call.add_unread(call.fields()?.unread());
    let request = v1::RotateWebhookSecretRequest { id };
    let (metadata, answer, _) = edge.core.webhooks.rotate_webhook_secret(call.request(request)).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::WebhookWithSecret::from(&answer))
}

async fn delete(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let (metadata, answer, _) =
        edge.core.webhooks.delete_webhook(call.request(v1::DeleteWebhookRequest { id })).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::DeletedWebhook::from(&answer))
}

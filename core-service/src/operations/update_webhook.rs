//! Changes a webhook of the caller's project and environment. Enabling a webhook that was disabled for its failures
//! resets their count. Fails with `WEBHOOK_NOT_FOUND` or `WEBHOOK_URL_FORBIDDEN`.

use std::sync::Arc;

use thesis_proto::{
    near,
    time::{is_time, to_millis},
    v1,
};

use super::{
    create_webhook::{check_events, distinct},
    fields::Fields,
    get_webhook::{own_webhook, read_webhook, shown},
    webhook_headers,
};
use crate::{
    access::gate::Call,
    control::ControlState,
    domain::control::{ControlChange, Webhook, WebhookHeader},
    error::{Error, Result},
    service::Core,
};

/// The fields that a mask may name.
const MASK: [&str; 7] = ["url", "events", "filters", "description", "status", "headers", "payload"];

/// The fields that a request changes: those of its mask, or without a mask those that it has.
fn changed_fields(message: &v1::UpdateWebhookRequest) -> Vec<&str> {
    if let Some(mask) = &message.update_mask {
        return mask.paths.iter().map(String::as_str).collect();
    }
    let given = [
        ("url", message.url.is_some()),
        ("events", !message.events.is_empty()),
        ("filters", message.filters.is_some()),
        ("description", message.description.is_some()),
        ("status", message.status != 0),
        ("headers", !message.headers.is_empty()),
        ("payload", message.payload != 0),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

fn check(message: &v1::UpdateWebhookRequest) -> Result<()> {
    let mut fields = Fields::default();
    for name in changed_fields(message) {
        match name {
            "url" => {
                fields.required("url", message.url.as_deref(), 1..=2048);
            }
            "events" => check_events(&mut fields, &message.events),
            "filters" => {
                fields.filter(&[], message.filters.as_ref(), "filters.");
            }
            "description" => fields.optional_length("description", message.description.as_deref(), 0..=500),
            "status" => {
                if !matches!(message.status(), v1::WebhookStatus::Enabled | v1::WebhookStatus::Disabled) {
                    fields.reject("status", "must be enabled or disabled");
                }
            }
            "headers" => webhook_headers::check(&mut fields, &message.headers, true),
            "payload" => {
                if !matches!(message.payload(), v1::WebhookPayload::Full | v1::WebhookPayload::Thin) {
                    fields.reject("payload", "must be full or thin");
                }
            }
            other => {
                let rule = format!("must be of: {}", MASK.join(", "));
                fields.reject("update_mask", near::with_nearest(&rule, other, MASK));
            }
        }
    }
    if message.unchanged_since.as_ref().is_some_and(|time| !is_time(time)) {
        fields.reject("unchanged_since", "must be a time of the years 1 to 9999");
    }
    fields.finish()
}

/// Returns the webhook with these headers and with the other changes of a checked request. A field in the mask that the
/// request lacks is cleared.
fn apply(message: &v1::UpdateWebhookRequest, webhook: &Webhook, headers: Vec<WebhookHeader>, now_ms: i64) -> Webhook {
    let mut changed = Webhook { headers, ..webhook.clone() };
    for name in changed_fields(message) {
        match name {
            "url" => {
                changed.url = message.url.clone().unwrap_or_default();
                changed.verified_at = webhook.verified_at.filter(|_| changed.url == webhook.url);
            }
            "events" => changed.events = distinct(&message.events),
            "filters" => {
                let filters = message.filters.clone().unwrap_or_default();
                (changed.tokens, changed.handles, changed.chains) = (filters.token, filters.handle, filters.chain);
                changed.texts = filters.text;
            }
            "description" => changed.description.clone_from(&message.description),
            "payload" => changed.payload = message.payload,
            "status" => changed.set_status(message.status, now_ms),
            _ => {}
        }
    }
    if changed != *webhook {
        changed.updated_at = webhook.next_update(now_ms);
    }
    changed
}

pub async fn update_webhook(
    core: &Core,
    call: &Call,
    message: v1::UpdateWebhookRequest,
) -> Result<v1::UpdateWebhookResponse> {
    check(&message)?;
    call.charge().await?;
    let headers = webhook_headers::hash_values(&core.shared.keys, &message.headers);
    let repeatable = v1::UpdateWebhookRequest { headers, ..message.clone() };
    core.idempotency.once(call, &repeatable, async |_: &str| update(core, call, &message).await).await
}

async fn update(core: &Core, call: &Call, message: &v1::UpdateWebhookRequest) -> Result<v1::UpdateWebhookResponse> {
    let (caller, id, fields) = (&call.caller, &message.id, changed_fields(message));
    let found = read_webhook(core, caller, id).await?;
    if let Some(url) = message.url.as_ref().filter(|_| fields.contains(&"url")) {
        core.urls.vet(url, caller.key.live).await?;
    }
    let is_enabling = fields.contains(&"status") && message.status == Webhook::ENABLED;
    if is_enabling && found.status == i32::from(v1::WebhookStatus::DisabledFailing) {
        // The reset comes first: failures after the change must count.
        core.shared.deliveries.note_outcomes(id, &[true], call.now_ms).await?;
    }
    let unchanged_since = message.unchanged_since.as_ref().map(to_millis);
    let change = |state: &ControlState| {
        let webhook = own_webhook(state, caller, id)?;
        call.demand_right(state)?;
        let given = if fields.contains(&"headers") { message.headers.as_slice() } else { &[] };
        let headers = webhook_headers::merge(&core.shared.keys, webhook, given)?;
        let changed = apply(message, webhook, headers, call.now_ms);
        // An earlier attempt of this request may have written the change.
        if changed == **webhook {
            return Ok((Vec::new(), Arc::clone(webhook)));
        }
        if unchanged_since.is_some_and(|then| then != webhook.updated_at) {
            return Err(Error::changed_concurrently());
        }
        Ok((vec![ControlChange::Webhook(changed.clone())], Arc::new(changed)))
    };
    let changed = core.shared.control.change(call.actor().does("webhook.updated"), change).await?;
    core.shared.hints.wake();
    Ok(v1::UpdateWebhookResponse { webhook: Some(shown(core, &changed)) })
}

#[cfg(test)]
mod tests {
    use prost_types::FieldMask;

    use super::*;

    #[test]
    fn only_what_is_given_changes() {
        let webhook = Webhook {
            url: "https://a/".to_owned(),
            events: vec![1],
            tokens: vec!["$RUN".to_owned()],
            description: Some("x".to_owned()),
            status: 1,
            updated_at: 5,
            ..Webhook::default()
        };
        let nothing = v1::UpdateWebhookRequest::default();
        assert_eq!(apply(&nothing, &webhook, Vec::new(), 9), webhook, "an empty change changes nothing");
        let headers = vec![WebhookHeader { name: "X-A".to_owned(), value: vec![1] }];
        let expected = Webhook { headers: headers.clone(), updated_at: 9, ..webhook.clone() };
        assert_eq!(apply(&nothing, &webhook, headers, 9), expected);
        let thin = v1::UpdateWebhookRequest { payload: Webhook::THIN, ..nothing.clone() };
        assert!(apply(&thin, &webhook, Vec::new(), 9).is_thin());
        let mask = FieldMask { paths: vec!["filters".to_owned(), "description".to_owned()] };
        let cleared = v1::UpdateWebhookRequest { update_mask: Some(mask), ..nothing };
        let expected = Webhook { tokens: Vec::new(), description: None, updated_at: 9, ..webhook.clone() };
        assert_eq!(apply(&cleared, &webhook, Vec::new(), 9), expected);
    }

    #[test]
    fn another_url_needs_another_test() {
        let webhook =
            Webhook { url: "https://a/".to_owned(), verified_at: Some(5), updated_at: 5, ..Webhook::default() };
        let verified_with = |url: &str| {
            let message = v1::UpdateWebhookRequest { url: Some(url.to_owned()), ..Default::default() };
            apply(&message, &webhook, Vec::new(), 9).verified_at
        };
        assert_eq!((verified_with("https://a/"), verified_with("https://b/")), (Some(5), None));
    }

    #[test]
    fn enabling_after_a_day_cancels_what_waited() {
        let set = |status: v1::WebhookStatus, webhook: &Webhook, now_ms| {
            let message = v1::UpdateWebhookRequest { status: status.into(), ..Default::default() };
            apply(&message, webhook, Vec::new(), now_ms)
        };
        let on = |webhook: &Webhook, now_ms| set(v1::WebhookStatus::Enabled, webhook, now_ms);
        let off = |webhook: &Webhook, now_ms| set(v1::WebhookStatus::Disabled, webhook, now_ms);
        let disabled = off(&Webhook { status: 1, ..Webhook::default() }, 10);
        assert_eq!((disabled.status, disabled.disabled_at), (2, Some(10)));
        assert_eq!(off(&disabled, 20), disabled, "the time counts from the first");
        let soon = on(&disabled, 9 + Webhook::GRACE_PERIOD_MS);
        assert_eq!((soon.status, soon.disabled_at, soon.cancelled_until), (1, None, 0));
        let late = 10 + Webhook::GRACE_PERIOD_MS;
        assert_eq!(on(&disabled, late).cancelled_until, late - 3_600_000);
        let failing = Webhook { status: 3, ..disabled };
        assert_eq!((off(&failing, 30).status, off(&failing, 30).disabled_at), (2, Some(10)));
    }
}

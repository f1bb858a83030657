//! Changes a webhook.

use std::sync::Arc;

use thesis_proto::v1;

use super::get_webhook::{get_webhook, own_webhook};
use crate::{
    access::gate::Call,
    control::ControlState,
    domain::control::{ControlChange, Webhook},
    error::{Error, Result},
    service::Core,
};

/// The fields of a webhook to change, with checked shape. Absent fields stay.
#[derive(Clone, Debug, Default)]
pub struct WebhookChanges {
    /// The address that receives its deliveries.
    pub url: Option<String>,
    /// Numbers of the event types, each once.
    pub events: Option<Vec<i32>>,
    /// All filters, replacing the present ones.
    pub filters: Option<v1::EventFilters>,
    /// A text for people, or none.
    pub description: Option<Option<String>>,
    /// Number of the status, enabled or disabled.
    pub status: Option<i32>,
    /// `updated_at` of the webhook that the client changes, in unix milliseconds. If it is another one now, nothing
    /// changes.
    pub unchanged_since: Option<i64>,
}

impl WebhookChanges {
    fn apply_to(&self, webhook: &Webhook, now_ms: i64) -> Webhook {
        let mut changed = webhook.clone();
        if let Some(url) = &self.url {
            changed.url.clone_from(url);
        }
        if let Some(events) = &self.events {
            changed.events.clone_from(events);
        }
        if let Some(filters) = &self.filters {
            changed.tokens.clone_from(&filters.token);
            changed.handles.clone_from(&filters.handle);
            changed.chains.clone_from(&filters.chain);
        }
        if let Some(description) = &self.description {
            changed.description.clone_from(description);
        }
        if let Some(status) = self.status {
            changed.set_status(status, now_ms);
        }
        if changed != *webhook {
            changed.updated_at = webhook.next_update(now_ms);
        }
        changed
    }
}

/// Changes a webhook of the caller's project and environment. Enabling a webhook that was disabled for its failures
/// resets their count.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, `WEBHOOK_URL_FORBIDDEN`, or when the store does not answer.
pub async fn update_webhook(core: &Core, call: &Call, id: &str, changes: &WebhookChanges) -> Result<Arc<Webhook>> {
    let caller = &call.caller;
    let found = get_webhook(core, caller, id).await?;
    if let Some(url) = &changes.url {
        core.urls.vet(url, caller.key.live).await?;
    }
    let is_enabling = changes.status == Some(Webhook::ENABLED);
    if is_enabling && found.status == i32::from(v1::WebhookStatus::DisabledFailing) {
        // The reset comes first: failures after the change must count.
        core.shared.deliveries.note(id, &[true], call.now_ms).await?;
    }
    let change = |state: &ControlState| {
        let webhook = own_webhook(state, caller, id)?;
        call.demand_right(state)?;
        let changed = changes.apply_to(webhook, call.now_ms);
        // An earlier attempt of this request may have written the change.
        if changed == **webhook {
            return Ok((Vec::new(), Arc::clone(webhook)));
        }
        if changes.unchanged_since.is_some_and(|then| then != webhook.updated_at) {
            return Err(Error::changed_concurrently());
        }
        Ok((vec![ControlChange::Webhook(changed.clone())], Arc::new(changed)))
    };
    let changed = core.shared.control.change(call.actor().does("webhook.updated"), change).await?;
    core.shared.hints.wake();
    Ok(changed)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(WebhookChanges::default().apply_to(&webhook, 9), webhook, "an empty change changes nothing");
        let cleared = WebhookChanges {
            filters: Some(v1::EventFilters::default()),
            description: Some(None),
            ..WebhookChanges::default()
        };
        let expected = Webhook { tokens: Vec::new(), description: None, updated_at: 9, ..webhook.clone() };
        assert_eq!(cleared.apply_to(&webhook, 9), expected);
    }

    #[test]
    fn enabling_after_a_day_cancels_what_waited() {
        let status =
            |status: v1::WebhookStatus| WebhookChanges { status: Some(status.into()), ..WebhookChanges::default() };
        let (on, off) = (status(v1::WebhookStatus::Enabled), status(v1::WebhookStatus::Disabled));
        let disabled = off.apply_to(&Webhook { status: 1, ..Webhook::default() }, 10);
        assert_eq!((disabled.status, disabled.disabled_at), (2, Some(10)));
        assert_eq!(off.apply_to(&disabled, 20), disabled, "the time counts from the first");
        let soon = on.apply_to(&disabled, 9 + Webhook::GRACE_PERIOD_MS);
        assert_eq!((soon.status, soon.disabled_at, soon.cancelled_until), (1, None, 0));
        let late = 10 + Webhook::GRACE_PERIOD_MS;
        assert_eq!(on.apply_to(&disabled, late).cancelled_until, late - 1);
        let failing = Webhook { status: 3, ..disabled };
        assert_eq!((off.apply_to(&failing, 30).status, off.apply_to(&failing, 30).disabled_at), (2, Some(10)));
    }
}

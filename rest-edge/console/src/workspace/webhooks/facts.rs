//! The facts that pages show about a webhook.

use thesis_proto::{names::event_type_name, v1};

use crate::{
    view::{Badge, cut, time},
    workspace::Workspace,
};

/// A row of the list cuts texts after this many characters.
pub(super) const ROW_TEXT: usize = 80;
/// The webhook's own page cuts texts after this many characters. Its form has the complete text.
pub(super) const PAGE_TEXT: usize = 2_048;

pub(super) struct WebhookFacts {
    pub(super) id: String,
    pub(super) path: String,
    /// The receiving URL, cut if it is too long.
    pub(super) url: String,
    pub(super) description: Option<String>,
    pub(super) events: String,
    /// The filters, cut if they are too long; empty if there are none.
    pub(super) filters: String,
    pub(super) status: Badge,
    /// A sentence that explains the status.
    pub(super) meaning: &'static str,
    /// True if the service delivers new events.
    pub(super) is_enabled: bool,
    pub(super) secret_prefix: String,
    pub(super) created: String,
    pub(super) updated: String,
}

pub(super) const fn badge(status: v1::WebhookStatus) -> Badge {
    let (word, class) = match status {
        v1::WebhookStatus::Enabled => ("Enabled", "good"),
        v1::WebhookStatus::DisabledFailing => ("Disabled: failing", "bad"),
        v1::WebhookStatus::Disabled | v1::WebhookStatus::Unspecified => ("Disabled", "warn"),
    };
    Badge { word, class }
}

const fn meaning(status: v1::WebhookStatus) -> &'static str {
    match status {
        v1::WebhookStatus::Enabled => "New events that match are delivered.",
        v1::WebhookStatus::DisabledFailing => {
            "The service disabled it: at least 50 attempts in a row failed, over a day or more. It gets no new \
             events. Deliveries that wait go out if it is enabled within 24 hours of that; later they end as \
             failed. Repair the endpoint, send a test event, then enable it."
        }
        v1::WebhookStatus::Disabled | v1::WebhookStatus::Unspecified => {
            "It gets no new events. Deliveries that wait go out if it is enabled within 24 hours of that; later \
             they end as failed."
        }
    }
}

impl WebhookFacts {
    /// Cuts texts after `max_chars` characters.
    pub(super) fn of(workspace: &Workspace, webhook: &v1::Webhook, max_chars: usize) -> Self {
        let events: Vec<_> = webhook.events().map(event_type_name).collect();
        Self {
            path: workspace.webhook_path(&webhook.id),
            id: webhook.id.clone(),
            url: cut(&webhook.url, max_chars),
            description: webhook
                .description
                .as_deref()
                .filter(|text| !text.is_empty())
                .map(|text| cut(text, max_chars)),
            events: events.join(", "),
            filters: cut(&filters_text(webhook.filters.as_ref()), max_chars),
            status: badge(webhook.status()),
            meaning: meaning(webhook.status()),
            is_enabled: webhook.status() == v1::WebhookStatus::Enabled,
            secret_prefix: webhook.secret_prefix.clone(),
            created: time(webhook.created_at.as_ref()),
            updated: time(webhook.updated_at.as_ref()),
        }
    }
}

/// Formats filters as one line, such as `token: $RUN; chain: sandbox`.
fn filters_text(filters: Option<&v1::EventFilters>) -> String {
    let Some(filters) = filters else { return String::new() };
    let dimensions = [("token", &filters.token), ("handle", &filters.handle), ("chain", &filters.chain)];
    let given = dimensions.into_iter().filter(|(_, values)| !values.is_empty());
    given.map(|(name, values)| format!("{name}: {}", values.join(", "))).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_one_line() {
        assert_eq!(filters_text(None), "");
        assert_eq!(filters_text(Some(&v1::EventFilters::default())), "");
        let filters = v1::EventFilters {
            token: vec!["$RUN".to_owned(), "tk_1".to_owned()],
            handle: Vec::new(),
            chain: vec!["sandbox".to_owned()],
        };
        assert_eq!(filters_text(Some(&filters)), "token: $RUN, tk_1; chain: sandbox");
    }
}

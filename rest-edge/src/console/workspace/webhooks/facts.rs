//! What pages tell about a webhook.

use thesis_proto::{names::event_type_name, v1};

use super::path_of;
use crate::console::{
    view::{Badge, cut, time},
    workspace::Workspace,
};

/// Most characters of a text in a row of the list.
pub(super) const ROW_TEXT: usize = 80;
/// Most characters of a text on the webhook's own page, whose form has all of it.
pub(super) const PAGE_TEXT: usize = 2_048;

/// A webhook as pages show it.
pub(super) struct WebhookFacts {
    /// Its id.
    pub(super) id: String,
    /// The path of its page.
    pub(super) path: String,
    /// Where it receives, perhaps cut.
    pub(super) url: String,
    /// What people say about it.
    pub(super) description: Option<String>,
    /// The types of its events.
    pub(super) events: String,
    /// Its filters, perhaps cut; empty when there are none.
    pub(super) filters: String,
    /// Its status as a badge.
    pub(super) status: Badge,
    /// What the status means.
    pub(super) meaning: &'static str,
    /// Whether new events are delivered.
    pub(super) is_enabled: bool,
    /// The beginning of its signing secret.
    pub(super) secret_prefix: String,
    /// When it was created.
    pub(super) created: String,
    /// When it was changed last.
    pub(super) updated: String,
}

/// The badge of a status.
pub(super) const fn badge(status: v1::WebhookStatus) -> Badge {
    let (word, class) = match status {
        v1::WebhookStatus::Enabled => ("Enabled", "good"),
        v1::WebhookStatus::DisabledFailing => ("Disabled: failing", "bad"),
        v1::WebhookStatus::Disabled | v1::WebhookStatus::Unspecified => ("Disabled", "warn"),
    };
    Badge { word, class }
}

/// What a status means.
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
    /// A webhook's facts. Texts have `most` characters at most.
    pub(super) fn of(workspace: &Workspace, webhook: &v1::Webhook, max_chars: usize) -> Self {
        let events: Vec<_> = webhook.events().map(event_type_name).collect();
        Self {
            path: path_of(workspace, &webhook.id),
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

/// Filters as one line, such as `token: $RUN; chain: sandbox`.
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

//! The facts that pages show about a webhook.

use thesis_proto::{names::event_type_name, v1};

use crate::view::Badge;

pub(super) const fn badge(status: v1::WebhookStatus) -> Badge {
    let (word, class) = match status {
        v1::WebhookStatus::Enabled => ("Enabled", "good"),
        v1::WebhookStatus::DisabledFailing => ("Disabled: failing", "bad"),
        v1::WebhookStatus::Disabled | v1::WebhookStatus::Unspecified => ("Disabled", "warn"),
    };
    Badge { word, class }
}

/// A sentence that explains a status.
pub(super) const fn meaning(status: v1::WebhookStatus) -> &'static str {
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

pub(super) fn events_text(webhook: &v1::Webhook) -> String {
    webhook.events().map(event_type_name).collect::<Vec<_>>().join(", ")
}

pub(super) fn headers_text(webhook: &v1::Webhook) -> String {
    webhook.headers.join(", ")
}

/// Formats filters as one line, such as `token: $RUN; chain: sandbox`.
pub(super) fn filters_text(filters: Option<&v1::EventFilters>) -> String {
    let Some(filters) = filters else { return String::new() };
    let dimensions =
        [("token", &filters.token), ("handle", &filters.handle), ("chain", &filters.chain), ("text", &filters.text)];
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
            text: vec!["moon OR sun".to_owned()],
        };
        assert_eq!(filters_text(Some(&filters)), "token: $RUN, tk_1; chain: sandbox; text: moon OR sun");
    }
}

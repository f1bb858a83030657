//! The page of one webhook.

use askama::Template;
use axum::extract::Path;
use thesis_proto::v1;

use super::{
    WebhookPath,
    form::{TypedWebhook, WebhookForm, revision},
    insight::{self, Insight},
    known::unknown_names,
    verify::{CodeSample, SAMPLES},
};
use crate::{
    Page,
    form::Faults,
    page_query::PageQuery,
    view::{Layout, cut, render},
    workspace::{
        Workspace,
        deliveries::{self, DeliveryLog},
    },
};

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[
    ("saved", "The webhook is saved."),
    ("enabled", "The webhook is enabled. New events that match are delivered."),
    ("disabled", "The webhook is disabled. It gets no new events."),
    ("replaying", "The deliveries are sent again. Below is how far that is."),
];

/// Maximum number of characters of a title.
const MAX_TITLE: usize = 80;

#[derive(Template)]
#[template(path = "webhook.html")]
struct WebhookPage {
    layout: Layout,
    workspace: Workspace,
    webhook: v1::Webhook,
    typed_name: String,
    form: WebhookForm,
    /// The webhook's `updated_at`, in Unix milliseconds.
    revision: i64,
    insight: Insight,
    /// Code that verifies its deliveries.
    samples: &'static [CodeSample],
    log: DeliveryLog,
}

/// The description, or the URL if there is nothing to see of it.
fn name(webhook: &v1::Webhook) -> &str {
    let description = webhook.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    description.unwrap_or(&webhook.url)
}

/// The name that the user must type to delete the webhook of live data. The title has it, with `…` if it is cut.
pub(super) fn typed_name(webhook: &v1::Webhook) -> String {
    name(webhook).chars().take(MAX_TITLE).collect()
}

/// The state of the forms on a webhook's page.
pub(super) struct FormState {
    /// The typed fields, if the form failed.
    pub(super) typed: Option<TypedWebhook>,
    /// The faults of the submitted form or button.
    pub(super) faults: Faults,
}

pub(super) async fn show_webhook(workspace: Workspace, id: &str, query: &PageQuery, shown: FormState) -> Page {
    let request = workspace.request(v1::GetWebhookRequest { id: id.to_owned() });
    let webhook = workspace.core().webhooks.get_webhook(request).await?.into_inner().webhook.unwrap_or_default();
    let insight = insight::read(&workspace, &webhook.id).await?;
    let log = deliveries::log(&workspace, &webhook.id, query).await?;
    let unknown = unknown_names(&workspace, webhook.filters.as_ref()).await;
    let status = if shown.faults.whole().is_some() { shown.faults.status() } else { log.faults.status() };
    let form = match &shown.typed {
        Some(typed) => WebhookForm::again(typed, shown.faults),
        None => WebhookForm::of(&webhook, shown.faults),
    };
    let page = WebhookPage {
        layout: workspace.layout(&cut(name(&webhook), MAX_TITLE)).with_notice(query.text("done"), DONE),
        workspace,
        form: WebhookForm { unknown, ..form },
        revision: revision(&webhook),
        typed_name: typed_name(&webhook),
        webhook,
        insight,
        samples: &SAMPLES,
        log,
    };
    render(status, &page)
}

pub(super) async fn show(workspace: Workspace, Path((_, _, id)): WebhookPath, query: PageQuery) -> Page {
    show_webhook(workspace, &id, &query, FormState { typed: None, faults: Faults::none() }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_blank_and_can_be_typed() {
        let (url, long) = ("https://a.example", "é".repeat(MAX_TITLE));
        let longer = format!(" {long}é");
        let cut = (Some(longer.as_str()), long.as_str());
        for (description, expected) in [(None, url), (Some(" \n"), url), (Some("a"), "a"), cut] {
            let description = description.map(str::to_owned);
            let webhook = v1::Webhook { url: url.to_owned(), description, ..v1::Webhook::default() };
            assert_eq!(typed_name(&webhook), expected);
        }
    }
}

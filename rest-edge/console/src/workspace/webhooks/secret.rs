//! The page that shows a webhook's signing secret, once.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use thesis_proto::v1;

use super::{
    WebhookPath,
    verify::{CodeSample, SAMPLES},
};
use crate::{
    Page,
    failure::see_other,
    shown,
    view::{Layout, render},
    workspace::Workspace,
};

/// A new secret, which the form passes to the page that shows it.
#[derive(Serialize, Deserialize)]
struct NewSecret {
    secret: String,
    is_rotated: bool,
}

#[derive(Template)]
#[template(path = "webhook_secret.html")]
struct SecretPage {
    layout: Layout,
    workspace: Workspace,
    webhook: v1::Webhook,
    secret: String,
    /// True if an older secret also signs for a while.
    is_rotated: bool,
    /// Code that verifies its deliveries.
    samples: &'static [CodeSample],
}

/// Redirects to the page with the secret of a new webhook, or with the one that replaces an older one.
pub(super) fn lead(workspace: &Workspace, id: &str, secret: String, is_rotated: bool) -> Page {
    let path = format!("{}/secret", workspace.webhook_path(id));
    shown::show(&workspace.signed_in.visit, &path, &NewSecret { secret, is_rotated })
}

/// Shows a new secret for ten minutes.
pub(super) async fn show(workspace: Workspace, Path((_, _, id)): WebhookPath) -> Page {
    let Some(NewSecret { secret, is_rotated }) = shown::read(&workspace.signed_in.visit) else {
        return Ok(see_other(&workspace.webhook_path(&id)));
    };
    let request = workspace.request(v1::GetWebhookRequest { id });
    let webhook = workspace.core().webhooks.get_webhook(request).await?.into_inner().webhook.unwrap_or_default();
    let title = if is_rotated { "The webhook's new secret" } else { "Your new webhook" };
    let page =
        SecretPage { layout: workspace.layout(title), webhook, workspace, secret, is_rotated, samples: &SAMPLES };
    render(StatusCode::OK, &page)
}

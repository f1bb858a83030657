//! The page that shows a webhook's signing secret, once.

use askama::Template;
use http::StatusCode;
use thesis_proto::v1;

use super::verify::{CodeSample, SAMPLES};
use crate::{
    Page,
    view::{Layout, render},
    workspace::Workspace,
};

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

/// Shows the secret of a new webhook, or the one that replaces an older one.
pub(super) fn show(workspace: Workspace, webhook: v1::Webhook, secret: String, is_rotated: bool) -> Page {
    let title = if is_rotated { "The webhook's new secret" } else { "Your new webhook" };
    let page =
        SecretPage { layout: workspace.layout(title), webhook, workspace, secret, is_rotated, samples: &SAMPLES };
    render(StatusCode::OK, &page)
}

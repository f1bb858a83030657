//! Creates a webhook.

use askama::Template;

use super::{
    form::{TypedWebhook, WebhookForm, faults_of},
    secret,
};
use crate::{
    Page,
    form::Posted,
    view::{Layout, render},
    workspace::Workspace,
};

#[derive(Template)]
#[template(path = "webhook_new.html")]
struct NewPage {
    layout: Layout,
    workspace: Workspace,
    form: WebhookForm,
}

fn show_new(workspace: Workspace, form: WebhookForm) -> Page {
    let page = NewPage { layout: workspace.layout("New webhook"), workspace, form };
    render(page.form.faults.status(), &page)
}

pub(super) async fn new(workspace: Workspace) -> Page {
    show_new(workspace, WebhookForm::empty())
}

pub(super) async fn create(workspace: Workspace, Posted(typed): Posted<TypedWebhook>) -> Page {
    let request = workspace.request_once(&typed.once, typed.new_webhook());
    match workspace.change(workspace.core().webhooks.create_webhook(request)).await {
        Ok(answer) => {
            let created = answer.into_inner();
            secret::lead(&workspace, &created.webhook.unwrap_or_default().id, created.secret, false)
        }
        Err(status) => show_new(workspace, WebhookForm::again(&typed, faults_of(&status)?)),
    }
}

//! The forms that change a webhook.

use axum::{extract::Path, response::Response};
use prost_types::FieldMask;
use serde::Deserialize;
use thesis_proto::{
    error::ApiError,
    names::{parse_delivery_status, parse_webhook_status},
    v1,
};
use tonic::Status;

use super::{
    TAB, WebhookPath,
    form::{TypedWebhook, faults_of},
    secret,
    show::{FormState, show_webhook, typed_name},
};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Once, Posted},
    page_query::{PageQuery, typed_time},
    question::TypedName,
    workspace::Workspace,
};

/// The form with a webhook's new status.
#[derive(Deserialize)]
pub(super) struct StatusForm {
    #[serde(default)]
    status: String,
}

/// The form that sends many deliveries again.
#[derive(Deserialize)]
pub(super) struct ReplayForm {
    #[serde(default)]
    since: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    once: String,
}

/// Shows the webhook's page with the faults of a button.
async fn show_faults(workspace: Workspace, id: &str, status: &Status) -> Page {
    let shown = FormState { typed: None, faults: Faults::of(status)? };
    show_webhook(workspace, id, &PageQuery::default(), shown).await
}

/// Redirects to the webhook's page with a notice.
fn done(workspace: &Workspace, id: &str, word: &str) -> Response {
    see_other(&format!("{}?done={word}", workspace.webhook_path(id)))
}

pub(super) async fn edit(
    workspace: Workspace,
    Path((_, _, id)): WebhookPath,
    Posted(typed): Posted<TypedWebhook>,
) -> Page {
    match workspace.change(workspace.core().webhooks.update_webhook(workspace.request(typed.changes(&id)))).await {
        Ok(_) => Ok(done(&workspace, &id, "saved")),
        Err(status) => {
            let shown = FormState { faults: faults_of(&status)?, typed: Some(typed) };
            show_webhook(workspace, &id, &PageQuery::default(), shown).await
        }
    }
}

pub(super) async fn set_status(
    workspace: Workspace,
    Path((_, _, id)): WebhookPath,
    Posted(new): Posted<StatusForm>,
) -> Page {
    let message = v1::UpdateWebhookRequest {
        id: id.clone(),
        update_mask: Some(FieldMask { paths: vec!["status".to_owned()] }),
        // Core refuses an unknown status.
        status: parse_webhook_status(&new.status).unwrap_or_default().into(),
        ..v1::UpdateWebhookRequest::default()
    };
    match workspace.change(workspace.core().webhooks.update_webhook(workspace.request(message))).await {
        Ok(answer) => {
            let webhook = answer.into_inner().webhook.unwrap_or_default();
            let is_enabled = webhook.status() == v1::WebhookStatus::Enabled;
            Ok(done(&workspace, &id, if is_enabled { "enabled" } else { "disabled" }))
        }
        Err(status) => show_faults(workspace, &id, &status).await,
    }
}

pub(super) async fn rotate(workspace: Workspace, Path((_, _, id)): WebhookPath, Posted(sent): Posted<Once>) -> Page {
    let request = workspace.request_once(&sent.once, v1::RotateWebhookSecretRequest { id: id.clone() });
    match workspace.change(workspace.core().webhooks.rotate_webhook_secret(request)).await {
        Ok(answer) => secret::lead(&workspace, &id, answer.into_inner().secret, true),
        Err(status) => show_faults(workspace, &id, &status).await,
    }
}

pub(super) async fn send_test(workspace: Workspace, Path((_, _, id)): WebhookPath, Posted(sent): Posted<Once>) -> Page {
    let request = workspace.request_once(&sent.once, v1::TestWebhookRequest { id: id.clone() });
    match workspace.change(workspace.core().webhooks.test_webhook(request)).await {
        Ok(answer) => {
            let delivery = answer.into_inner().delivery.unwrap_or_default();
            Ok(see_other(&format!("{}/deliveries/{}", workspace.webhook_path(&id), delivery.id)))
        }
        Err(status) => show_faults(workspace, &id, &status).await,
    }
}

pub(super) async fn replay(
    workspace: Workspace,
    Path((_, _, id)): WebhookPath,
    Posted(form): Posted<ReplayForm>,
) -> Page {
    let since = match typed_time("since", &form.since) {
        Ok(since) => since,
        Err(fault) => return show_faults(workspace, &id, &ApiError::validation(&[fault]).to_status("")).await,
    };
    let status = parse_delivery_status(&form.status).unwrap_or_default().into();
    let message = v1::StartWebhookReplayRequest { id: id.clone(), since, status };
    match workspace
        .change(workspace.core().webhooks.start_webhook_replay(workspace.request_once(&form.once, message)))
        .await
    {
        Ok(_) => Ok(done(&workspace, &id, "replaying")),
        Err(status) => show_faults(workspace, &id, &status).await,
    }
}

pub(super) async fn delete(
    workspace: Workspace,
    Path((_, _, id)): WebhookPath,
    Posted(typed): Posted<TypedName>,
) -> Page {
    // Core refuses those who may not change it.
    if workspace.live && workspace.access.may_change() {
        let request = workspace.request(v1::GetWebhookRequest { id: id.clone() });
        let webhook = workspace.core().webhooks.get_webhook(request).await?.into_inner().webhook.unwrap_or_default();
        if let Some(faults) = typed.faults(Some(&typed_name(&webhook))) {
            return show_webhook(workspace, &id, &PageQuery::default(), FormState { typed: None, faults }).await;
        }
    }
    let request = workspace.request(v1::DeleteWebhookRequest { id: id.clone() });
    match workspace.change(workspace.core().webhooks.delete_webhook(request)).await {
        Ok(_) => Ok(see_other(&format!("{}?done=deleted", workspace.path(TAB)))),
        Err(status) => show_faults(workspace, &id, &status).await,
    }
}

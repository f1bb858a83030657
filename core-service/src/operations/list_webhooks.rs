//! Lists the webhooks of the caller's project and environment, newest first. Fails with `INVALID_CURSOR`.

use std::sync::Arc;

use thesis_proto::v1;

use super::{fields::Fields, get_webhook::shown};
use crate::{
    access::gate::Call,
    domain::{
        control::Webhook,
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
};

pub async fn list_webhooks(
    core: &Core,
    call: &Call,
    message: v1::ListWebhooksRequest,
) -> Result<v1::ListWebhooksResponse> {
    let mut fields = Fields::default();
    let limit = fields.page(message.limit, message.cursor.as_deref());
    let status = fields.choice::<v1::WebhookStatus>("status", message.status);
    fields.finish()?;
    call.charge().await?;
    let (caller, signer) = (&call.caller, core.shared.keys.cursor_signer());
    // The name contains every field of a request, except those of the page.
    let v1::ListWebhooksRequest { limit: _, cursor, status: number } = message;
    let name = list_name(&["webhooks", &caller.scope(), &number.to_string()]);
    let read = |cursor: String| signer.read::<TimePosition>(&name, &cursor).ok_or_else(Error::invalid_cursor);
    let after = cursor.map(read).transpose()?;
    core.shared.control.refresh().await?;
    let mut rows: Vec<Arc<Webhook>> = core
        .shared
        .control
        .state()
        .webhooks(&caller.project.id, caller.key.live)
        .filter(|webhook| status.is_none_or(|status| status == webhook.status))
        .filter(|webhook| {
            after.as_ref().is_none_or(|after| (webhook.created_at, &webhook.id) < (after.created_at, &after.id))
        })
        .cloned()
        .collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        signer
            .sign(&name, &TimePosition { created_at: last.created_at, id: last.id.clone(), ..TimePosition::default() })
    });
    let data = rows.iter().map(|row| shown(core, row)).collect();
    Ok(v1::ListWebhooksResponse { data, next_cursor, has_more })
}

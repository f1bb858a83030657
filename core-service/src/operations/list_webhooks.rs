//! Lists the webhooks of the caller's project and environment, newest first. Fails with `INVALID_CURSOR`.

use std::sync::Arc;

use thesis_proto::v1;

use super::{fields::Fields, get_webhook::shown, paging::Paging};
use crate::{
    access::gate::Call,
    domain::{control::Webhook, list_cursor::list_name},
    error::Result,
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
    let caller = &call.caller;
    // The name contains every field of a request, except those of the page.
    let v1::ListWebhooksRequest { limit: _, cursor, status: number } = message;
    let name = list_name(&["webhooks", &caller.scope(), &number.to_string()]);
    let paging = Paging::new(core, name, cursor.as_deref())?;
    core.shared.control.refresh().await?;
    let (rows, next_cursor) = {
        let state = core.shared.control.state();
        let rows = state.webhooks(&caller.project.id, caller.key.live);
        let rows = rows.filter(|webhook| status.is_none_or(|status| status == webhook.status)).cloned();
        paging.select(rows, limit, |webhook: &Arc<Webhook>| (webhook.created_at, webhook.id.as_str()))
    };
    let data = rows.iter().map(|row| shown(core, row)).collect();
    Ok(v1::ListWebhooksResponse { data, has_more: next_cursor.is_some(), next_cursor })
}

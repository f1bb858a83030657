//! Lists webhooks.

use std::sync::Arc;

use crate::{
    access::gate::Caller,
    domain::{
        control::Webhook,
        list_cursor::{TimePosition, list_name},
    },
    error::{Error, Result},
    service::Core,
};

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// The webhooks to list.
#[derive(Clone, Debug, Default)]
pub struct WebhookQuery {
    /// Rows of a page.
    pub limit: usize,
    /// Cursor of the page.
    pub cursor: Option<String>,
    /// Number of the status.
    pub status: Option<i32>,
}

/// Lists the webhooks of the caller's project and environment, newest first.
///
/// # Errors
/// `INVALID_CURSOR`, or when the store does not answer.
pub async fn list_webhooks(core: &Core, caller: &Caller, query: &WebhookQuery) -> Result<Page<Arc<Webhook>>> {
    let signer = core.shared.keys.cursor_signer();
    // The name contains every field of a query, except those of the page.
    let WebhookQuery { limit: _, cursor: _, status } = query;
    let name = list_name(&["webhooks", &caller.scope(), &status.unwrap_or_default().to_string()]);
    let after = match &query.cursor {
        Some(cursor) => Some(signer.read::<TimePosition>(&name, cursor).ok_or_else(Error::invalid_cursor)?),
        None => None,
    };
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let mut rows: Vec<Arc<Webhook>> = state
        .webhooks(&caller.project.id, caller.key.live)
        .filter(|webhook| query.status.is_none_or(|status| status == webhook.status))
        .filter(|webhook| {
            after.as_ref().is_none_or(|after| (webhook.created_at, &webhook.id) < (after.created_at, &after.id))
        })
        .cloned()
        .collect();
    drop(state);
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let has_more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|last| {
        signer
            .sign(&name, &TimePosition { created_at: last.created_at, id: last.id.clone(), ..TimePosition::default() })
    });
    Ok(Page { rows, next_cursor })
}

//! Lists the webhooks of a project.

use std::sync::Arc;

use thesis_proto::error::ErrorCode;

use crate::{
    domain::{control::Webhook, id_kind::unknown_to_operator},
    error::Result,
    service::Core,
};

/// Lists the webhooks of a project, of both environments, newest first.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn list_project_webhooks(core: &Core, project_id: &str) -> Result<Vec<Arc<Webhook>>> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    state.project(project_id).ok_or_else(|| unknown_to_operator(ErrorCode::ProjectNotFound, project_id))?;
    let mut rows: Vec<Arc<Webhook>> =
        state.webhooks(project_id, false).chain(state.webhooks(project_id, true)).cloned().collect();
    drop(state);
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok(rows)
}

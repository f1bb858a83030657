//! Lists the webhooks of a project, of both environments, newest first.

use thesis_proto::v1;

use crate::{
    access::rights,
    domain::account::{Actor, Role},
    error::Result,
    operations::get_webhook::shown,
    service::Core,
};

pub async fn list_project_webhooks(
    core: &Core,
    actor: &Actor,
    message: &v1::ListProjectWebhooksRequest,
) -> Result<v1::ListProjectWebhooksResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let id = &rights::project(&state, actor, &message.project_id, Role::Viewer)?.id;
    let mut rows: Vec<_> = state.webhooks(id, false).chain(state.webhooks(id, true)).collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok(v1::ListProjectWebhooksResponse { data: rows.into_iter().map(|row| shown(core, row)).collect() })
}

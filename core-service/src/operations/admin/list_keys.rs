//! Lists the keys of a project, for operators.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    domain::id_kind::unknown_to_operator, error::Result, operations::account::list_keys::keys_of, service::Core,
};

/// Lists the keys of a project, newest first, each with its last use; revoked ones too.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn list_keys(core: &Core, project_id: &str) -> Result<Vec<v1::ApiKey>> {
    core.shared.control.refresh().await?;
    let unknown = || unknown_to_operator(ErrorCode::ProjectNotFound, project_id);
    core.shared.control.state().project(project_id).ok_or_else(unknown)?;
    keys_of(core, project_id).await
}

//! Reads how much of its plan's limits a project has used, by environment.

use std::sync::Arc;

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    domain::account::Role,
    error::{Error, Result},
    operations::get_usage::usage,
    service::Core,
};

pub async fn get_project_usage(
    core: &Core,
    person: &Person,
    message: &v1::GetProjectUsageRequest,
) -> Result<v1::GetProjectUsageResponse> {
    core.shared.control.refresh().await?;
    let (project, plan) = {
        let state = core.shared.control.state();
        let project = rights::project(&state, &person.actor, &message.project_id, Role::Viewer)?;
        let organization = state.organization(&project.organization_id).ok_or_else(rights::no_project)?;
        (Arc::clone(project), organization.plan.clone())
    };
    let plan = core.gate.plan(&plan).ok_or_else(|| Error::internal("there are no plans"))?;
    let usage = |live| usage(core, &project, plan, live, person.now_ms);
    let (test, live) = tokio::try_join!(usage(false), usage(true))?;
    Ok(v1::GetProjectUsageResponse { test: Some(test), live: Some(live) })
}

//! Operations of operators, one file each, and the rules that they share. The actor decides the rights: members call
//! some of these operations too.

pub mod archive;
pub mod backup;
pub mod bootstrap;
pub mod change_project;
pub mod check_log;
pub mod confirm_user;
pub mod create_key;
pub mod create_organization;
pub mod create_project;
pub mod create_reset_link;
pub mod create_user;
pub mod erase_thesis;
pub mod export_dataset;
pub mod import_dataset;
pub mod ingest;
pub mod list_abuse;
pub mod list_audit_log;
pub mod list_keys;
pub mod list_organizations;
pub mod list_project_webhooks;
pub mod list_projects;
pub mod list_users;
pub mod remove_second_factors;
pub mod replay_deliveries;
pub mod revoke_key;
pub mod set_administrator;
pub mod set_organization_plan;

use prost_types::Timestamp;
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    near,
    time::{is_time, to_millis},
};

use crate::{
    accounts::{
        fields::{name_fault, refuse},
        sessions::audit_row,
    },
    domain::{
        account::{Act, Actor},
        dataset::Dataset,
        id_kind::unknown_to_operator,
        operation::Feature,
        scope::Scope,
    },
    error::{Error, Result},
    service::Core,
};

/// Length limit of the reason of an action, in characters.
const MAX_REASON: usize = 500;

pub(crate) fn invalid(param: &str, rule: &str) -> Error {
    ApiError::validation(&[FieldError::new(param, rule)]).into()
}

/// Reads a time of a request, in unix milliseconds.
pub(super) fn time(param: &str, given: Option<&Timestamp>) -> Result<i64> {
    let time = given.filter(|time| is_time(time)).map(to_millis);
    time.ok_or_else(|| invalid(param, "must be a time of the years 1 to 9999"))
}

pub(super) fn name(name: &str) -> Result<String> {
    refuse([name_fault("name", name)])?;
    Ok(name.trim().to_owned())
}

/// Refuses a reason that is empty or too long.
fn demand_reason(reason: &str) -> Result<()> {
    if reason.trim().is_empty() || reason.chars().count() > MAX_REASON {
        return Err(invalid("reason", &format!("must have 1 to {MAX_REASON} characters")));
    }
    Ok(())
}

/// Parses the name of a dataset, and checks that its project exists.
async fn known_dataset(core: &Core, name: &str) -> Result<Dataset> {
    let Some(dataset) = Dataset::parse(name) else {
        return Err(invalid("dataset", "must be live, sandbox, project/<id> or alerts/<project>/<environment>"));
    };
    if let Some(id) = dataset.project_id() {
        core.shared.control.refresh().await?;
        let state = core.shared.control.state();
        state.project(id).ok_or_else(|| unknown_to_operator(ErrorCode::ProjectNotFound, id))?;
    }
    Ok(dataset)
}

/// Writes to the audit log that somebody starts an action on a whole dataset.
async fn audit_dataset_action(core: &Core, actor: &Actor, action: &str, dataset: &Dataset) -> Result<()> {
    audit_in_dataset(core, actor.does(action).to(&dataset.to_string()), dataset).await
}

/// Writes an act to the audit log of the organization that a dataset belongs to, or of the installation.
async fn audit_in_dataset(core: &Core, act: Act, dataset: &Dataset) -> Result<()> {
    let shared = &core.shared;
    let organization_of = |id: &str| Some(shared.control.state().project(id)?.organization_id.clone());
    let organization_id = dataset.project_id().and_then(organization_of);
    let act = Act { organization_id, ..act };
    Ok(shared.backend.apply(vec![audit_row(shared, &act)]).await?)
}

fn known_plan(core: &Core, plan: &str) -> Result<String> {
    if core.gate.plans().contains_key(plan) {
        Ok(plan.to_owned())
    } else {
        let known: Vec<&str> = core.gate.plans().keys().map(String::as_str).collect();
        let rule = format!("is not a plan of this installation; it must be of: {}", known.join(", "));
        Err(invalid("plan", &near::with_nearest(&rule, plan, known)))
    }
}

/// The scopes that a new key may have.
pub(super) fn grantable(core: &Core) -> impl Iterator<Item = Scope> {
    let wallets = core.gate.features().has(Feature::Wallets);
    Scope::ALL.iter().copied().filter(move |scope| *scope != Scope::WalletsRead || wallets)
}

pub(super) fn limit_reached(rule: &str) -> Error {
    Error::new(ErrorCode::AccountLimitReached, rule)
}

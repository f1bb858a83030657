//! Creates the bootstrap keys, their project and their organization at a start, once.

use secrecy::{ExposeSecret, SecretString};

use super::{grantable, known_plan};
use crate::{
    control::ControlState,
    domain::{
        account::Actor,
        control::{ApiKey, ControlChange, Organization, Project},
        id,
    },
    error::{Error, Result},
    keys::key_ring::{LIVE_PREFIX, display_prefix, is_api_key},
    service::Core,
};

/// Default plan of the bootstrap organization.
const BOOTSTRAP_PLAN: &str = "business";

/// Keys that the service creates at its start, in a project `default`.
#[derive(Clone, Debug, Default)]
pub struct Bootstrap {
    /// A raw test key.
    pub test_key: Option<SecretString>,
    /// A raw live key.
    pub live_key: Option<SecretString>,
    /// The organization's plan.
    pub plan: Option<String>,
}

pub async fn bootstrap(core: &Core, bootstrap: &Bootstrap) -> Result<()> {
    let plan = known_plan(core, bootstrap.plan.as_deref().unwrap_or(BOOTSTRAP_PLAN));
    let keys = bootstrap.test_key.iter().chain(&bootstrap.live_key);
    let keys: Vec<&str> = keys.map(ExposeSecret::expose_secret).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let plan = plan?;
    if keys.iter().any(|raw| !is_api_key(raw)) {
        return Err(Error::internal("a bootstrap key has not the form of an API key"));
    }
    let now = core.shared.clock.now_ms();
    let organization_id = id::derive("org_", &["default"]);
    let project_id = id::derive("prj_", &["default"]);
    let scopes: Vec<String> = grantable(core).map(|scope| scope.as_str().to_owned()).collect();
    let make = |state: &ControlState| {
        let mut changes = Vec::new();
        let organization = state.organization(&organization_id);
        let replan = bootstrap.plan.is_some() && organization.is_some_and(|organization| organization.plan != plan);
        if organization.is_none() || replan {
            changes.push(ControlChange::Organization(Organization {
                id: organization_id.clone(),
                name: "default".to_owned(),
                plan: plan.clone(),
                created_at: organization.map_or(now, |organization| organization.created_at),
                revision: organization.map_or(0, |organization| organization.revision + 1),
                requires_second_factor: organization.is_some_and(|organization| organization.requires_second_factor),
            }));
        }
        if state.project(&project_id).is_none() {
            changes.push(ControlChange::Project(Project {
                id: project_id.clone(),
                organization_id: organization_id.clone(),
                name: "default".to_owned(),
                live_approved: true,
                created_at: now,
                ..Project::default()
            }));
        }
        for raw in &keys {
            let hash = core.shared.keys.key_hash(raw).to_vec();
            if state.key_by_hash(&hash).is_none() {
                changes.push(ControlChange::ApiKey(ApiKey {
                    id: id::derive("key_", &[&hex::encode(&hash)]),
                    project_id: project_id.clone(),
                    live: raw.starts_with(LIVE_PREFIX),
                    name: "bootstrap".to_owned(),
                    prefix: display_prefix(raw),
                    hash,
                    scopes: scopes.clone(),
                    created_at: now,
                    ..ApiKey::default()
                }));
            }
        }
        Ok((changes, ()))
    };
    core.shared.control.change(Actor::service().does("keys.set_up"), make).await
}

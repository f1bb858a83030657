//! Creates an API key.

use std::collections::HashSet;

use prost_types::Timestamp;
use thesis_proto::{
    error::FieldError,
    near,
    time::{is_time, to_millis},
    v1,
};

use super::{grantable, limit_reached};
use crate::{
    access::rights,
    accounts::fields::{name_fault, refuse},
    domain::{
        account::{Actor, MAX_KEYS, Role},
        control::{ApiKey, ControlChange},
        id,
        scope::Scope,
    },
    error::Result,
    operations::Core,
    shared::{control::ControlState, key_ring::display_prefix},
};

/// A key to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    /// Live or test.
    pub environment: v1::Environment,
    /// For people to read.
    pub name: &'a str,
    /// Names of its scopes; the default ones if empty.
    pub scopes: &'a [String],
    /// Expiry, if it has one.
    pub expires_at: Option<&'a Timestamp>,
}

fn scope_fault(core: &Core, text: &str) -> Option<FieldError> {
    if grantable(core).any(|scope| scope.as_str() == text) {
        return None;
    }
    let rule = match Scope::parse(text) {
        Some(_) => format!("{text} cannot be granted while the Wallets API is off (WALLETS_API_ENABLED)"),
        None => {
            let known: Vec<&str> = grantable(core).map(Scope::as_str).collect();
            let rule = format!("{text} is not a scope that may be granted; it must be of: {}", known.join(", "));
            near::with_nearest(&rule, text, known)
        }
    };
    Some(FieldError::new("scopes", rule))
}

/// Creates a key. Only this answer has its raw form.
///
/// # Errors
/// 422, `PROJECT_NOT_FOUND`, `INSUFFICIENT_ROLE`, `PROJECT_ARCHIVED`, `ACCOUNT_LIMIT_REACHED`, or when the store does
/// not answer.
pub async fn create_key(core: &Core, actor: &Actor, project_id: &str, new: &NewKey<'_>) -> Result<(ApiKey, String)> {
    let created_at = core.shared.clock.now_ms();
    let live = match new.environment {
        v1::Environment::Live => Ok(true),
        v1::Environment::Test => Ok(false),
        v1::Environment::Unspecified => Err(FieldError::new("environment", "must be test or live")),
    };
    let is_over = |at: &Timestamp| !is_time(at) || actor.is_member && to_millis(at) <= created_at;
    let end = new.expires_at.filter(|at| is_over(at));
    let end = end.map(|_| FieldError::new("expires_at", "must be a time to come, of year 9999 at most"));
    let faults = [live.as_ref().err().cloned(), name_fault("name", new.name), end];
    refuse(faults.into_iter().chain(new.scopes.iter().map(|scope| scope_fault(core, scope))))?;
    let scopes = if new.scopes.is_empty() {
        Scope::ALL.iter().filter(|scope| scope.by_default()).map(|scope| scope.as_str().to_owned()).collect()
    } else {
        let mut seen = HashSet::new();
        new.scopes.iter().filter(|scope| seen.insert(*scope)).cloned().collect()
    };
    let live = live.unwrap_or_default();
    let raw = core.shared.keys.new_api_key(live);
    let key = ApiKey {
        id: id::random("key_", core.shared.ids.as_ref()),
        project_id: project_id.to_owned(),
        live,
        name: new.name.trim().to_owned(),
        prefix: display_prefix(&raw),
        hash: core.shared.keys.key_hash(&raw).to_vec(),
        scopes,
        created_at,
        expires_at: new.expires_at.map(to_millis),
        revoked_at: None,
    };
    let make = |state: &ControlState| {
        let project = rights::project(state, actor, project_id, Role::Developer)?;
        if actor.is_member {
            rights::demand_in_use(project)?;
        }
        let used = state.keys().filter(|other| other.project_id == project_id && other.revoked_at.is_none()).count();
        if actor.is_member && used >= MAX_KEYS {
            return Err(limit_reached(&format!("a project has at most {MAX_KEYS} keys; revoke one")));
        }
        Ok((vec![ControlChange::ApiKey(key.clone())], key.clone()))
    };
    Ok((core.shared.control.change(actor.does("key.created"), make).await?, raw))
}

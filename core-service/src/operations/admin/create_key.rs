//! Creates an API key.

use std::collections::HashSet;

use super::{grantable, invalid, limit_reached, name};
use crate::{
    access::rights,
    domain::{
        account::{Actor, MOST_KEYS, Role},
        control::{ApiKey, ControlChange},
        id,
        scope::Scope,
    },
    error::Result,
    operations::Core,
    shared::{control::ControlState, key_ring::display_prefix},
};

/// Creates a key. Only this answer has its raw form.
///
/// # Errors
/// 422, `PROJECT_NOT_FOUND`, `INSUFFICIENT_ROLE`, `PROJECT_ARCHIVED`, `ACCOUNT_LIMIT_REACHED`, or when the store does
/// not answer.
pub async fn create_key(
    core: &Core,
    actor: &Actor,
    project_id: &str,
    live: bool,
    given: &str,
    scopes: &[String],
    expires_at: Option<i64>,
) -> Result<(ApiKey, String)> {
    let scopes: Vec<String> = if scopes.is_empty() {
        Scope::ALL.iter().filter(|scope| scope.by_default()).map(|scope| scope.as_str().to_owned()).collect()
    } else {
        let grantable = |text: &String| grantable(core).any(|scope| scope.as_str() == text);
        if let Some(wrong) = scopes.iter().find(|text| !grantable(text)) {
            let rule = match Scope::parse(wrong) {
                Some(_) => format!("{wrong} cannot be granted while the Wallets API is off (WALLETS_API_ENABLED)"),
                None => format!("{wrong} is not a scope that may be granted"),
            };
            return Err(invalid("scopes", &rule));
        }
        let mut seen = HashSet::new();
        scopes.iter().filter(|scope| seen.insert(*scope)).cloned().collect()
    };
    let raw = core.shared.keys.new_api_key(live);
    let key = ApiKey {
        id: id::random("key_", core.shared.ids.as_ref()),
        project_id: project_id.to_owned(),
        live,
        name: name(given)?,
        prefix: display_prefix(&raw),
        hash: core.shared.keys.key_hash(&raw).to_vec(),
        scopes,
        created_at: core.shared.clock.now_ms(),
        expires_at,
        revoked_at: None,
    };
    let make = |state: &ControlState| {
        let project = rights::project(state, actor, project_id, Role::Developer)?;
        if actor.is_member {
            rights::demand_in_use(project)?;
        }
        let now = key.created_at;
        let works = |other: &ApiKey| other.revoked_at.is_none() && other.expires_at.is_none_or(|end| now < end);
        let used = state.keys().filter(|other| other.project_id == project_id && works(other)).count();
        if actor.is_member && used >= MOST_KEYS {
            return Err(limit_reached(&format!("a project has at most {MOST_KEYS} keys; revoke one")));
        }
        Ok((vec![ControlChange::ApiKey(key.clone())], key.clone()))
    };
    Ok((core.shared.control.change(actor.does("key.created"), make).await?, raw))
}

//! Creates an API key.

use std::collections::HashSet;

use super::{grantable, invalid, name, no_project};
use crate::{
    domain::{
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
/// 422, `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn create_key(
    core: &Core,
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
        state.project(project_id).ok_or_else(no_project)?;
        Ok((vec![ControlChange::ApiKey(key.clone())], key.clone()))
    };
    Ok((core.shared.control.change(make).await?, raw))
}

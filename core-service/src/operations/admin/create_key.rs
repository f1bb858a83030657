//! Creates an API key. Only the response has its raw form, and for ten minutes the further responses to its seed:
//! nobody stores it.

use std::collections::HashSet;

use prost_types::Timestamp;
use thesis_proto::{
    error::{ErrorCode, FieldError},
    near,
    time::{is_time, to_millis},
    v1,
};

use super::{grantable, limit_reached};
use crate::{
    access::rights,
    accounts::fields::{name_fault, refuse},
    control::ControlState,
    convert,
    domain::{
        account::{Actor, MAX_KEYS, Role},
        allowed_addresses::{MAX_NETWORKS, normalized},
        control::{ApiKey, ControlChange},
        id,
        scope::Scope,
    },
    error::{Error, Result},
    keys::key_ring::display_prefix,
    service::Core,
};

/// Age up to which a key with a seed is given again, in milliseconds.
const GIVEN_AGAIN_MS: i64 = 10 * 60_000;

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

/// Reads the networks of a new key.
pub(in crate::operations) fn networks(texts: &[String]) -> std::result::Result<Vec<String>, FieldError> {
    let fault = |message: String| FieldError::new("allowed_addresses", message);
    if texts.len() > MAX_NETWORKS {
        return Err(fault(format!("must have at most {MAX_NETWORKS} networks")));
    }
    let mut seen = HashSet::new();
    let mut networks = Vec::new();
    for text in texts {
        let rule = || fault(format!("{text} must be an address or a network such as 192.0.2.0/24 or 2001:db8::/48"));
        let network = normalized(text).ok_or_else(rule)?;
        if seen.insert(network.clone()) {
            networks.push(network);
        }
    }
    Ok(networks)
}

/// The error for a form that has already created a key, and may not show it again.
fn form_used() -> Error {
    let message = "this form has created a key before; open it anew for another key";
    Error::new(ErrorCode::IdempotencyKeyReused, message)
}

/// Finds the key that the same form has created; none if it has created none yet.
pub(in crate::operations) fn created_before(state: &ControlState, id: &str, now_ms: i64) -> Result<Option<ApiKey>> {
    match state.key(id) {
        Some(key) if key.revoked_at.is_some() || now_ms - key.created_at > GIVEN_AGAIN_MS => Err(form_used()),
        found => Ok(found.map(|key| ApiKey::clone(key))),
    }
}

/// Fails if the project has as many keys as people may create.
pub(in crate::operations) fn demand_room(state: &ControlState, actor: &Actor, project_id: &str) -> Result<()> {
    let used = state.keys().filter(|other| other.project_id == project_id && other.revoked_at.is_none()).count();
    if actor.is_member && used >= MAX_KEYS {
        return Err(limit_reached(&format!("a project has at most {MAX_KEYS} keys; revoke one")));
    }
    Ok(())
}

pub async fn create_key(
    core: &Core,
    actor: &Actor,
    new: &v1::CreateKeyRequest,
    seed: Option<&str>,
) -> Result<v1::CreateKeyResponse> {
    let created_at = core.shared.clock.now_ms();
    let live = match new.environment() {
        v1::Environment::Live => Ok(true),
        v1::Environment::Test => Ok(false),
        v1::Environment::Unspecified => Err(FieldError::new("environment", "must be test or live")),
    };
    let is_over = |at: &Timestamp| !is_time(at) || actor.is_member && to_millis(at) <= created_at;
    let end = new.expires_at.as_ref().filter(|at| is_over(at));
    let end = end.map(|_| FieldError::new("expires_at", "must be in the future, in the year 9999 at the latest"));
    let networks = networks(&new.allowed_addresses);
    let faults = [live.as_ref().err().cloned(), name_fault("name", &new.name), end, networks.as_ref().err().cloned()];
    refuse(faults.into_iter().chain(new.scopes.iter().map(|scope| scope_fault(core, scope))))?;
    let scopes = if new.scopes.is_empty() {
        Scope::ALL.iter().filter(|scope| scope.by_default()).map(|scope| scope.as_str().to_owned()).collect()
    } else {
        let mut seen = HashSet::new();
        new.scopes.iter().filter(|scope| seen.insert(*scope)).cloned().collect()
    };
    let live = live.unwrap_or_default();
    let ring = &core.shared.keys;
    let raw = seed.map_or_else(|| ring.new_api_key(live), |seed| ring.seeded_api_key(live, seed));
    let key = ApiKey {
        id: id::seeded("key_", seed, core.shared.ids.as_ref()),
        project_id: new.project_id.clone(),
        live,
        name: new.name.trim().to_owned(),
        prefix: display_prefix(&raw),
        hash: ring.key_hash(&raw).to_vec(),
        scopes,
        created_at,
        expires_at: new.expires_at.as_ref().map(to_millis),
        revoked_at: None,
        allowed_addresses: networks.unwrap_or_default(),
    };
    let make = |state: &ControlState| {
        let project = rights::project(state, actor, &new.project_id, Role::Developer)?;
        if actor.is_member {
            rights::demand_in_use(project)?;
        }
        if let Some(created) = created_before(state, &key.id, created_at)? {
            return Ok((Vec::new(), created));
        }
        demand_room(state, actor, &new.project_id)?;
        Ok((vec![ControlChange::ApiKey(key.clone())], key.clone()))
    };
    let row = core.shared.control.change(actor.does("key.created"), make).await?;
    Ok(v1::CreateKeyResponse { api_key: Some(convert::control::api_key(&row)), key: raw })
}

#[cfg(test)]
mod tests {
    use thesis_proto::v1::Environment;

    use super::*;
    use crate::tests::harness::{ManualClock, core, memory};

    #[tokio::test]
    async fn a_seed_has_one_key_which_is_given_again_for_a_while() {
        let clock = ManualClock::new();
        let core = core(memory(&clock), &clock, 1).await;
        let actor = Actor::operator(None);
        let keys = || core.shared.control.state().keys().filter(|key| key.name == "laptop").count();
        let project = core.shared.control.state().projects().next().unwrap().id.clone();
        let create = async |seed: Option<&'static str>| {
            let new = v1::CreateKeyRequest {
                project_id: project.clone(),
                environment: Environment::Test.into(),
                name: "laptop".to_owned(),
                ..v1::CreateKeyRequest::default()
            };
            create_key(&core, &actor, &new, seed).await
        };
        let first = create(Some("form")).await.unwrap();
        clock.advance(GIVEN_AGAIN_MS);
        assert_eq!(create(Some("form")).await.unwrap(), first);
        let id = &first.api_key.as_ref().unwrap().id;
        let hash = core.shared.control.state().key(id).unwrap().hash.clone();
        assert_eq!(core.shared.keys.key_hash(&first.key).as_slice(), hash);
        assert_eq!(keys(), 1);
        clock.advance(1);
        let refused = create(Some("form")).await.unwrap_err();
        assert_eq!(refused.api.code, ErrorCode::IdempotencyKeyReused);
        for seed in [Some("other"), None, None] {
            assert_ne!(create(seed).await.unwrap().key, first.key);
        }
        assert_eq!(keys(), 4);
    }
}

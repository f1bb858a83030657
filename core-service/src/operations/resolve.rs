//! Finds the profiles and tokens that a client names.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    json,
    reference::TokenReference,
    v1,
};

use super::missing;
use crate::{
    access::gate::Call,
    convert,
    domain::{
        dataset::{Dataset, View},
        row::{Profile, Token},
    },
    error::Result,
    service::Core,
    shared::Shared,
};

/// Tokens that a list merges for one symbol or address.
const MAX_TOKENS: usize = 50;

/// A reference to a profile.
#[derive(Clone, Debug)]
pub enum ProfileReference {
    /// Any of the names below.
    Any(String),
    /// An `fp_` id or an upstream user id.
    AnyId(String),
    /// An `fp_` id.
    Id(String),
    /// A handle.
    Handle(String),
    /// An upstream user id.
    Upstream(String),
}

/// Finds the id of a profile. It tries the possible readings in order: `fp_` id, upstream id, handle.
pub async fn profile_id(shared: &Shared, view: &View, reference: &ProfileReference) -> Result<Option<String>> {
    let theses = &shared.theses;
    let (id, upstream_id, handle) = match reference {
        ProfileReference::Any(text) => (Some(text), Some(text), Some(text)),
        ProfileReference::AnyId(text) => (Some(text), Some(text), None),
        ProfileReference::Id(text) => (Some(text), None, None),
        ProfileReference::Upstream(text) => (None, Some(text), None),
        ProfileReference::Handle(text) => (None, None, Some(text)),
    };
    if let Some(id) = id.filter(|id| id.starts_with("fp_"))
        && theses.profile(view, id).await?.is_some()
    {
        return Ok(Some(id.clone()));
    }
    if let Some(upstream_id) = upstream_id
        && let Some(id) = theses.profile_id_by_upstream(view, upstream_id).await?
    {
        return Ok(Some(id));
    }
    match handle {
        Some(handle) => Ok(theses.profile_id_by_handle(view, handle).await?),
        None => Ok(None),
    }
}

/// Finds the ids of the tokens that a reference names, on one chain if it is given. The first reading that exists
/// counts. One id more than [`MAX_TOKENS`] means that there are too many.
pub(super) async fn token_ids(
    shared: &Shared,
    view: &View,
    reference: &str,
    chain: Option<&str>,
) -> Result<Vec<String>> {
    let Some(reference) = TokenReference::parse(reference) else { return Ok(Vec::new()) };
    let theses = &shared.theses;
    if let Some(id) = &reference.id
        && let Some((_, token)) = theses.token(view, id).await?
    {
        return Ok(if chain.is_none_or(|chain| chain == token.chain) { vec![token.id.clone()] } else { Vec::new() });
    }
    let limit = MAX_TOKENS + 1;
    let mut ids = Vec::new();
    if let Some((on, address)) = &reference.on_chain
        && chain.is_none_or(|chain| chain == on)
    {
        ids = theses.token_ids_by_address(view, address, Some(on), limit).await?;
    }
    if let Some(address) = reference.address.as_ref().filter(|_| ids.is_empty()) {
        ids = theses.token_ids_by_address(view, address, chain, limit).await?;
    }
    if ids.is_empty() {
        ids = theses.token_ids_by_symbol(view, &reference.symbol, chain, limit).await?;
    }
    Ok(ids)
}

/// Finds the ids of the tokens that a filter names, on one chain if it is given; none without a filter.
///
/// # Errors
/// Fails with 422 on `token` if it names too many, or if the store does not answer.
pub async fn filtered_tokens(
    shared: &Shared,
    view: &View,
    reference: Option<&str>,
    chain: Option<&str>,
) -> Result<Option<Vec<String>>> {
    let Some(reference) = reference else { return Ok(None) };
    let ids = token_ids(shared, view, reference, chain).await?;
    if ids.len() > MAX_TOKENS {
        let rule = format!("names more than {MAX_TOKENS} tokens; give chain or address");
        return Err(ApiError::validation(&[FieldError::new("token", rule)]).into());
    }
    Ok(Some(ids))
}

/// Reads the profile that a reference names, if there is one.
pub async fn profile_if_any(
    core: &Core,
    call: &Call,
    reference: &ProfileReference,
) -> Result<Option<(Dataset, Arc<Profile>)>> {
    let (view, theses) = (&call.caller.view, &core.shared.theses);
    match profile_id(&core.shared, view, reference).await? {
        Some(id) => Ok(theses.profile(view, &id).await?),
        None => Ok(None),
    }
}

/// Reads the profile that a reference names.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, or when the store does not answer.
pub async fn profile(core: &Core, call: &Call, reference: &ProfileReference) -> Result<(Dataset, Arc<Profile>)> {
    match profile_if_any(core, call, reference).await? {
        Some(found) => Ok(found),
        None => Err(missing::missing_profile(core, call, reference).await),
    }
}

/// Finds the one token that a reference names.
///
/// # Errors
/// `AMBIGUOUS_TOKEN` with the candidates when there are several, or when the store does not answer.
pub async fn token_if_any(
    core: &Core,
    call: &Call,
    reference: &str,
    chain: Option<&str>,
) -> Result<Option<(Dataset, Arc<Token>)>> {
    let view = &call.caller.view;
    let mut ids = token_ids(&core.shared, view, reference, chain).await?;
    ids.truncate(MAX_TOKENS);
    let mut found = Vec::new();
    for id in &ids {
        found.extend(core.shared.theses.token(view, id).await?);
    }
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let references: Vec<v1::TokenRef> = found.iter().map(|(_, token)| convert::row::token_ref(token)).collect();
    let candidates: Vec<_> = references.iter().map(json::TokenRef::from).collect();
    let message = "this names several tokens; give the chain or the address";
    let details = serde_json::json!({ "candidates": candidates });
    Err(ApiError::new(ErrorCode::AmbiguousToken, message).with_param("token").with_details(details).into())
}

/// Reads the one token that a reference names.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, or when the store does not answer.
pub async fn token(core: &Core, call: &Call, reference: &str, chain: Option<&str>) -> Result<(Dataset, Arc<Token>)> {
    match token_if_any(core, call, reference, chain).await? {
        Some(found) => Ok(found),
        None => Err(missing::missing_token(core, call, reference, chain).await),
    }
}

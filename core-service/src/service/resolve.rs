//! Finds the profiles and tokens that a client names.

use thesis_proto::reference::TokenReference;

use super::{core::Shared, error::Result, profiles::Reference};
use crate::domain::dataset::View;

/// Tokens that one symbol or address is merged over at most.
pub const MAX_TOKENS: usize = 50;

/// The id of the profile that a reference names: of the names that it may be, `fp_` id, then upstream id, then handle; the
/// first that exists.
///
/// # Errors
/// When the store does not answer.
pub async fn profile_id(shared: &Shared, view: &View, reference: &Reference) -> Result<Option<String>> {
    let theses = &shared.theses;
    let (id, upstream_id, handle) = match reference {
        Reference::Any(text) => (Some(text), Some(text), Some(text)),
        Reference::AnyId(text) => (Some(text), Some(text), None),
        Reference::Id(text) => (Some(text), None, None),
        Reference::Upstream(text) => (None, Some(text), None),
        Reference::Handle(text) => (None, None, Some(text)),
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

/// The ids of the tokens that a reference names, narrowed to a chain: the first of its readings that exists. More than
/// [`MAX_TOKENS`] are told by one more.
///
/// # Errors
/// When the store does not answer.
pub async fn token_ids(shared: &Shared, view: &View, reference: &str, chain: Option<&str>) -> Result<Vec<String>> {
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

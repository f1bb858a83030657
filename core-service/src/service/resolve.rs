//! Finds the profiles and tokens that a client names.

use super::{core::Shared, error::Result};
use crate::domain::{dataset::View, reference::TokenReference};

/// Tokens that one symbol or address is merged over at most.
pub const MAX_TOKENS: usize = 50;

/// The id of the profile that a reference names: `fp_` id, then upstream id, then handle; the first that exists.
///
/// # Errors
/// When the store does not answer.
pub async fn profile_id(shared: &Shared, view: &View, reference: &str) -> Result<Option<String>> {
    if reference.starts_with("fp_") && shared.theses.profile(view, reference).await?.is_some() {
        return Ok(Some(reference.to_owned()));
    }
    if let Some(id) = shared.theses.profile_id_by_upstream(view, reference).await? {
        return Ok(Some(id));
    }
    Ok(shared.theses.profile_id_by_handle(view, reference).await?)
}

/// The ids of the tokens that a reference names, narrowed to a chain: `tk_` id, then `chain:address`, then address, then
/// symbol; the first that exists. More than [`MAX_TOKENS`] are told by one more.
///
/// # Errors
/// When the store does not answer.
pub async fn token_ids(shared: &Shared, view: &View, reference: &str, chain: Option<&str>) -> Result<Vec<String>> {
    let reference = TokenReference::new(reference);
    let theses = &shared.theses;
    if let Some(id) = reference.id()
        && let Some((_, token)) = theses.token(view, id).await?
    {
        return Ok(if chain.is_none_or(|chain| chain == token.chain) { vec![token.id.clone()] } else { Vec::new() });
    }
    let limit = MAX_TOKENS + 1;
    let mut ids = Vec::new();
    if let Some((on, address)) = reference.chain_and_address()
        && chain.is_none_or(|chain| chain == on)
    {
        ids = theses.token_ids_by_address(view, &address, Some(on), limit).await?;
    }
    if let Some(address) = reference.address().filter(|_| ids.is_empty()) {
        ids = theses.token_ids_by_address(view, &address, chain, limit).await?;
    }
    if ids.is_empty() {
        ids = theses.token_ids_by_symbol(view, &reference.symbol(), chain, limit).await?;
    }
    Ok(ids)
}

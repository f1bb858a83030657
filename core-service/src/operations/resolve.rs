//! Finds the profiles and tokens that a client names.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    json, v1,
};

use crate::{
    access::gate::Call,
    convert,
    domain::{
        dataset::{Dataset, View},
        reference::{ProfileReference, TokenReference},
        row::{Profile, Token},
    },
    error::Result,
    service::Core,
    tables::theses::RowReader,
};

/// Tokens that a list merges for one symbol or address.
const MAX_TOKENS: usize = 50;

/// Finds the id of a profile. It tries the possible readings in order: `fp_` id, upstream id, handle.
pub async fn profile_id(reader: &RowReader<'_>, view: &View, reference: &ProfileReference) -> Result<Option<String>> {
    let [id, upstream_id, handle] = reference.readings();
    if let Some(id) = id.filter(|id| id.starts_with("fp_"))
        && reader.profile(view, id).await?.is_some()
    {
        return Ok(Some(id.to_owned()));
    }
    if let Some(upstream_id) = upstream_id
        && let Some(id) = reader.profile_id_by_upstream(view, upstream_id).await?
    {
        return Ok(Some(id));
    }
    match handle {
        Some(handle) => Ok(reader.profile_id_by_handle(view, handle).await?),
        None => Ok(None),
    }
}

/// Finds the ids of the tokens that a reference names. The first reading that exists counts. One id more than
/// [`MAX_TOKENS`] means that there are too many.
pub(super) async fn token_ids(reader: &RowReader<'_>, view: &View, reference: &TokenReference) -> Result<Vec<String>> {
    let Some(readings) = &reference.readings else { return Ok(Vec::new()) };
    let chain = reference.chain.as_deref();
    if let Some(id) = &readings.id
        && let Some((_, token)) = reader.token(view, id).await?
    {
        return Ok(if reference.allows(&token.chain) { vec![token.id.clone()] } else { Vec::new() });
    }
    let limit = MAX_TOKENS + 1;
    let mut ids = Vec::new();
    if let Some((on, address)) = &readings.on_chain
        && reference.allows(on)
    {
        ids = reader.token_ids_by_address(view, address, Some(on), limit).await?;
    }
    if let Some(address) = readings.address.as_ref().filter(|_| ids.is_empty()) {
        ids = reader.token_ids_by_address(view, address, chain, limit).await?;
    }
    if ids.is_empty() {
        ids = reader.token_ids_by_symbol(view, &readings.symbol, chain, limit).await?;
    }
    Ok(ids)
}

/// Finds the ids of the tokens that a filter names; none without a filter. Fails on `token` if it names too many.
pub async fn filtered_tokens(
    reader: &RowReader<'_>,
    view: &View,
    reference: Option<&TokenReference>,
) -> Result<Option<Vec<String>>> {
    let Some(reference) = reference else { return Ok(None) };
    let ids = token_ids(reader, view, reference).await?;
    if ids.len() > MAX_TOKENS {
        let rule = format!("names more than {MAX_TOKENS} tokens; give chain or address");
        return Err(ApiError::validation(&[FieldError::new("token", rule)]).into());
    }
    Ok(Some(ids))
}

/// Reads the profile that a reference names, if there is one.
pub async fn profile(
    core: &Core,
    call: &Call,
    reference: &ProfileReference,
) -> Result<Option<(Dataset, Arc<Profile>)>> {
    let view = &call.caller.view;
    let reader = core.shared.theses.reader(view).await?;
    match profile_id(&reader, view, reference).await? {
        Some(id) => Ok(reader.profile(view, &id).await?),
        None => Ok(None),
    }
}

/// Reads the one token that a reference names, if there is one. Several are `AMBIGUOUS_TOKEN` with the candidates.
pub async fn token(
    reader: &RowReader<'_>,
    view: &View,
    reference: &TokenReference,
) -> Result<Option<(Dataset, Arc<Token>)>> {
    let mut ids = token_ids(reader, view, reference).await?;
    if ids.is_empty() {
        return Ok(None);
    }
    ids.truncate(MAX_TOKENS);
    let mut found = Vec::new();
    for id in &ids {
        found.extend(reader.token(view, id).await?);
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

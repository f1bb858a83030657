//! Profiles and tokens for live keys, which the upstream is asked for: unknown ones, and known ones that are old.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    reference::TokenReference,
    v1::{self, look_up_request::Thing},
};

use super::{
    Core,
    resolve::{self, ProfileReference},
};
use crate::{
    access::gate::Call,
    domain::{
        dataset::Dataset,
        row::{Profile, Token},
    },
    error::{Error, Result},
    ingest::upstream::{LookupOutcome, Upstream},
};

/// The error where the upstream has to be asked and cannot be.
pub(super) fn unavailable(after_s: u32) -> Error {
    let text = "this is not known here, and the upstream cannot be asked now; try again later";
    ApiError::new(ErrorCode::UpstreamUnavailable, text).with_retry_after(after_s).into()
}

/// The upstream, if this call's rows come from there.
pub(super) fn upstream<'a>(core: &'a Core, call: &Call) -> Option<&'a Arc<Upstream>> {
    core.upstream.as_ref().filter(|_| call.caller.key.live)
}

/// A token as the upstream names it.
pub(super) fn named(token: &Token) -> v1::BackfillToken {
    v1::BackfillToken { chain: token.chain.clone(), address: token.address.clone() }
}

/// The look-ups that may find a profile, in the order in which references are read.
fn look_ups(reference: &ProfileReference) -> Vec<Thing> {
    let handle = |handle: &String| Thing::Handle(handle.clone());
    let id = |id: &String| (!id.starts_with("fp_") && !id.starts_with('@')).then(|| Thing::Profile(id.clone()));
    match reference {
        ProfileReference::Any(text) => id(text).into_iter().chain([handle(text)]).collect(),
        ProfileReference::AnyId(text) => id(text).into_iter().collect(),
        ProfileReference::Id(_) => Vec::new(),
        ProfileReference::Upstream(text) => vec![Thing::Profile(text.clone())],
        ProfileReference::Handle(text) => vec![handle(text)],
    }
}

/// Asks for the profile that a reference names; tells whether it may be known now.
///
/// # Errors
/// `UPSTREAM_UNAVAILABLE`.
pub(super) async fn ask_for_profile(core: &Core, call: &Call, reference: &ProfileReference) -> Result<bool> {
    let Some(upstream) = upstream(core, call) else { return Ok(false) };
    for thing in look_ups(reference) {
        match upstream.lookup(thing).await {
            LookupOutcome::Found(_) => return Ok(true),
            LookupOutcome::Missing => {}
            LookupOutcome::Unavailable { after_s } => return Err(unavailable(after_s)),
        }
    }
    Ok(false)
}

/// Whether a reference names a token by chain and address, so that the upstream can be asked for it.
pub(super) fn is_asked_for(reference: &str) -> bool {
    TokenReference::parse(reference).is_some_and(|reference| reference.on_chain.is_some())
}

/// Asks for the token that a reference names by chain and address; tells whether it may be known now.
///
/// # Errors
/// `UPSTREAM_UNAVAILABLE`.
pub(super) async fn ask_for_token(core: &Core, call: &Call, reference: &str, chain: Option<&str>) -> Result<bool> {
    let Some(upstream) = upstream(core, call) else { return Ok(false) };
    let named = TokenReference::parse(reference).and_then(|reference| reference.on_chain);
    let Some((on, folded)) = named.filter(|(on, _)| chain.is_none_or(|chain| chain == on)) else {
        return Ok(false);
    };
    // In the letters of who asks: the upstream may know no others.
    let address = reference.split_once(':').map_or(folded, |(_, address)| address.trim().to_owned());
    match upstream.lookup(Thing::Token(v1::BackfillToken { chain: on, address })).await {
        LookupOutcome::Found(_) => Ok(true),
        LookupOutcome::Missing => Ok(false),
        LookupOutcome::Unavailable { after_s } => Err(unavailable(after_s)),
    }
}

/// Reads the profile that a reference names, asking the upstream where it is unknown or old. Tells whether it is old
/// although the upstream was to be asked.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub(super) async fn profile(
    core: &Core,
    call: &Call,
    reference: &ProfileReference,
) -> Result<(Dataset, Arc<Profile>, bool)> {
    let (dataset, row) = match resolve::profile_if_any(core, call, reference).await? {
        Some(found) => found,
        None => {
            ask_for_profile(core, call, reference).await?;
            let (dataset, row) = resolve::profile(core, call, reference).await?;
            return Ok((dataset, row, false));
        }
    };
    let thing = Thing::Profile(row.upstream_id.clone());
    let observed_at = row.age.map_or(0, |age| age.observed_at);
    match refresh(core, call, thing, observed_at).await {
        Refreshed::No => Ok((dataset, row, false)),
        Refreshed::Failed => Ok((dataset, row, true)),
        Refreshed::Yes => {
            // It may have another handle now, and another profile the old one.
            if let Some((dataset, row)) = resolve::profile_if_any(core, call, reference).await? {
                return Ok((dataset, row, false));
            }
            ask_for_profile(core, call, reference).await?;
            let (dataset, row) = resolve::profile(core, call, reference).await?;
            Ok((dataset, row, false))
        }
    }
}

/// Reads the token that a reference names, likewise.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub(super) async fn token(
    core: &Core,
    call: &Call,
    reference: &str,
    chain: Option<&str>,
) -> Result<(Dataset, Arc<Token>, bool)> {
    let (dataset, row) = known_token(core, call, reference, chain).await?;
    let thing = Thing::Token(named(&row));
    let observed_at = row.age.map_or(0, |age| age.observed_at);
    match refresh(core, call, thing, observed_at).await {
        Refreshed::No => Ok((dataset, row, false)),
        Refreshed::Failed => Ok((dataset, row, true)),
        Refreshed::Yes => {
            let again = core.shared.theses.token(&call.caller.view, &row.id).await?;
            let (dataset, row) = again.unwrap_or((dataset, row));
            Ok((dataset, row, false))
        }
    }
}

/// Reads the token that a reference names, asking the upstream where it is unknown.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub(super) async fn known_token(
    core: &Core,
    call: &Call,
    reference: &str,
    chain: Option<&str>,
) -> Result<(Dataset, Arc<Token>)> {
    if let Some(found) = resolve::token_if_any(core, call, reference, chain).await? {
        return Ok(found);
    }
    ask_for_token(core, call, reference, chain).await?;
    resolve::token(core, call, reference, chain).await
}

/// What is known of a profile's wallets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wallets {
    /// The upstream told them lately, or there is none to be asked.
    Told,
    /// They are old, and the upstream cannot be asked.
    Old,
    /// The upstream was never asked for them and cannot be now.
    Unknown {
        /// Seconds until it may be asked again.
        after_s: u32,
    },
}

/// A profile with its wallets, for which the upstream is asked where they are unknown or old.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn with_wallets(core: &Core, call: &Call, row: Arc<Profile>) -> Result<(Arc<Profile>, Wallets)> {
    let Some(upstream) = upstream(core, call) else { return Ok((row, Wallets::Told)) };
    let thing = Thing::Wallets(row.upstream_id.clone());
    if !upstream.is_due(thing.clone(), i64::MIN / 2).await {
        return Ok((row, Wallets::Told));
    }
    match upstream.lookup(thing.clone()).await {
        LookupOutcome::Found(_) => {
            let again = core.shared.theses.profile(&call.caller.view, &row.id).await?;
            Ok((again.map_or(row, |(_, row)| row), Wallets::Told))
        }
        LookupOutcome::Missing => Ok((row, Wallets::Told)),
        LookupOutcome::Unavailable { .. } if upstream.has_lookup_of(&thing).await => Ok((row, Wallets::Old)),
        LookupOutcome::Unavailable { after_s } => Ok((row, Wallets::Unknown { after_s })),
    }
}

enum Refreshed {
    /// It is new enough, or the upstream has it no longer.
    No,
    Yes,
    Failed,
}

async fn refresh(core: &Core, call: &Call, thing: Thing, observed_at: i64) -> Refreshed {
    let Some(upstream) = upstream(core, call) else { return Refreshed::No };
    if !upstream.is_due(thing.clone(), observed_at).await {
        return Refreshed::No;
    }
    match upstream.lookup(thing).await {
        LookupOutcome::Found(_) => Refreshed::Yes,
        LookupOutcome::Missing => Refreshed::No,
        LookupOutcome::Unavailable { .. } => Refreshed::Failed,
    }
}

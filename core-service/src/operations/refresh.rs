//! Reads profiles and tokens for live keys. The service requests unknown and old ones from the upstream. A read fails
//! with `UPSTREAM_UNAVAILABLE` if it needs a lookup and the upstream cannot be reached.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, look_up_request::Thing},
};

use super::{
    missing::{missing_profile, missing_token},
    resolve,
};
use crate::{
    access::gate::Call,
    domain::{
        dataset::Dataset,
        reference::{ProfileReference, TokenReference},
        row::{Profile, Token},
    },
    error::{Error, Result},
    ingest::upstream::{LookupOutcome, Upstream},
    service::Core,
    tables::theses::RowReader,
};

/// The error when a lookup is necessary and the upstream cannot be reached.
pub(super) fn upstream_unavailable(after_s: u32) -> Error {
    let text = "this is not known here, and the upstream cannot be asked now; try again later";
    ApiError::new(ErrorCode::UpstreamUnavailable, text).with_retry_after(after_s).into()
}

/// The upstream, if this call's key reads live data.
pub(super) fn upstream_for<'a>(core: &'a Core, call: &Call) -> Option<&'a Arc<Upstream>> {
    core.upstream.as_ref().filter(|_| call.caller.key.live)
}

/// The token's name in a lookup of the upstream.
pub(super) fn upstream_token(token: &Token) -> v1::BackfillToken {
    v1::BackfillToken { chain: token.chain.clone(), address: token.address.clone() }
}

/// Looks things up at the upstream until one is found. Returns true if one was.
async fn request(core: &Core, call: &Call, things: impl IntoIterator<Item = Thing>) -> Result<bool> {
    let Some(upstream) = upstream_for(core, call) else { return Ok(false) };
    for thing in things {
        match upstream.lookup(thing).await {
            LookupOutcome::Found(_) => return Ok(true),
            LookupOutcome::Missing => {}
            LookupOutcome::Unavailable { after_s } => return Err(upstream_unavailable(after_s)),
        }
    }
    Ok(false)
}

/// Requests the profile that a reference names, in the order in which a reference is resolved. Returns true if a lookup
/// found it.
pub(super) async fn request_profile(core: &Core, call: &Call, reference: &ProfileReference) -> Result<bool> {
    let [id, upstream_id, handle] = reference.readings();
    // A text with several readings is no upstream id if it begins like an id or a handle of this service.
    let is_upstream = |text: &&str| id.is_none() || !text.starts_with("fp_") && !text.starts_with('@');
    let profile = upstream_id.filter(is_upstream).map(|id| Thing::Profile(id.to_owned()));
    let handle = handle.map(|handle| Thing::Handle(handle.to_owned()));
    request(core, call, [profile, handle].into_iter().flatten()).await
}

/// Requests the token that a reference names by chain and address: the upstream finds tokens by these alone. Returns
/// true if the lookup found it.
pub(super) async fn request_token(core: &Core, call: &Call, reference: &TokenReference) -> Result<bool> {
    let named = reference.chain_and_address().filter(|(chain, _)| reference.allows(chain));
    // Keeps the caller's spelling: the upstream may not accept another one.
    let token = named.map(|(chain, address)| {
        Thing::Token(v1::BackfillToken { chain: chain.to_owned(), address: address.trim().to_owned() })
    });
    request(core, call, token).await
}

/// Reads the profile that a reference names after its lookup at the upstream.
async fn requested_profile(
    core: &Core,
    call: &Call,
    reference: &ProfileReference,
) -> Result<(Dataset, Arc<Profile>, bool)> {
    request_profile(core, call, reference).await?;
    match resolve::profile(core, call, reference).await? {
        Some((dataset, row)) => Ok((dataset, row, false)),
        None => Err(missing_profile(core, call, reference).await),
    }
}

/// Reads the profile that a reference names. If it is unknown or old, the upstream is requested first. The flag is true
/// if the profile is old and its lookup failed.
pub(super) async fn read_profile(
    core: &Core,
    call: &Call,
    reference: &ProfileReference,
) -> Result<(Dataset, Arc<Profile>, bool)> {
    let Some((dataset, row)) = resolve::profile(core, call, reference).await? else {
        return requested_profile(core, call, reference).await;
    };
    let thing = Thing::Profile(row.upstream_id.clone());
    let observed_at = row.age.map_or(0, |age| age.observed_at);
    match refresh_if_old(core, call, thing, observed_at).await {
        RefreshOutcome::NotNeeded => Ok((dataset, row, false)),
        RefreshOutcome::Failed => Ok((dataset, row, true)),
        RefreshOutcome::Refreshed => match resolve::profile(core, call, reference).await? {
            Some((dataset, row)) => Ok((dataset, row, false)),
            // The lookup has moved the handle to another profile.
            None => requested_profile(core, call, reference).await,
        },
    }
}

/// A token that a reference names.
pub(super) struct FoundToken<'a> {
    pub dataset: Dataset,
    pub token: Arc<Token>,
    /// The reader that has found it. It reads other rows of the same response.
    pub reader: RowReader<'a>,
}

/// Reads the token that a reference names, with the same rules as [`read_profile`].
pub(super) async fn read_token<'a>(
    core: &'a Core,
    call: &Call,
    reference: &TokenReference,
) -> Result<(FoundToken<'a>, bool)> {
    let found = find_token(core, call, reference).await?;
    let thing = Thing::Token(upstream_token(&found.token));
    let observed_at = found.token.age.map_or(0, |age| age.observed_at);
    match refresh_if_old(core, call, thing, observed_at).await {
        RefreshOutcome::NotNeeded => Ok((found, false)),
        RefreshOutcome::Failed => Ok((found, true)),
        RefreshOutcome::Refreshed => {
            let view = &call.caller.view;
            let reader = core.shared.theses.reader(view).await?;
            let again = reader.token(view, &found.token.id).await?;
            let (dataset, token) = again.unwrap_or((found.dataset, found.token));
            Ok((FoundToken { dataset, token, reader }, false))
        }
    }
}

/// Reads the token that a reference names. If it is unknown, the upstream is requested first.
pub(super) async fn find_token<'a>(core: &'a Core, call: &Call, reference: &TokenReference) -> Result<FoundToken<'a>> {
    let (theses, view) = (&core.shared.theses, &call.caller.view);
    let reader = theses.reader(view).await?;
    if let Some((dataset, token)) = resolve::token(&reader, view, reference).await? {
        return Ok(FoundToken { dataset, token, reader });
    }
    request_token(core, call, reference).await?;
    let reader = theses.reader(view).await?;
    match resolve::token(&reader, view, reference).await? {
        Some((dataset, token)) => Ok(FoundToken { dataset, token, reader }),
        None => Err(missing_token(core, call, reference).await),
    }
}

/// Age of the wallets of a profile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WalletsState {
    /// No lookup is needed, or it succeeded, or the upstream has no such profile.
    Current,
    /// They are old, and the lookup failed.
    Old,
    /// They were never read, and the lookup failed.
    Unknown {
        /// Seconds until the next lookup is allowed.
        after_s: u32,
    },
}

/// Returns a profile with its wallets. If they are unknown or old, the upstream is requested first.
pub(super) async fn refresh_wallets(
    core: &Core,
    call: &Call,
    row: Arc<Profile>,
) -> Result<(Arc<Profile>, WalletsState)> {
    let Some(upstream) = upstream_for(core, call) else { return Ok((row, WalletsState::Current)) };
    let thing = Thing::Wallets(row.upstream_id.clone());
    if !upstream.is_due(thing.clone(), i64::MIN / 2).await {
        return Ok((row, WalletsState::Current));
    }
    match upstream.lookup(thing.clone()).await {
        LookupOutcome::Found(_) => {
            let again = core.shared.theses.profile(&call.caller.view, &row.id).await?;
            Ok((again.map_or(row, |(_, row)| row), WalletsState::Current))
        }
        LookupOutcome::Missing => Ok((row, WalletsState::Current)),
        LookupOutcome::Unavailable { .. } if upstream.has_lookup_of(&thing).await => Ok((row, WalletsState::Old)),
        LookupOutcome::Unavailable { after_s } => Ok((row, WalletsState::Unknown { after_s })),
    }
}

enum RefreshOutcome {
    /// The row is new enough, or the upstream no longer has it.
    NotNeeded,
    Refreshed,
    Failed,
}

async fn refresh_if_old(core: &Core, call: &Call, thing: Thing, observed_at: i64) -> RefreshOutcome {
    let Some(upstream) = upstream_for(core, call) else { return RefreshOutcome::NotNeeded };
    if !upstream.is_due(thing.clone(), observed_at).await {
        return RefreshOutcome::NotNeeded;
    }
    match upstream.lookup(thing).await {
        LookupOutcome::Found(_) => RefreshOutcome::Refreshed,
        LookupOutcome::Missing => RefreshOutcome::NotNeeded,
        LookupOutcome::Unavailable { .. } => RefreshOutcome::Failed,
    }
}

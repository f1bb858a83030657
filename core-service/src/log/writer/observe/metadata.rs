//! Profiles and tokens, observed on their own or beside a thesis.

use thesis_proto::reference::address_form;

use super::DraftResult;
use crate::{
    domain::{
        entry::{Kind, ProfileObserved, ProfileUpdated, TokenObserved},
        handle, id,
        observation::{ObservedProfile, ObservedToken},
        row::{Age, Profile, Token, Wallet},
    },
    log::writer::draft::{Draft, EntryPlace},
    store::StoreResult,
};

/// The id of an entry that is no event. It includes the times, which can change while the age stays the same.
fn entry_id(kind: &str, id: &str, age: Age, times: [Option<i64>; 2]) -> String {
    id::derive("ent_", &[kind, id, &age.name(), &format!("{times:?}")])
}

fn fill_profile(row: &mut Profile, seen: &ObservedProfile, age: Age) {
    // The earliest creation and the latest update count, at any age.
    row.created_at = row.created_at.into_iter().chain(seen.created_at).min();
    row.source_updated_at = row.source_updated_at.max(seen.source_updated_at);
    if age.is_newer_than(row.age.as_ref()) {
        row.handle = handle::with_at(&seen.handle);
        row.display_name.clone_from(&seen.display_name);
        row.avatar_url.clone_from(&seen.avatar_url);
        row.profile_url.clone_from(&seen.profile_url);
        row.bio.clone_from(&seen.bio);
        row.verified = seen.verified;
        row.age = Some(age);
    }
    // The author beside a thesis is only a short form.
    if let Some(wallets) = &seen.wallets
        && age.own
        && age.is_newer_than(row.wallets_age.as_ref())
    {
        row.wallets.clone_from(wallets);
        row.wallets_age = Some(age);
    }
}

pub(super) fn new_profile(id: String, seen: &ObservedProfile, age: Age, now: i64) -> Profile {
    let mut row = Profile {
        id,
        upstream_id: seen.upstream_id.clone(),
        first_seen_at: now,
        updated_at: now,
        ..Profile::default()
    };
    fill_profile(&mut row, seen, age);
    row
}

pub(super) async fn profile(draft: &mut Draft<'_>, seen: &ObservedProfile, age: Age) -> StoreResult<DraftResult> {
    let id = id::of_profile(draft.name(), &seen.upstream_id);
    let now = draft.now();
    let before = draft.profile(&id).await?;
    let (after, changed) = match &before {
        None => (new_profile(id.clone(), seen, age, now), Vec::new()),
        Some(before) => {
            let mut after = before.clone();
            fill_profile(&mut after, seen, age);
            let changed = changed_fields(before, &after);
            let ages = Profile { age: before.age, wallets_age: before.wallets_age, ..after.clone() };
            // Every thesis repeats its author, mostly unchanged.
            if after == *before || (!age.own && ages == *before) {
                return Ok(DraftResult::nothing(id));
            }
            if !changed.is_empty() || after.wallets != before.wallets {
                after.updated_at = now;
            }
            (after, changed)
        }
    };
    draft.put_profile(&after);
    // An older observation may still change the wallets' age, which no reader sees.
    let is_visible =
        before.as_ref().is_none_or(|before| Profile { wallets_age: before.wallets_age, ..after.clone() } != *before);
    if changed.is_empty() {
        let entry_id = entry_id("profile", &id, age, [after.created_at, after.source_updated_at]);
        let observed = ProfileObserved { profile: after };
        let place = draft.add(entry_id, None, false, Kind::ProfileObserved(observed));
        return Ok(DraftResult::at(id, if is_visible { place } else { EntryPlace::Nowhere }));
    }
    let event_id = id::derive("evt_", &["profile.updated", &id, &age.name()]);
    let previous_handle = before.map(|before| before.handle).filter(|handle| *handle != after.handle);
    let updated = ProfileUpdated { profile: after, changed, previous_handle };
    let place = draft.add(event_id.clone(), None, false, Kind::ProfileUpdated(updated));
    Ok(DraftResult { event_id: Some(event_id), ..DraftResult::at(id, place) })
}

/// Drafts the wallets of a known profile. Equal wallets add no entry.
pub(super) async fn wallets(
    draft: &mut Draft<'_>,
    upstream_id: &str,
    wallets: &[Wallet],
    age: Age,
) -> StoreResult<DraftResult> {
    let id = id::of_profile(draft.name(), upstream_id);
    let Some(before) = draft.profile(&id).await? else { return Ok(DraftResult::nothing(id)) };
    // The upstream gives no time for a list of wallets, so the later observation wins.
    if before.wallets == wallets || before.wallets_age.is_some_and(|before| before.observed_at > age.observed_at) {
        return Ok(DraftResult::nothing(id));
    }
    let after = Profile { wallets: wallets.to_vec(), wallets_age: Some(age), updated_at: draft.now(), ..before };
    draft.put_profile(&after);
    let entry_id = entry_id("wallets", &id, age, [None, None]);
    let place = draft.add(entry_id, None, false, Kind::ProfileObserved(ProfileObserved { profile: after }));
    Ok(DraftResult::at(id, place))
}

fn changed_fields(before: &Profile, after: &Profile) -> Vec<String> {
    [
        ("handle", before.handle != after.handle),
        ("display_name", before.display_name != after.display_name),
        ("avatar_url", before.avatar_url != after.avatar_url),
        ("profile_url", before.profile_url != after.profile_url),
        ("bio", before.bio != after.bio),
        ("verified", before.verified != after.verified),
    ]
    .into_iter()
    .filter(|(_, changed)| *changed)
    .map(|(name, _)| name.to_owned())
    .collect()
}

fn fill_token(row: &mut Token, seen: &ObservedToken, age: Age) {
    row.source_updated_at = row.source_updated_at.max(seen.source_updated_at);
    if age.is_newer_than(row.age.as_ref()) {
        row.symbol = handle::with_dollar(&seen.symbol);
        row.address.clone_from(&seen.address);
        row.name.clone_from(&seen.name);
        row.chain_id = seen.chain_id;
        row.logo_url.clone_from(&seen.logo_url);
        row.platform_url.clone_from(&seen.platform_url);
        row.age = Some(age);
    }
}

pub(super) fn new_token(id: String, seen: &ObservedToken, age: Age, now: i64) -> Token {
    let mut row = Token { id, chain: seen.chain.clone(), first_seen_at: now, updated_at: now, ..Token::default() };
    fill_token(&mut row, seen, age);
    row
}

pub(super) async fn token(draft: &mut Draft<'_>, seen: &ObservedToken, age: Age) -> StoreResult<DraftResult> {
    let id = id::of_token(draft.name(), &seen.chain, &address_form(&seen.address));
    let now = draft.now();
    let (row, previous_symbol) = match draft.token(&id).await? {
        None => (new_token(id.clone(), seen, age, now), None),
        Some(before) => {
            let mut after = before.clone();
            fill_token(&mut after, seen, age);
            let differs = Token { age: before.age, ..after.clone() } != before;
            if after == before || (!age.own && !differs) {
                return Ok(DraftResult::nothing(id));
            }
            if differs {
                after.updated_at = now;
            }
            let previous = (before.symbol != after.symbol).then(|| before.symbol.clone());
            (after, previous)
        }
    };
    draft.put_token(&row);
    let entry_id = entry_id("token", &id, age, [None, row.source_updated_at]);
    let observed = TokenObserved { token: row, previous_symbol };
    let place = draft.add(entry_id, None, false, Kind::TokenObserved(observed));
    Ok(DraftResult::at(id, place))
}

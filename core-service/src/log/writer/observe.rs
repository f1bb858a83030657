//! The entries that an observation adds to the log. It adds none when it is old or changes nothing.
//!
//! Observations come late, twice and in any order. So a row keeps the age of each observed value, and only a newer
//! observation replaces the value. A deletion is final. An observation that comes before its thesis is kept for it. The
//! same observations therefore lead to the same rows in any order.
//!
//! When several profiles have one handle, it belongs to the one that changed or was observed last. One case depends on
//! the order: a profile beside a thesis exactly as it is stored is not logged, so a late observation dated between the
//! two can win until the next one.

mod metadata;

use thesis_proto::reference::address_form;

use self::metadata::{new_profile, new_token, profile, token, wallets};
use super::draft::{Draft, EntryPlace};
use crate::{
    domain::{
        entry::Kind,
        event_id::thesis_event_id,
        id,
        observation::{Observation, ObservedEngagement, ObservedThesis, ObservedThing},
        row::{Age, NewThesis, Profile, Thesis, Token},
    },
    store::StoreResult,
};

#[derive(Clone, Debug)]
pub(super) struct DraftResult {
    /// Id of the row that the observation concerns.
    pub(super) id: String,
    pub(super) place: EntryPlace,
    pub(super) event_id: Option<String>,
    /// The field that contradicts known data.
    pub(super) refused: Option<&'static str>,
    /// True if earlier observations had all its values, and one of them its time.
    pub(super) was_known: bool,
}

impl DraftResult {
    pub(super) fn nothing(id: String) -> Self {
        Self::at(id, EntryPlace::Nowhere)
    }

    fn at(id: String, place: EntryPlace) -> Self {
        Self { id, place, event_id: None, refused: None, was_known: false }
    }
}

pub(super) async fn observe(draft: &mut Draft<'_>, observation: &Observation) -> StoreResult<DraftResult> {
    let (version, observed_at) = (observation.version(), observation.observed_at);
    let age = Age::own(observation.revision, observed_at);
    match &observation.seen {
        ObservedThing::Thesis(seen) => thesis(draft, seen, version, observed_at).await,
        ObservedThing::Engagement(seen) => engagement(draft, seen, version).await,
        ObservedThing::Deletion(upstream_id) => deletion(draft, upstream_id, version).await,
        ObservedThing::Profile(seen) => profile(draft, seen, age).await,
        ObservedThing::Token(seen) => token(draft, seen, age).await,
        ObservedThing::Wallets(upstream_id, seen) => wallets(draft, upstream_id, seen, age).await,
    }
}

/// Finds the first field that differs although it must be equal in all observations of a thesis.
fn contradiction(before: &Thesis, author: &str, on: &str, created_at: i64) -> Option<&'static str> {
    let differs = [
        ("thesis.profile.upstream_user_id", before.profile_id != author),
        ("thesis.token", before.token_id != on),
        ("thesis.created_at", before.created_at != created_at),
    ];
    differs.into_iter().find_map(|(field, differs)| differs.then_some(field))
}

async fn thesis(
    draft: &mut Draft<'_>,
    seen: &ObservedThesis,
    version: i64,
    observed_at: i64,
) -> StoreResult<DraftResult> {
    let id = id::of_thesis(draft.name(), &seen.upstream_id);
    let author = id::of_profile(draft.name(), &seen.profile.upstream_id);
    let on = id::of_token(draft.name(), &seen.token.chain, &address_form(&seen.token.address));
    let before = draft.thesis(&id).await?;
    let known = before.as_ref().filter(|row| !row.is_awaited());
    if let Some(field) = known.and_then(|known| contradiction(known, &author, &on, seen.created_at)) {
        return Ok(DraftResult { refused: Some(field), ..DraftResult::nothing(id) });
    }
    // Author and token are updated by their own age, whatever happens to the thesis. Its event introduces new ones.
    let age = |revision: Option<i64>| {
        revision.map_or(Age::beside(observed_at), |revision| Age::own(Some(revision), observed_at))
    };
    let (author_age, token_age) = (age(seen.profile.revision), age(seen.token.revision));
    let introduces = known.is_none() && before.as_ref().is_none_or(|row| row.deleted_at.is_none());
    if !introduces || draft.profile(&author).await?.is_some() {
        profile(draft, &seen.profile, author_age).await?;
    }
    if !introduces || draft.token(&on).await?.is_some() {
        token(draft, &seen.token, token_age).await?;
    }
    let awaited = match before {
        Some(before) if !before.is_awaited() => return edit(draft, before, seen, version).await,
        awaited => awaited,
    };
    let now = draft.now();
    let profile = match draft.profile(&author).await? {
        Some(profile) => profile,
        None => new_profile(author, &seen.profile, author_age, now),
    };
    let token = match draft.token(&on).await? {
        Some(token) => token,
        None => new_token(on, &seen.token, token_age, now),
    };
    let row = new_row(id.clone(), seen, version, (&profile, &token), awaited);
    if row.deleted_at.is_some() {
        // The row is kept for verification, without an event: an event's thesis must be readable.
        let place = draft.delete(row, version).await?;
        return Ok(DraftResult::at(id, place));
    }
    let event_id = thesis_event_id(&id);
    let new = NewThesis { thesis: row, profile, token, test: false, at: None, trace: Vec::new(), max_theses: None };
    let place = draft.create(event_id.clone(), &new).await?;
    Ok(DraftResult { event_id: Some(event_id), ..DraftResult::at(id, place) })
}

/// The row of a thesis that is observed for the first time. `awaited` holds earlier observations for it.
fn new_row(
    id: String,
    seen: &ObservedThesis,
    version: i64,
    (profile, token): (&Profile, &Token),
    awaited: Option<Thesis>,
) -> Thesis {
    let mut row = Thesis {
        id,
        upstream_id: seen.upstream_id.clone(),
        profile_id: profile.id.clone(),
        token_id: token.id.clone(),
        chain: token.chain.clone(),
        text: seen.text.clone(),
        likes: seen.likes,
        replies: seen.replies,
        created_at: seen.created_at,
        updated_at: seen.updated_at,
        version,
        engagement_version: version,
        ..Thesis::default()
    };
    if let Some(awaited) = awaited {
        row.deleted_at = awaited.deleted_at;
        if awaited.engagement_version > version {
            row.engagement_version = awaited.engagement_version;
            (row.likes, row.replies) = (awaited.likes, awaited.replies);
        }
    }
    row
}

async fn edit(draft: &mut Draft<'_>, before: Thesis, seen: &ObservedThesis, version: i64) -> StoreResult<DraftResult> {
    let id = before.id.clone();
    if before.deleted_at.is_some() {
        return Ok(DraftResult::nothing(id));
    }
    let mut after = before.clone();
    if version > before.version {
        after.version = version;
        after.text.clone_from(&seen.text);
        after.updated_at = seen.updated_at;
    }
    if version > before.engagement_version {
        after.engagement_version = version;
        (after.likes, after.replies) = (seen.likes, seen.replies);
    }
    if after == before {
        return Ok(DraftResult::nothing(id));
    }
    // An engagement dates the thesis too, and may have been observed alone.
    let was_known = version <= before.version.max(before.engagement_version)
        && (&after.text, after.likes, after.replies) == (&before.text, before.likes, before.replies);
    let place = draft.edit(after, version).await?;
    Ok(DraftResult { was_known, ..DraftResult::at(id, place) })
}

/// The row of a thesis that was not observed itself yet.
fn awaited(id: String, upstream_id: &str) -> Thesis {
    Thesis { id, upstream_id: upstream_id.to_owned(), engagement_version: i64::MIN, ..Thesis::default() }
}

async fn engagement(draft: &mut Draft<'_>, seen: &ObservedEngagement, version: i64) -> StoreResult<DraftResult> {
    let id = id::of_thesis(draft.name(), &seen.upstream_id);
    let known = draft.thesis(&id).await?;
    let mut thesis = known.unwrap_or_else(|| awaited(id.clone(), &seen.upstream_id));
    if thesis.deleted_at.is_some() || version <= thesis.engagement_version {
        return Ok(DraftResult::nothing(id));
    }
    thesis.engagement_version = version;
    (thesis.likes, thesis.replies) = (seen.likes, seen.replies);
    let kind = if thesis.is_awaited() { Kind::ThesisAwaited } else { Kind::Engagement };
    let place = draft.change("engagement", thesis, version, kind);
    Ok(DraftResult::at(id, place))
}

async fn deletion(draft: &mut Draft<'_>, upstream_id: &str, version: i64) -> StoreResult<DraftResult> {
    let id = id::of_thesis(draft.name(), upstream_id);
    let known = draft.thesis(&id).await?;
    let mut thesis = known.unwrap_or_else(|| awaited(id.clone(), upstream_id));
    if thesis.deleted_at.is_some() {
        return Ok(DraftResult::nothing(id));
    }
    let place = if thesis.is_awaited() {
        thesis.deleted_at = Some(draft.now());
        draft.change("awaited", thesis, version, Kind::ThesisAwaited)
    } else {
        draft.delete(thesis, version).await?
    };
    Ok(DraftResult::at(id, place))
}

//! What an observation adds to the log: nothing when it is old or tells nothing new.

use super::{
    NewThesis,
    draft::{Draft, Place},
    thesis_event_id,
};
use crate::{
    domain::{
        entry::{Kind, ProfileObserved, ProfileUpdated, TokenObserved},
        handle, id,
        observation::{EngagementSeen, Observation, ProfileSeen, Seen, ThesisSeen, TokenSeen},
        reference::address_form,
        row::{Profile, Thesis, Token},
    },
    store::StoreResult,
};

/// What became of an observation in a draft.
#[derive(Clone, Debug)]
pub(super) struct Drafted {
    /// The row that it concerns.
    pub(super) id: String,
    /// Where its own entry stands.
    pub(super) place: Place,
    /// The id of the event that it caused.
    pub(super) event_id: Option<String>,
}

impl Drafted {
    fn nothing(id: String) -> Self {
        Self { id, place: Place::Nowhere, event_id: None }
    }
}

/// How new an observation of a profile or token must be to count: one of its own by its version, one beside a thesis by
/// the time it was seen.
#[derive(Clone, Copy)]
enum Age {
    Own { version: i64, observed_at: i64 },
    Beside { observed_at: i64 },
}

impl Age {
    fn is_newer(self, version: i64, observed: i64) -> bool {
        match self {
            // Where the upstream has no revisions, the version is a time too, and what came beside a thesis may be later.
            Self::Own { version: own, observed_at } => own > version && (own != observed_at || observed_at >= observed),
            Self::Beside { observed_at } => observed_at > observed,
        }
    }

    fn mark(self, version: &mut i64, observed: &mut i64) {
        match self {
            Self::Own { version: own, observed_at } => {
                *version = own;
                *observed = observed_at.max(*observed);
            }
            Self::Beside { observed_at } => *observed = observed_at,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Own { version, .. } => format!("v{version}"),
            Self::Beside { observed_at } => format!("t{observed_at}"),
        }
    }
}

/// Drafts what an observation adds.
pub(super) async fn observe(draft: &mut Draft<'_>, observation: &Observation) -> StoreResult<Drafted> {
    let (version, observed_at) = (observation.version, observation.observed_at);
    match &observation.seen {
        Seen::Thesis(seen) => thesis(draft, seen, version, observed_at).await,
        Seen::Engagement(seen) => engagement(draft, seen, version).await,
        Seen::Deletion(upstream_id) => {
            let id = id::of_thesis(draft.name(), upstream_id);
            match draft.thesis(&id).await? {
                Some(thesis) if thesis.deleted_at.is_none() => {
                    let place = draft.delete(thesis, version).await?;
                    Ok(Drafted { id, place, event_id: None })
                }
                _ => Ok(Drafted::nothing(id)),
            }
        }
        Seen::Profile(seen) => profile(draft, seen, Age::Own { version, observed_at }).await,
        Seen::Token(seen) => token(draft, seen, Age::Own { version, observed_at }).await,
    }
}

async fn thesis(draft: &mut Draft<'_>, seen: &ThesisSeen, version: i64, observed_at: i64) -> StoreResult<Drafted> {
    let id = id::of_thesis(draft.name(), &seen.upstream_id);
    if let Some(before) = draft.thesis(&id).await? {
        return edit(draft, before, seen, version);
    }
    let author = id::of_profile(draft.name(), &seen.profile.upstream_id);
    let on = id::of_token(draft.name(), &seen.token.chain, &address_form(&seen.token.address));
    let known_author = draft.profile(&author).await?.is_some();
    if known_author {
        profile(draft, &seen.profile, Age::Beside { observed_at }).await?;
    }
    let known_token = draft.token(&on).await?.is_some();
    if known_token {
        token(draft, &seen.token, Age::Beside { observed_at }).await?;
    }
    let now = draft.now();
    let profile = match draft.profile(&author).await? {
        Some(profile) => profile,
        None => new_profile(author, &seen.profile, Age::Beside { observed_at }, now),
    };
    let token = match draft.token(&on).await? {
        Some(token) => token,
        None => new_token(on, &seen.token, Age::Beside { observed_at }, now),
    };
    let row = Thesis {
        id: id.clone(),
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
    let event_id = thesis_event_id(&id);
    let new = NewThesis { thesis: row, profile, token, test: false, at: None };
    let place = draft.create(event_id.clone(), &new).await?;
    Ok(Drafted { id, place, event_id: Some(event_id) })
}

fn edit(draft: &mut Draft<'_>, before: Thesis, seen: &ThesisSeen, version: i64) -> StoreResult<Drafted> {
    let id = before.id.clone();
    if before.deleted_at.is_some() {
        return Ok(Drafted::nothing(id));
    }
    let mut after = before.clone();
    if version > before.version {
        after.version = version;
        if after.text != seen.text {
            after.text.clone_from(&seen.text);
            after.updated_at = seen.updated_at.max(before.updated_at);
        }
    }
    if version > before.engagement_version {
        after.engagement_version = version;
        (after.likes, after.replies) = (seen.likes, seen.replies);
    }
    if after == before {
        return Ok(Drafted::nothing(id));
    }
    let edited = after.text != before.text;
    let place = if edited {
        draft.change("edited", after, version, Kind::ThesisEdited)
    } else {
        draft.change("engagement", after, version, Kind::Engagement)
    };
    Ok(Drafted { id, place, event_id: None })
}

async fn engagement(draft: &mut Draft<'_>, seen: &EngagementSeen, version: i64) -> StoreResult<Drafted> {
    let id = id::of_thesis(draft.name(), &seen.upstream_id);
    match draft.thesis(&id).await? {
        Some(mut thesis) if thesis.deleted_at.is_none() && version > thesis.engagement_version => {
            thesis.engagement_version = version;
            (thesis.likes, thesis.replies) = (seen.likes, seen.replies);
            let place = draft.change("engagement", thesis, version, Kind::Engagement);
            Ok(Drafted { id, place, event_id: None })
        }
        _ => Ok(Drafted::nothing(id)),
    }
}

fn fill_profile(row: &mut Profile, seen: &ProfileSeen) {
    row.handle = handle::with_at(&seen.handle);
    row.display_name.clone_from(&seen.display_name);
    row.avatar_url.clone_from(&seen.avatar_url);
    row.profile_url.clone_from(&seen.profile_url);
    row.bio.clone_from(&seen.bio);
    row.verified = seen.verified;
    row.created_at = seen.created_at.or(row.created_at);
    row.source_updated_at = seen.source_updated_at.or(row.source_updated_at);
    row.wallets.clone_from(&seen.wallets);
}

fn new_profile(id: String, seen: &ProfileSeen, age: Age, now: i64) -> Profile {
    let mut row = Profile {
        id,
        upstream_id: seen.upstream_id.clone(),
        first_seen_at: now,
        updated_at: now,
        ..Profile::default()
    };
    fill_profile(&mut row, seen);
    age.mark(&mut row.version, &mut row.observed_at);
    row
}

async fn profile(draft: &mut Draft<'_>, seen: &ProfileSeen, age: Age) -> StoreResult<Drafted> {
    let id = id::of_profile(draft.name(), &seen.upstream_id);
    let before = draft.profile(&id).await?;
    let now = draft.now();
    let Some(before) = before else {
        let row = new_profile(id.clone(), seen, age, now);
        let claim = draft.claim(&row, None).await?;
        draft.put_profile(&row);
        let entry_id = id::derive("ent_", &["profile", &id, &age.text()]);
        let place = draft.add(entry_id, None, false, Kind::ProfileObserved(ProfileObserved { profile: row, claim }));
        return Ok(Drafted { id, place, event_id: None });
    };
    if !age.is_newer(before.version, before.observed_at) {
        return Ok(Drafted::nothing(id));
    }
    let mut after = before.clone();
    fill_profile(&mut after, seen);
    if let Age::Beside { .. } = age {
        // What comes beside a thesis is only the author in short.
        after.wallets.clone_from(&before.wallets);
        if after == before {
            return Ok(Drafted::nothing(id));
        }
    }
    let changed = changed_fields(&before, &after);
    age.mark(&mut after.version, &mut after.observed_at);
    if !changed.is_empty() || after.wallets != before.wallets {
        after.updated_at = now;
    }
    let claim = draft.claim(&after, Some(&before)).await?;
    draft.put_profile(&after);
    if changed.is_empty() {
        let entry_id = id::derive("ent_", &["profile", &id, &age.text()]);
        let place = draft.add(entry_id, None, false, Kind::ProfileObserved(ProfileObserved { profile: after, claim }));
        return Ok(Drafted { id, place, event_id: None });
    }
    let event_id = id::derive("evt_", &["profile.updated", &id, &age.text()]);
    let updated = ProfileUpdated { profile: after, changed, claim };
    let place = draft.add(event_id.clone(), None, false, Kind::ProfileUpdated(updated));
    Ok(Drafted { id, place, event_id: Some(event_id) })
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

fn fill_token(row: &mut Token, seen: &TokenSeen) {
    row.symbol = handle::symbol(&seen.symbol);
    row.name.clone_from(&seen.name);
    row.chain_id = seen.chain_id;
    row.logo_url.clone_from(&seen.logo_url);
    row.platform_url.clone_from(&seen.platform_url);
    row.source_updated_at = seen.source_updated_at.or(row.source_updated_at);
}

fn new_token(id: String, seen: &TokenSeen, age: Age, now: i64) -> Token {
    let mut row = Token {
        id,
        chain: seen.chain.clone(),
        address: address_form(&seen.address),
        first_seen_at: now,
        updated_at: now,
        ..Token::default()
    };
    fill_token(&mut row, seen);
    age.mark(&mut row.version, &mut row.observed_at);
    row
}

async fn token(draft: &mut Draft<'_>, seen: &TokenSeen, age: Age) -> StoreResult<Drafted> {
    let id = id::of_token(draft.name(), &seen.chain, &address_form(&seen.address));
    let now = draft.now();
    let (row, previous_symbol) = match draft.token(&id).await? {
        None => (new_token(id.clone(), seen, age, now), None),
        Some(before) => {
            if !age.is_newer(before.version, before.observed_at) {
                return Ok(Drafted::nothing(id));
            }
            let mut after = before.clone();
            fill_token(&mut after, seen);
            let differs = after != before;
            if !differs && matches!(age, Age::Beside { .. }) {
                return Ok(Drafted::nothing(id));
            }
            age.mark(&mut after.version, &mut after.observed_at);
            if differs {
                after.updated_at = now;
            }
            let previous = (before.symbol != after.symbol).then(|| before.symbol.clone());
            (after, previous)
        }
    };
    draft.put_token(&row);
    let entry_id = id::derive("ent_", &["token", &id, &age.text()]);
    let observed = TokenObserved { token: row, previous_symbol };
    let place = draft.add(entry_id, None, false, Kind::TokenObserved(observed));
    Ok(Drafted { id, place, event_id: None })
}

//! The effect of an observation on a dataset.

use core_service::domain::id;
use serde_json::{Value, json};
use thesis_proto::{
    time::to_millis,
    v1::{self, observation::Observed},
};

use super::world::{Age, Profile, Rows, Thesis, Token, bare_profile, bare_token, shown, take_names, token_id};

const TOLD: [&str; 6] = ["handle", "display_name", "avatar_url", "profile_url", "bio", "verified"];

/// The result of an observation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Became {
    /// The row that it concerns.
    pub(super) id: String,
    /// Whether it was news.
    pub(super) applied: bool,
    /// Whether it caused an event of its own.
    pub(super) event: bool,
    /// The field for which it is refused.
    pub(super) refused: Option<&'static str>,
}

impl Rows {
    /// Applies an observation; `event_id` is its event's id from the service.
    pub(super) fn observe(&mut self, dataset: usize, seen: &v1::Observation, event_id: Option<&str>) -> Became {
        let observed_at = seen.observed_at.as_ref().map(to_millis).unwrap_or_default();
        let version = seen.revision.unwrap_or(observed_at);
        let age = Age { revision: seen.revision, observed_at, own: true };
        match seen.observed.as_ref().expect("something observed") {
            Observed::Thesis(seen) => self.observe_thesis(dataset, seen, version, observed_at, event_id),
            Observed::Profile(seen) => {
                let id = id::of_profile(&self.name, &seen.upstream_user_id);
                let (applied, event) = self.observe_profile(dataset, seen, age, event_id);
                Became { id, applied, event, refused: None }
            }
            Observed::Token(seen) => {
                let applied = self.observe_token(dataset, seen, age);
                Became { id: token_id(&self.name, seen), applied, ..Became::default() }
            }
            Observed::Engagement(seen) => self.change(&seen.upstream_id, |thesis| {
                let applied = version > thesis.engagement;
                if applied {
                    (thesis.engagement, thesis.likes, thesis.replies) = (version, seen.likes, seen.replies);
                }
                applied
            }),
            Observed::Deletion(seen) => self.change(&seen.upstream_id, |thesis| {
                thesis.deleted = true;
                true
            }),
        }
    }

    /// Changes a thesis that is not deleted, existing or awaited.
    fn change(&mut self, upstream_id: &str, change: impl FnOnce(&mut Thesis) -> bool) -> Became {
        let known = self.theses.iter_mut().chain(&mut self.awaited).find(|thesis| thesis.upstream_id == upstream_id);
        let applied = match known {
            Some(thesis) => !thesis.deleted && change(thesis),
            None => {
                let upstream_id = upstream_id.to_owned();
                let mut awaited = Thesis { upstream_id, engagement: i64::MIN, ..Thesis::default() };
                let applied = change(&mut awaited);
                self.awaited.push(awaited);
                applied
            }
        };
        Became { id: id::of_thesis(&self.name, upstream_id), applied, ..Became::default() }
    }

    fn observe_thesis(
        &mut self,
        dataset: usize,
        seen: &v1::ThesisObservation,
        version: i64,
        observed_at: i64,
        event: Option<&str>,
    ) -> Became {
        let created_at = seen.created_at.as_ref().map(to_millis).unwrap_or_default();
        let (author, on) = (seen.profile.as_ref().expect("an author"), seen.token.as_ref().expect("a token"));
        let mut thesis = Thesis {
            dataset,
            upstream_id: seen.upstream_id.clone(),
            id: id::of_thesis(&self.name, &seen.upstream_id),
            profile: id::of_profile(&self.name, &author.upstream_user_id),
            token: token_id(&self.name, on),
            text: seen.text.clone(),
            likes: seen.likes,
            replies: seen.replies,
            created_at,
            updated_at: seen.updated_at.as_ref().map_or(created_at, to_millis),
            version,
            engagement: version,
            deleted: false,
        };
        let id = thesis.id.clone();
        let known = self.thesis(&seen.upstream_id);
        let refused = known.and_then(|index| contradiction(&self.theses[index], &thesis));
        if refused.is_some() {
            return Became { id, refused, ..Became::default() };
        }
        // Author and token are updated on their own, whatever happens to the thesis.
        let beside = Age { revision: None, observed_at, own: false };
        self.observe_profile(dataset, author, beside, None);
        self.observe_token(dataset, on, beside);
        if known.is_some() {
            return self.change(&seen.upstream_id, |known| edit(known, thesis));
        }
        if let Some(index) = self.awaited.iter().position(|awaited| awaited.upstream_id == seen.upstream_id) {
            let awaited = self.awaited.swap_remove(index);
            thesis.deleted = awaited.deleted;
            if awaited.engagement > version {
                (thesis.engagement, thesis.likes, thesis.replies) =
                    (awaited.engagement, awaited.likes, awaited.replies);
            }
        }
        let told = !thesis.deleted;
        if told {
            let profile = self.profile(&thesis.profile).expect("the author").row.clone();
            let token = self.token(&thesis.token).expect("the token").row.clone();
            self.owe_created(&thesis, &profile, &token, event);
        }
        self.theses.push(thesis);
        Became { id, applied: true, event: told, refused: None }
    }

    /// Tells whether it was news, and whether it has an event.
    fn observe_profile(
        &mut self,
        dataset: usize,
        seen: &v1::ProfileObservation,
        age: Age,
        event: Option<&str>,
    ) -> (bool, bool) {
        let id = id::of_profile(&self.name, &seen.upstream_user_id);
        let Some(index) = self.profiles.iter().position(|profile| profile.row["id"] == id) else {
            let mut row = bare_profile(dataset, &id, &seen.handle);
            fill_profile(&mut row, seen, true);
            let profile = Profile { upstream_id: seen.upstream_user_id.clone(), age: Some(age), row };
            self.profiles.push(profile);
            return (true, false);
        };
        let before = self.profiles[index].clone();
        let mut profile = before.clone();
        let is_newer = age.is_newer_than(before.age);
        fill_profile(&mut profile.row, seen, is_newer);
        if profile.row == before.row && !(is_newer && age.own) {
            return (false, false);
        }
        let changed: Vec<&str> = TOLD.into_iter().filter(|field| before.row[field] != profile.row[field]).collect();
        if !changed.is_empty() {
            profile.row["updated_at"] = Value::Null;
        }
        if is_newer {
            profile.age = Some(age);
        }
        self.profiles[index] = profile.clone();
        if !changed.is_empty() {
            self.owe(dataset, "profile.updated", json!({"profile": profile.row, "changed": changed}), event);
        }
        (true, !changed.is_empty())
    }

    /// Tells whether it was news.
    fn observe_token(&mut self, dataset: usize, seen: &v1::TokenObservation, age: Age) -> bool {
        let id = token_id(&self.name, seen);
        let Some(token) = self.tokens.iter_mut().find(|token| token.row["id"] == id) else {
            let mut row = bare_token(dataset, &id, &seen.symbol, &seen.chain, &seen.address);
            fill_token(&mut row, seen, true);
            self.tokens.push(Token { age: Some(age), row });
            return true;
        };
        let before = token.row.clone();
        let is_newer = age.is_newer_than(token.age);
        fill_token(&mut token.row, seen, is_newer);
        let differs = token.row != before;
        if differs {
            token.row["updated_at"] = Value::Null;
        }
        let is_news = differs || (is_newer && age.own);
        if is_newer && is_news {
            token.age = Some(age);
        }
        is_news
    }

    /// A thesis that a test made, with the profile and token that came with it.
    pub(super) fn add_thesis(&mut self, thesis: Thesis, profile: Option<Value>, token: Option<Value>, event: Value) {
        if let Some(row) = profile {
            let profile = Profile { upstream_id: String::new(), age: None, row };
            self.profiles.push(profile);
        }
        self.tokens.extend(token.map(|row| Token { age: None, row }));
        self.owed.push_back(event);
        self.theses.push(thesis);
    }
}

/// The first field that differs but must be equal in all observations of a thesis.
fn contradiction(known: &Thesis, seen: &Thesis) -> Option<&'static str> {
    if known.profile != seen.profile {
        return Some("thesis.profile.upstream_user_id");
    }
    if known.token != seen.token {
        return Some("thesis.token");
    }
    (known.created_at != seen.created_at).then_some("thesis.created_at")
}

fn edit(thesis: &mut Thesis, seen: Thesis) -> bool {
    let applied = seen.version > thesis.version || seen.version > thesis.engagement;
    if seen.version > thesis.version {
        (thesis.version, thesis.text, thesis.updated_at) = (seen.version, seen.text, seen.updated_at);
    }
    if seen.version > thesis.engagement {
        (thesis.engagement, thesis.likes, thesis.replies) = (seen.version, seen.likes, seen.replies);
    }
    applied
}

/// Takes the fields of an observation; an older one still tells when the account was made and last changed.
fn fill_profile(row: &mut Value, seen: &v1::ProfileObservation, is_newest: bool) {
    if is_newest {
        row["handle"] = json!(format!("@{}", seen.handle));
        row["display_name"] = json!(seen.display_name);
        row["avatar_url"] = json!(seen.avatar_url);
        row["profile_url"] = json!(seen.profile_url);
        row["bio"] = json!(seen.bio);
        row["verified"] = json!(seen.verified);
    }
    let made = shown(seen.created_at.as_ref());
    if made.as_deref().is_some_and(|at| row["created_at"].as_str().is_none_or(|known| at < known)) {
        row["created_at"] = json!(made);
    }
    fill_last_change(row, seen.source_updated_at.as_ref());
}

fn fill_token(row: &mut Value, seen: &v1::TokenObservation, is_newest: bool) {
    if is_newest {
        take_names(row, seen);
        row["name"] = json!(seen.name);
        row["chain_id"] = json!(seen.chain_id);
        row["logo_url"] = json!(seen.logo_url);
        row["platform_url"] = json!(seen.platform_url);
    }
    fill_last_change(row, seen.source_updated_at.as_ref());
}

fn fill_last_change(row: &mut Value, seen: Option<&prost_types::Timestamp>) {
    let seen = shown(seen);
    if seen.as_deref() > row["source_updated_at"].as_str() {
        row["source_updated_at"] = json!(seen);
    }
}

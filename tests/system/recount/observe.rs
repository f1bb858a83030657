//! What an observation makes of a dataset.

use core_service::domain::id;
use serde_json::{Value, json};
use thesis_proto::{
    time::to_millis,
    v1::{self, observation::Observed},
};

use super::world::{Profile, Rows, Thesis, Token, bare_profile, bare_token, shown, symbol, token_id};
use crate::harness::text;

/// How an observation came: alone, or beside a thesis.
#[derive(Clone, Copy)]
enum Age {
    Own(i64),
    Beside(i64),
}

impl Age {
    fn is_newer(self, version: i64, observed_at: i64) -> bool {
        match self {
            Self::Own(at) => at > version && at >= observed_at,
            Self::Beside(at) => at > observed_at,
        }
    }

    /// The version and time of observation that a row has then.
    fn marks(self, version: i64, observed_at: i64) -> (i64, i64) {
        match self {
            Self::Own(at) => (at, at.max(observed_at)),
            Self::Beside(at) => (version, at),
        }
    }
}

const TOLD: [&str; 6] = ["handle", "display_name", "avatar_url", "profile_url", "bio", "verified"];

/// What became of an observation: the row that it concerns, whether it was news, whether it caused an event of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Became {
    pub(super) id: String,
    pub(super) applied: bool,
    pub(super) event: bool,
}

impl Rows {
    /// Applies an observation; `event_id` is what the service says its event has.
    pub(super) fn observe(&mut self, dataset: usize, seen: &v1::Observation, event_id: Option<&str>) -> Became {
        let at = seen.observed_at.as_ref().map(to_millis).unwrap_or_default();
        match seen.observed.as_ref().expect("something observed") {
            Observed::Thesis(seen) => self.observe_thesis(dataset, seen, at, event_id),
            Observed::Profile(seen) => {
                let id = id::of_profile(&self.name, &seen.upstream_user_id);
                let (applied, event) = self.observe_profile(dataset, seen, Age::Own(at), event_id);
                Became { id, applied, event }
            }
            Observed::Token(seen) => {
                let applied = self.observe_token(dataset, seen, Age::Own(at));
                Became { id: token_id(&self.name, seen), applied, event: false }
            }
            Observed::Engagement(seen) => self.change(&seen.upstream_id, |thesis| {
                let applied = at > thesis.engagement;
                if applied {
                    (thesis.engagement, thesis.likes, thesis.replies) = (at, seen.likes, seen.replies);
                }
                applied
            }),
            Observed::Deletion(seen) => self.change(&seen.upstream_id, |thesis| {
                thesis.deleted = true;
                true
            }),
        }
    }

    /// Changes a thesis that is there and not deleted.
    fn change(&mut self, upstream_id: &str, change: impl FnOnce(&mut Thesis) -> bool) -> Became {
        let found = self.theses.iter_mut().find(|thesis| thesis.upstream_id == upstream_id);
        let applied = found.is_some_and(|thesis| !thesis.deleted && change(thesis));
        Became { id: id::of_thesis(&self.name, upstream_id), applied, event: false }
    }

    fn observe_thesis(&mut self, dataset: usize, seen: &v1::ThesisObservation, at: i64, event: Option<&str>) -> Became {
        let created_at = seen.created_at.as_ref().map(to_millis).unwrap_or_default();
        let updated_at = seen.updated_at.as_ref().map_or(created_at, to_millis);
        if self.thesis(&seen.upstream_id).is_some() {
            return self.change(&seen.upstream_id, |thesis| edit(thesis, seen, at, updated_at));
        }
        let (author, on) = (seen.profile.as_ref().expect("an author"), seen.token.as_ref().expect("a token"));
        self.observe_profile(dataset, author, Age::Beside(at), None);
        self.observe_token(dataset, on, Age::Beside(at));
        let thesis = Thesis {
            dataset,
            upstream_id: seen.upstream_id.clone(),
            id: id::of_thesis(&self.name, &seen.upstream_id),
            profile: id::of_profile(&self.name, &author.upstream_user_id),
            token: token_id(&self.name, on),
            text: seen.text.clone(),
            likes: seen.likes,
            replies: seen.replies,
            created_at,
            updated_at,
            version: at,
            engagement: at,
            deleted: false,
        };
        let profile = self.profile(&thesis.profile).expect("the author").row.clone();
        let token = self.token(&thesis.token).expect("the token").row.clone();
        self.owe_created(&thesis, &profile, &token, event);
        let id = thesis.id.clone();
        self.theses.push(thesis);
        Became { id, applied: true, event: true }
    }

    /// Tells whether it was news, and whether it is told by an event.
    fn observe_profile(
        &mut self,
        dataset: usize,
        seen: &v1::ProfileObservation,
        age: Age,
        event: Option<&str>,
    ) -> (bool, bool) {
        let id = id::of_profile(&self.name, &seen.upstream_user_id);
        let known = self.profiles.iter().position(|profile| profile.row["id"] == id);
        let mut row = match known {
            Some(index) => self.profiles[index].row.clone(),
            None => bare_profile(dataset, &id, &seen.handle),
        };
        let before = row.clone();
        fill_profile(&mut row, seen);
        let Some(index) = known else {
            let (version, observed_at) = age.marks(0, 0);
            self.claim(&row, None);
            self.profiles.push(Profile { upstream_id: seen.upstream_user_id.clone(), version, observed_at, row });
            return (true, false);
        };
        let profile = &mut self.profiles[index];
        if !age.is_newer(profile.version, profile.observed_at) || (matches!(age, Age::Beside(_)) && row == before) {
            return (false, false);
        }
        (profile.version, profile.observed_at) = age.marks(profile.version, profile.observed_at);
        let changed: Vec<&str> = TOLD.into_iter().filter(|field| before[field] != row[field]).collect();
        if !changed.is_empty() {
            row["updated_at"] = Value::Null;
        }
        profile.row = row.clone();
        self.claim(&row, Some(text(&before, "handle")));
        if !changed.is_empty() {
            self.owe(dataset, "profile.updated", json!({"profile": row, "changed": changed}), event);
        }
        (true, !changed.is_empty())
    }

    /// Tells whether it was news.
    fn observe_token(&mut self, dataset: usize, seen: &v1::TokenObservation, age: Age) -> bool {
        let id = token_id(&self.name, seen);
        let known = self.tokens.iter().position(|token| token.row["id"] == id);
        let mut row = match known {
            Some(index) => self.tokens[index].row.clone(),
            None => bare_token(dataset, &id, &seen.symbol, &seen.chain, &seen.address),
        };
        let before = row.clone();
        fill_token(&mut row, seen);
        let Some(index) = known else {
            let (version, observed_at) = age.marks(0, 0);
            self.tokens.push(Token { version, observed_at, row });
            return true;
        };
        let token = &mut self.tokens[index];
        let differs = row != before;
        if !age.is_newer(token.version, token.observed_at) || (matches!(age, Age::Beside(_)) && !differs) {
            return false;
        }
        (token.version, token.observed_at) = age.marks(token.version, token.observed_at);
        if differs {
            row["updated_at"] = Value::Null;
        }
        token.row = row;
        true
    }

    /// A thesis that a test made, with the profile and token that came with it.
    pub(super) fn made(&mut self, thesis: Thesis, profile: Option<Value>, token: Option<Value>, event: Value) {
        if let Some(row) = profile {
            self.claim(&row, None);
            self.profiles.push(Profile { upstream_id: String::new(), version: 0, observed_at: 0, row });
        }
        self.tokens.extend(token.map(|row| Token { version: 0, observed_at: 0, row }));
        self.owed.push_back(event);
        self.theses.push(thesis);
    }
}

fn edit(thesis: &mut Thesis, seen: &v1::ThesisObservation, at: i64, updated_at: i64) -> bool {
    let applied = at > thesis.version || at > thesis.engagement;
    if at > thesis.version {
        thesis.version = at;
        if thesis.text != seen.text {
            thesis.text.clone_from(&seen.text);
            thesis.updated_at = thesis.updated_at.max(updated_at);
        }
    }
    if at > thesis.engagement {
        (thesis.engagement, thesis.likes, thesis.replies) = (at, seen.likes, seen.replies);
    }
    applied
}

fn fill_profile(row: &mut Value, seen: &v1::ProfileObservation) {
    row["handle"] = json!(format!("@{}", seen.handle));
    row["display_name"] = json!(seen.display_name);
    row["avatar_url"] = json!(seen.avatar_url);
    row["profile_url"] = json!(seen.profile_url);
    row["bio"] = json!(seen.bio);
    row["verified"] = json!(seen.verified);
    if let Some(at) = shown(seen.created_at.as_ref()) {
        row["created_at"] = json!(at);
    }
    if let Some(at) = shown(seen.source_updated_at.as_ref()) {
        row["source_updated_at"] = json!(at);
    }
}

fn fill_token(row: &mut Value, seen: &v1::TokenObservation) {
    row["symbol"] = json!(symbol(&seen.symbol));
    row["name"] = json!(seen.name);
    row["chain_id"] = json!(seen.chain_id);
    row["logo_url"] = json!(seen.logo_url);
    row["platform_url"] = json!(seen.platform_url);
    if let Some(at) = shown(seen.source_updated_at.as_ref()) {
        row["source_updated_at"] = json!(at);
    }
}

//! All that was ever written, kept as naively as possible: vectors in memory, each dataset by itself.

use std::collections::{HashSet, VecDeque};

use core_service::domain::id;
use serde_json::{Value, json};
use thesis_proto::{time::to_millis, v1};

use super::names::folded;
use crate::harness::{iso, text};

/// The place of a dataset in the world: live, the sandbox, then one project after the other.
pub(super) const LIVE: usize = 0;
pub(super) const SANDBOX: usize = 1;
pub(super) const PROJECTS: usize = 2;

/// How new an observation of a profile or token is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    pub(super) revision: Option<i64>,
    pub(super) observed_at: i64,
    /// Seen on its own, not beside a thesis.
    pub(super) own: bool,
}

impl Age {
    /// One with a revision is newer than those without. Among those without, time decides, then being seen on its own.
    pub(super) fn is_newer_than(self, known: Option<Self>) -> bool {
        known.is_none_or(|known| match (self.revision, known.revision) {
            (None, None) => (self.observed_at, self.own) > (known.observed_at, known.own),
            (seen, known) => seen > known,
        })
    }
}

/// A profile; `row` is the public resource, with null for times that only the service knows yet.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Empty for one that a test made.
    pub(super) upstream_id: String,
    /// None for one that was never observed.
    pub(super) age: Option<Age>,
    pub(super) row: Value,
}

/// A token; `row` is the public resource without its counts.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) age: Option<Age>,
    pub(super) row: Value,
}

/// A thesis, deleted or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Thesis {
    pub(super) dataset: usize,
    pub(super) upstream_id: String,
    pub(super) id: String,
    pub(super) profile: String,
    pub(super) token: String,
    pub(super) text: String,
    pub(super) likes: Option<i64>,
    pub(super) replies: Option<i64>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) version: i64,
    pub(super) engagement: i64,
    pub(super) deleted: bool,
}

/// An event as the service told it.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) dataset: usize,
    pub(super) at: i64,
    pub(super) row: Value,
}

/// One dataset.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) name: String,
    pub(super) profiles: Vec<Profile>,
    pub(super) tokens: Vec<Token>,
    pub(super) theses: Vec<Thesis>,
    /// Theses whose likes or deletion came before themselves.
    pub(super) awaited: Vec<Thesis>,
    /// Its events in order.
    pub(super) log: Vec<Event>,
    /// Events that must come next, with null in fields that only the service knows.
    pub(super) owed: VecDeque<Value>,
}

/// Everything.
#[derive(Debug)]
pub(super) struct World {
    pub(super) datasets: Vec<Rows>,
    /// Time since which nothing was written.
    pub(super) quiet_since: i64,
}

impl World {
    /// An empty world with these projects.
    pub(super) fn new(projects: &[String]) -> Self {
        let names = ["live", "sandbox"].map(str::to_owned).into_iter().chain(projects.iter().cloned());
        Self { datasets: names.map(Rows::new).collect(), quiet_since: 0 }
    }

    /// Every thesis there ever was.
    pub(super) fn theses(&self) -> impl Iterator<Item = &Thesis> {
        self.datasets.iter().flat_map(|rows| &rows.theses)
    }

    /// The ids of all events known.
    pub(super) fn events(&self) -> HashSet<&str> {
        self.datasets.iter().flat_map(|rows| &rows.log).map(|event| text(&event.row, "id")).collect()
    }
}

impl Profile {
    /// The order of profiles with the same handle.
    fn seen(&self) -> (Option<&str>, Option<i64>, &str) {
        (self.row["source_updated_at"].as_str(), self.age.map(|age| age.observed_at), text(&self.row, "id"))
    }
}

/// The source of a dataset's rows.
pub(super) fn source(dataset: usize) -> &'static str {
    if dataset == LIVE { "upstream" } else { "sandbox" }
}

/// The form in which handles are claimed.
pub(super) fn claim(handle: &str) -> String {
    folded(handle.strip_prefix('@').unwrap_or(handle))
}

/// A symbol as it is told by an upstream and shown.
fn told_symbol(text: &str) -> String {
    format!("${}", text.trim().strip_prefix('$').unwrap_or(text.trim()))
}

/// Whether a token has this address, whatever its case where that does not count.
pub(super) fn is_at(token: &Value, at: &str) -> bool {
    address(text(token, "address")) == address(at)
}

/// Whether a token has this symbol, whatever its case.
pub(super) fn is_called(token: &Value, name: &str) -> bool {
    symbol(text(token, "symbol")) == symbol(name)
}

/// Takes a token's names as an upstream tells them.
pub(super) fn take_names(token: &mut Value, seen: &v1::TokenObservation) {
    token["symbol"] = json!(told_symbol(&seen.symbol));
    token["address"] = json!(seen.address);
}

/// The form of a symbol by which it is found, and in which those of test theses are shown.
pub(super) fn symbol(text: &str) -> String {
    format!("${}", folded(text.strip_prefix('$').unwrap_or(text)).to_uppercase())
}

/// The form of an address by which it is found.
fn address(text: &str) -> String {
    let lower = text.to_lowercase();
    if lower.starts_with("0x") { lower } else { text.to_owned() }
}

/// The id of a token observed in a dataset.
pub(super) fn token_id(dataset: &str, seen: &v1::TokenObservation) -> String {
    id::of_token(dataset, &seen.chain, &address(&seen.address))
}

/// A profile in short.
pub(super) fn profile_ref(row: &Value) -> Value {
    json!({
        "id": row["id"], "handle": row["handle"], "display_name": row["display_name"], "avatar_url": row["avatar_url"],
    })
}

/// A token in short.
pub(super) fn token_ref(row: &Value) -> Value {
    json!({
        "id": row["id"], "symbol": row["symbol"], "name": row["name"], "chain": row["chain"], "address": row["address"],
    })
}

/// A profile's row without the fields of an observation.
pub(super) fn bare_profile(dataset: usize, id: &str, handle: &str) -> Value {
    json!({
        "object": "profile", "id": id, "handle": format!("@{}", handle.strip_prefix('@').unwrap_or(handle)),
        "display_name": null, "avatar_url": null, "profile_url": null, "bio": null, "verified": null,
        "source": source(dataset), "livemode": dataset == LIVE, "created_at": null, "first_seen_at": null,
        "updated_at": null, "source_updated_at": null,
    })
}

/// A token's row without the fields of an observation.
pub(super) fn bare_token(dataset: usize, id: &str, shown: &str, chain: &str, at: &str) -> Value {
    json!({
        "object": "token", "id": id, "symbol": symbol(shown), "name": null, "chain": chain, "chain_id": null,
        "address": address(at), "logo_url": null, "platform_url": null, "first_seen_at": null,
        "metrics_scope": "ingested", "source": source(dataset), "livemode": dataset == LIVE, "updated_at": null,
        "source_updated_at": null,
    })
}

impl Rows {
    fn new(name: String) -> Self {
        Self {
            name,
            profiles: Vec::new(),
            tokens: Vec::new(),
            theses: Vec::new(),
            awaited: Vec::new(),
            log: Vec::new(),
            owed: VecDeque::new(),
        }
    }

    pub(super) fn profile(&self, id: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.row["id"] == id)
    }

    pub(super) fn token(&self, id: &str) -> Option<&Token> {
        self.tokens.iter().find(|token| token.row["id"] == id)
    }

    pub(super) fn thesis(&self, upstream_id: &str) -> Option<usize> {
        self.theses.iter().position(|thesis| thesis.upstream_id == upstream_id)
    }

    /// The id of the profile that holds a handle: of those that have it, the one that changed or was seen last.
    pub(super) fn by_handle(&self, handle: &str) -> Option<&str> {
        let has_it = |profile: &&Profile| claim(text(&profile.row, "handle")) == claim(handle);
        let holder = self.profiles.iter().filter(has_it).max_by_key(|profile| profile.seen());
        holder.map(|profile| text(&profile.row, "id"))
    }

    /// The event that a thesis causes, with its author and token as they are.
    pub(super) fn owe_created(&mut self, thesis: &Thesis, profile: &Value, token: &Value, id: Option<&str>) {
        let data = json!({
            "thesis_id": thesis.id, "profile": profile_ref(profile), "token": token_ref(token), "text": thesis.text,
            "created_at": iso(thesis.created_at), "public_url": null,
        });
        self.owe(thesis.dataset, "thesis.created", data, id);
    }

    /// An event that must come next.
    pub(super) fn owe(&mut self, dataset: usize, kind: &str, data: Value, id: Option<&str>) {
        self.owed.push_back(json!({
            "object": "event", "id": id, "type": kind, "created_at": null, "livemode": dataset == LIVE,
            "source": source(dataset), "data": data,
        }));
    }
}

/// A time of an observation, as it is shown.
pub(super) fn shown(time: Option<&prost_types::Timestamp>) -> Option<String> {
    time.map(|time| iso(to_millis(time)))
}

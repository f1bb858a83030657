//! Profiles, tokens and theses as they are stored. Times are unix milliseconds; `source` and `livemode` follow from the
//! dataset.
//!
//! # Recipe: a field of a thesis
//!
//! The example is `likes`. Both stores keep a row as these bytes (the embedded one keeps a thesis in the log alone), so
//! tables and migrations stay as they are. A field that an older core must not lose when it writes the row again takes
//! two versions (`CONTRIBUTING.md`).
//!
//! 1. Here: the field of [`Thesis`] with the next tag; `#[serde(default)]`, for older exports, unless it is optional.
//! 2. `domain/observation.rs`; `log/writer/observe.rs`: `new_row`, and `edit` beside the version that guards it. One
//!    that changes without the text, as likes do, also in `engagement`, and where `new_row` reads `awaited`.
//! 3. Its sources: `ThesisObservation` in `proto/thesis/v1/ingest_service.proto`, read in `operations/ingest.rs`;
//!    `ingest/objects.rs`; `docs/upstream.md`; `sandbox.rs`; in `upstream-sim/src`, `world.rs`, `world/thesis.rs` and
//!    `control/theses.rs`. One that changes without the text also in `EngagementObservation` of the same proto,
//!    in `ObservedEngagement` of `domain/observation.rs`, and in `world/feed_event.rs` and `world/life.rs` of the
//!    simulator. It is absent in test theses, unless `CreateTestThesisRequest` and `operations/create_test_thesis.rs`
//!    take it.
//! 4. Its readers: `Thesis` in `proto/thesis/v1/resources.proto`, exceptions in `proto/views.json`, `convert/row.rs`;
//!    each thesis in `rest-edge/examples/` and `README.md`; `explore/thesis.rs` of the console; `CHANGELOG.md`.
//!    Events have it only if `ThesisCreatedData` gets it too.
//! 5. To search or sort by it: `search/schema.rs`, and count up its `VERSION`. To sort by it also `search/best.rs`,
//!    `filter.rs` and `run.rs` beside it, `search.rs`, and the position in `domain/list_cursor.rs`.
//!
//! Tests: `domain/entry/portable/tests.rs`, `log/writer/tests/order.rs`, `ingest/objects/tests.rs` and `mutations.rs`
//! beneath; sample and snapshots of `proto/src/json`; in `tests/system` the naive model `recount/` (`world`, `observe`,
//! `base`, `writes`, `view`), `harness/agreement.rs`, `console/explore.rs`, another rule in `ingest/refused.rs`,
//! and the whole theses in `ingest.rs`, `theses.rs`, `upstream/feed.rs`. The compiler names other literals.

use serde::{Deserialize, Serialize};

/// A wallet association and the time of its observation.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wallet {
    /// The address.
    #[prost(string, tag = "1")]
    pub address: String,
    /// The network's name.
    #[prost(string, tag = "2")]
    pub network: String,
    /// Time of the observation.
    #[prost(int64, tag = "3")]
    pub observed_at: i64,
}

/// Age of an observation of a profile or token. One with a revision is newer than any without. The others compare by
/// time; at the same time, a separate observation is newer than one beside a thesis.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Age {
    /// The upstream's revision, if it gave one.
    #[prost(int64, optional, tag = "1")]
    pub revision: Option<i64>,
    /// Time of the observation.
    #[prost(int64, tag = "2")]
    pub observed_at: i64,
    /// True for a separate observation, or one with its own date beside a thesis.
    #[prost(bool, tag = "3")]
    pub own: bool,
}

impl Age {
    /// An observation beside a thesis, whose revision belongs to the thesis.
    #[must_use]
    pub const fn beside(observed_at: i64) -> Self {
        Self { revision: None, observed_at, own: false }
    }

    /// True for a separate observation, or one with its own date beside a thesis.
    #[must_use]
    pub const fn own(revision: Option<i64>, observed_at: i64) -> Self {
        Self { revision, observed_at, own: true }
    }

    /// True if this is newer than the known one, or none is known.
    #[must_use]
    pub fn is_newer_than(&self, known: Option<&Self>) -> bool {
        let order_key = |age: &Self| (age.revision, age.revision.map_or(age.observed_at, |_| 0), age.own);
        known.is_none_or(|known| order_key(self) > order_key(known))
    }

    /// Returns its text in the id of an entry.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.revision, self.own) {
            (Some(revision), _) => format!("v{revision}"),
            (None, true) => format!("o{}", self.observed_at),
            (None, false) => format!("t{}", self.observed_at),
        }
    }
}

/// Decides between two profiles with one handle: the one with the latest change or observation keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct HandleClaim {
    /// Time of the profile's last change upstream.
    #[prost(int64, optional, tag = "1")]
    pub source_updated_at: Option<i64>,
    /// Time of the last observation.
    #[prost(int64, optional, tag = "2")]
    pub observed_at: Option<i64>,
}

impl HandleClaim {
    /// The claim of a profile on its handle.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        Self { source_updated_at: profile.source_updated_at, observed_at: profile.age.map(|age| age.observed_at) }
    }
}

/// A profile.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// `fp_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The upstream's user id; empty for a profile that came with a test thesis.
    #[prost(string, tag = "2")]
    pub upstream_id: String,
    /// With the leading `@`.
    #[prost(string, tag = "3")]
    pub handle: String,
    /// Shown name.
    #[prost(string, optional, tag = "4")]
    pub display_name: Option<String>,
    /// Picture.
    #[prost(string, optional, tag = "5")]
    pub avatar_url: Option<String>,
    /// Public page upstream.
    #[prost(string, optional, tag = "6")]
    pub profile_url: Option<String>,
    /// About.
    #[prost(string, optional, tag = "7")]
    pub bio: Option<String>,
    /// Verified upstream.
    #[prost(bool, optional, tag = "8")]
    pub verified: Option<bool>,
    /// Account creation upstream.
    #[prost(int64, optional, tag = "9")]
    pub created_at: Option<i64>,
    /// First seen by this service.
    #[prost(int64, tag = "10")]
    pub first_seen_at: i64,
    /// Last changed here.
    #[prost(int64, tag = "11")]
    pub updated_at: i64,
    /// Last changed upstream.
    #[prost(int64, optional, tag = "12")]
    pub source_updated_at: Option<i64>,
    /// Public, authorized wallets.
    #[prost(message, repeated, tag = "13")]
    pub wallets: Vec<Wallet>,
    /// Age of the observation that gave the fields.
    #[prost(message, optional, tag = "16")]
    pub age: Option<Age>,
    /// Age of the observation that gave the wallets.
    #[prost(message, optional, tag = "17")]
    pub wallets_age: Option<Age>,
}

impl Profile {
    /// The profile with what events about its theses show, and with what its id derives from. An entry that does not
    /// write the row needs no more.
    #[must_use]
    pub fn for_events(&self) -> Self {
        Self {
            id: self.id.clone(),
            upstream_id: self.upstream_id.clone(),
            handle: self.handle.clone(),
            display_name: self.display_name.clone(),
            avatar_url: self.avatar_url.clone(),
            ..Self::default()
        }
    }
}

/// A token.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// `tk_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// With the leading `$`, in the upstream's spelling; upper case for a token of a test thesis.
    #[prost(string, tag = "2")]
    pub symbol: String,
    /// Name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The chain's name; `sandbox` for test data.
    #[prost(string, tag = "4")]
    pub chain: String,
    /// The chain's number.
    #[prost(int64, optional, tag = "5")]
    pub chain_id: Option<i64>,
    /// Contract or mint address, in the upstream's spelling.
    #[prost(string, tag = "6")]
    pub address: String,
    /// Logo.
    #[prost(string, optional, tag = "7")]
    pub logo_url: Option<String>,
    /// Page upstream.
    #[prost(string, optional, tag = "8")]
    pub platform_url: Option<String>,
    /// First seen by this service.
    #[prost(int64, tag = "9")]
    pub first_seen_at: i64,
    /// Last changed here.
    #[prost(int64, tag = "10")]
    pub updated_at: i64,
    /// Last changed upstream.
    #[prost(int64, optional, tag = "11")]
    pub source_updated_at: Option<i64>,
    /// Age of the observation that gave the fields.
    #[prost(message, optional, tag = "14")]
    pub age: Option<Age>,
}

impl Token {
    /// The token with what events about its theses show. An entry that does not write the row needs no more.
    #[must_use]
    pub fn for_events(&self) -> Self {
        Self {
            id: self.id.clone(),
            symbol: self.symbol.clone(),
            name: self.name.clone(),
            chain: self.chain.clone(),
            address: self.address.clone(),
            ..Self::default()
        }
    }
}

/// A thesis.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thesis {
    /// `th_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The author.
    #[prost(string, tag = "2")]
    pub profile_id: String,
    /// The token.
    #[prost(string, tag = "3")]
    pub token_id: String,
    /// The token's chain.
    #[prost(string, tag = "4")]
    pub chain: String,
    /// The text.
    #[prost(string, tag = "5")]
    pub text: String,
    /// Likes.
    #[prost(int64, optional, tag = "6")]
    pub likes: Option<i64>,
    /// Replies.
    #[prost(int64, optional, tag = "7")]
    pub replies: Option<i64>,
    /// Time of the post.
    #[prost(int64, tag = "8")]
    pub created_at: i64,
    /// Time of the last change.
    #[prost(int64, tag = "9")]
    pub updated_at: i64,
    /// Time of the deletion.
    #[prost(int64, optional, tag = "10")]
    pub deleted_at: Option<i64>,
    /// A project's thesis whose author is of the sandbox.
    #[prost(bool, tag = "11")]
    pub sandbox_profile: bool,
    /// A project's thesis whose token is of the sandbox.
    #[prost(bool, tag = "12")]
    pub sandbox_token: bool,
    /// Revision or time of the newest observation of its text.
    #[prost(int64, tag = "13")]
    pub version: i64,
    /// Revision or time of the newest observation of its engagement counts.
    #[prost(int64, tag = "14")]
    pub engagement_version: i64,
    /// The upstream's id; empty for a test thesis.
    #[prost(string, tag = "15")]
    pub upstream_id: String,
    /// Sequence number of the entry that created it, in each version of the row. None while no entry did.
    #[prost(uint64, optional, tag = "16")]
    pub sequence: Option<u64>,
    /// Time of the entry that created it; 0 if it is only awaited.
    #[prost(int64, tag = "17")]
    #[serde(default)]
    pub recorded_at: i64,
    /// Time of the entry that deleted it.
    #[prost(int64, optional, tag = "18")]
    pub removed_at: Option<i64>,
    /// Sequence number of the last entry that edited or deleted it. An earlier version left it out.
    #[prost(uint64, optional, tag = "19")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_in: Option<u64>,
}

impl Thesis {
    /// True if only engagement or a deletion was observed, not yet the thesis itself. No reader sees such a row.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.profile_id.is_empty()
    }
}

/// The part of a thesis that its index row contains. A reader of the index knows the other fields, or reads the thesis.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IndexedThesis {
    /// The author, in the indexes of a token.
    #[prost(string, tag = "1")]
    pub profile_id: String,
    /// The token, in the index of a profile.
    #[prost(string, tag = "2")]
    pub token_id: String,
    /// The token's chain, in the index of a profile.
    #[prost(string, tag = "3")]
    pub chain: String,
    /// Time of the entry that created it, in the indexes of a token.
    #[prost(int64, tag = "4")]
    pub recorded_at: i64,
    /// Time of the entry that deleted it, in the index of a token's deleted theses.
    #[prost(int64, optional, tag = "5")]
    pub removed_at: Option<i64>,
}

/// A thesis to append to the log, with its present author and token.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NewThesis {
    /// The thesis.
    #[prost(message, required, tag = "1")]
    pub thesis: Thesis,
    /// Its author.
    #[prost(message, required, tag = "2")]
    pub profile: Profile,
    /// Its token.
    #[prost(message, required, tag = "3")]
    pub token: Token,
    /// True for a thesis that the API created for a test.
    #[prost(bool, tag = "4")]
    pub test: bool,
    /// The time of the event, if it differs from the time of the append.
    #[prost(int64, optional, tag = "5")]
    pub at: Option<i64>,
    /// Trace and span of the request that posts it, if its trace is sampled.
    #[prost(bytes = "vec", tag = "6")]
    pub trace: Vec<u8>,
    /// Capacity of its dataset: beyond it the oldest theses are deleted. None keeps all.
    #[prost(int64, optional, tag = "7")]
    pub max_theses: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_newer_than_any_time_and_a_separate_observation_than_one_beside_a_thesis() {
        let oldest_first =
            [Age::beside(5), Age::own(None, 5), Age::beside(6), Age::own(Some(1), 9), Age::own(Some(2), 0)];
        for (place, age) in oldest_first.iter().enumerate() {
            assert!(age.is_newer_than(None));
            for (other_place, other) in oldest_first.iter().enumerate() {
                assert_eq!(age.is_newer_than(Some(other)), place > other_place, "{age:?} and {other:?}");
            }
        }
        assert!(!Age::own(Some(2), 9).is_newer_than(Some(&Age::own(Some(2), 0))), "one revision, observed twice");
        assert_eq!(oldest_first.map(|age| age.name()), ["t5", "o5", "t6", "v1", "v2"]);
    }

    #[test]
    fn a_claim_has_the_times_of_its_profile() {
        let profile = Profile { source_updated_at: Some(3), age: Some(Age::beside(5)), ..Profile::default() };
        let (source_updated_at, observed_at) = (Some(3), Some(5));
        assert_eq!(HandleClaim::of(&profile), HandleClaim { source_updated_at, observed_at });
    }

    #[test]
    fn a_thesis_without_an_author_is_awaited() {
        assert!(Thesis::default().is_awaited());
        assert!(!Thesis { profile_id: "fp_1".to_owned(), ..Thesis::default() }.is_awaited());
    }
}

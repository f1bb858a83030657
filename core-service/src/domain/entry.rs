//! Entries of a dataset's log. Exports use their JSON form, which contains new fields and kinds automatically.
//!
//! # Recipe: an event type
//!
//! The example is `token.thesis_velocity`. It takes two versions: the first has all but step 4, the second adds that.
//!
//! 1. `proto/thesis/v1/events.proto`: a value of `EventType`, a message `TokenThesisVelocityData`, named after the
//!    type, and a field of `Event`. `proto/src`: its name in `names.rs`, its handle and token in `filter.rs`. An entry
//!    for the message in `proto/views.json`.
//! 2. Here: a [`Kind`] with the next tag that no field of [`Entry`] has, also in the `tags` of [`Entry::kind`] and
//!    in `outline.rs`, and its rows in `portable.rs`.
//! 3. `convert/entry.rs`: type, also by its tag, data, and `derived` if nobody observed it. `tables/events.rs`:
//!    `EventScope::of`. `tables/event_positions.rs`, if its id says its position.
//!    `tables/theses/changes.rs` and `search/documents.rs`: the rows that it changes.
//! 4. The part that adds it: `log/derive.rs`; or `log/writer/observe.rs`, and `draft/lookup.rs` to find an event that
//!    the log has already. A new observation: `observation.rs`, `ingest_service.proto`, `operations/ingest.rs`,
//!    `ingest/`, and the naive model in `tests/system/recount/observe.rs`.
//! 5. `rest-edge`: its sentence in `openapi/webhooks.rs`, `examples/event_NAME.json` with its name in
//!    `openapi/examples.rs`, the number of `types` in `openapi/messages.json` and `stream/message.rs`. The console:
//!    `workspace/events/row.rs` and `single.rs`, and the same text in `assets/events.js`.
//! 6. `docs/guides`: `filters-and-references.md`, `streams.md`, `sandbox.md`; `CHANGELOG.md`.
//!
//! Tests: `proto/src/json/tests.rs`, its snapshots (see CONTRIBUTING.md), `filter/tests.rs`, `portable/tests.rs`;
//! `kinds` in the test of `convert/entry.rs`; the types in `tests/system/events.rs`, `examples.rs`,
//! `wrong_forms/table.rs`; `is_derived` and `recount` in `tests/system/recount/log.rs`. The compiler does not name the
//! tags here and in `outline.rs`, `may_be_event`, data and `derived` of `convert/entry.rs`, `EventScope::of`,
//! `position_change`, the last arm of that `recount`, `stream/message.rs`, or files not in Rust.

mod erased;
mod outline;
mod portable;
mod stored;
mod totals;

use serde::{Deserialize, Serialize};

pub use self::{
    erased::{erased_entries, marks_erasure},
    outline::EntryOutline,
    totals::{DatasetTotals, PROLIFIC_AFTER, Totals},
};
use super::{
    alert::AlertChange,
    derivation::change_pct,
    event_id::thesis_event_id,
    row::{Profile, Thesis, Token},
};

/// One entry. Its sequence number is its key, not part of it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Derives from what happened, so that it is written once; that of a derived event, from its place (`event_id.rs`).
    /// `evt_…` and public for an event. Never empty.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Time of the append (for fixtures: time of the post); never before the previous event's time.
    #[prost(int64, tag = "2")]
    pub created_at: i64,
    /// True for an entry that the API created for a test.
    #[prost(bool, tag = "3")]
    pub test: bool,
    /// The content.
    #[prost(oneof = "Kind", tags = "4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 18, 19, 20")]
    pub kind: Option<Kind>,
    /// Trace and span of the request that caused it, if its trace is sampled.
    #[prost(bytes = "vec", tag = "14")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<u8>,
    /// [`Entry::SALT_BYTES`] random bytes, drawn at the append and kept by an import. Without them nobody can guess an
    /// entry by its hash.
    #[prost(bytes = "vec", tag = "15")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub salt: Vec<u8>,
    /// The entry's leaf: its hash with the salt, which stays when content and salt are erased. This version only
    /// carries it along, so that a later one can write it beside this one.
    #[prost(bytes = "vec", tag = "16")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaf: Vec<u8>,
}

impl Entry {
    /// Length of a salt.
    pub const SALT_BYTES: usize = 16;

    /// Prefix of the ids of fillers.
    const FILLER: &str = "fill_";

    /// An entry without content. It fills the end of a bucket if the next batch does not fit there.
    #[must_use]
    pub fn filler(seq: u64, created_at: i64) -> Self {
        Self { id: format!("{}{seq}", Self::FILLER), created_at, test: false, ..Self::default() }
    }

    /// True if this version knows its content. Only a filler has none.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.kind.is_some() || self.id.starts_with(Self::FILLER)
    }
}

/// Content of an entry.
#[expect(clippy::large_enum_variant, reason = "the largest is the usual one; a box would cost an allocation each")]
#[derive(Clone, PartialEq, prost::Oneof, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A thesis was posted.
    #[prost(message, tag = "4")]
    ThesisCreated(ThesisCreated),
    /// A token's counts after new theses.
    #[prost(message, tag = "5")]
    TokenActivity(TokenActivity),
    /// A token's velocity after new theses.
    #[prost(message, tag = "6")]
    ThesisVelocity(ThesisVelocity),
    /// A profile changed.
    #[prost(message, tag = "7")]
    ProfileUpdated(ProfileUpdated),
    /// A later observation changed the text or the engagement of a thesis.
    #[prost(message, tag = "8")]
    ThesisEdited(ThesisEdited),
    /// A thesis has new engagement counts, or a deleted one has lost its text.
    #[prost(message, tag = "9")]
    Engagement(ThesisChanged),
    /// A thesis was deleted upstream.
    #[prost(message, tag = "10")]
    ThesisDeleted(ThesisDeleted),
    /// A profile is new, or changed in fields without an event.
    #[prost(message, tag = "11")]
    ProfileObserved(ProfileObserved),
    /// A token is new or changed.
    #[prost(message, tag = "12")]
    TokenObserved(TokenObserved),
    /// Engagement or deletion of a thesis that was not observed yet.
    #[prost(message, tag = "13")]
    ThesisAwaited(ThesisChanged),
    /// A file of the archive was built.
    #[prost(message, tag = "17")]
    ArchiveFile(ArchiveFile),
    /// An alert began to fire.
    #[prost(message, tag = "18")]
    AlertFiring(AlertChange),
    /// A firing alert resolved.
    #[prost(message, tag = "19")]
    AlertResolved(AlertChange),
    /// The progress of an alert changed without an event.
    #[prost(message, tag = "20")]
    AlertProgressed(AlertChange),
}

impl Kind {
    /// The thesis that an entry of this kind writes, if it writes one.
    #[must_use]
    pub fn into_thesis(self) -> Option<Thesis> {
        match self {
            Self::ThesisCreated(ThesisCreated { thesis, .. })
            | Self::ThesisEdited(ThesisEdited { thesis, .. })
            | Self::ThesisDeleted(ThesisDeleted { thesis, .. })
            | Self::Engagement(ThesisChanged { thesis })
            | Self::ThesisAwaited(ThesisChanged { thesis }) => Some(thesis),
            Self::TokenActivity(_) | Self::ThesisVelocity(_) | Self::TokenObserved(_) => None,
            Self::ProfileUpdated(_) | Self::ProfileObserved(_) | Self::ArchiveFile(_) => None,
            Self::AlertFiring(_) | Self::AlertResolved(_) | Self::AlertProgressed(_) => None,
        }
    }
}

/// A thesis, with its author and token as they were: whole if this entry introduces them, otherwise as
/// [`Profile::for_events`] and [`Token::for_events`] give them.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThesisCreated {
    /// The thesis.
    #[prost(message, required, tag = "1")]
    pub thesis: Thesis,
    /// Its author.
    #[prost(message, required, tag = "2")]
    pub profile: Profile,
    /// Its token.
    #[prost(message, required, tag = "3")]
    pub token: Token,
    /// The author was new to the dataset.
    #[prost(bool, tag = "4")]
    pub introduces_profile: bool,
    /// The token was new to the dataset.
    #[prost(bool, tag = "5")]
    pub introduces_token: bool,
    /// The token's totals with this thesis.
    #[prost(message, required, tag = "6")]
    pub totals: Totals,
}

impl ThesisCreated {
    /// True if this thesis makes its author prolific.
    #[must_use]
    pub fn makes_prolific(&self) -> bool {
        self.totals.by_author == i64::from(PROLIFIC_AFTER) + 1
    }

    /// True if the id of its event leads to this sequence number, through the thesis.
    pub(crate) fn is_found_at(&self, event_id: &str, seq: u64) -> bool {
        self.thesis.sequence == Some(seq) && thesis_event_id(&self.thesis.id) == event_id
    }
}

/// A profile as an entry names it.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedProfile {
    /// `fp_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The handle at that time.
    #[prost(string, tag = "2")]
    pub handle: String,
}

/// A token as an entry names it.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedToken {
    /// `tk_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// The chain's name.
    #[prost(string, tag = "2")]
    pub chain: String,
    /// The address.
    #[prost(string, tag = "3")]
    pub address: String,
    /// The symbol at that time.
    #[prost(string, tag = "4")]
    pub symbol: String,
}

/// A thesis with a new text.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThesisEdited {
    /// The thesis as it is now.
    #[prost(message, required, tag = "1")]
    pub thesis: Thesis,
    /// Its author.
    #[prost(message, required, tag = "2")]
    pub profile: NamedProfile,
    /// Its token.
    #[prost(message, required, tag = "3")]
    pub token: NamedToken,
    /// Sequence number of the thesis's edit before this one. The first edit has none.
    #[prost(uint64, optional, tag = "4")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u64>,
}

/// A thesis as it is now.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThesisChanged {
    /// The thesis.
    #[prost(message, required, tag = "1")]
    pub thesis: Thesis,
}

/// A deleted thesis.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThesisDeleted {
    /// The thesis as it was, with the time of its deletion.
    #[prost(message, required, tag = "1")]
    pub thesis: Thesis,
    /// The token's totals without it.
    #[prost(message, required, tag = "2")]
    pub totals: Totals,
    /// Its author.
    #[prost(message, required, tag = "3")]
    pub profile: NamedProfile,
    /// Its token.
    #[prost(message, required, tag = "4")]
    pub token: NamedToken,
}

/// A profile as it is now.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileObserved {
    /// The profile.
    #[prost(message, required, tag = "1")]
    pub profile: Profile,
}

/// A token as it is now.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenObserved {
    /// The token.
    #[prost(message, required, tag = "1")]
    pub token: Token,
    /// The previous symbol, if the symbol changed, even only in case.
    #[prost(string, optional, tag = "2")]
    pub previous_symbol: Option<String>,
}

/// Counts at the entry's `created_at`. The token is as [`Token::for_events`] gives it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenActivity {
    /// The token.
    #[prost(message, required, tag = "1")]
    pub token: Token,
    /// Theses of the last hour.
    #[prost(int64, tag = "2")]
    pub thesis_count_1h: i64,
    /// Theses of the last 24 hours.
    #[prost(int64, tag = "3")]
    pub thesis_count_24h: i64,
    /// Their authors.
    #[prost(int64, tag = "4")]
    pub unique_authors_24h: i64,
    /// The newest thesis.
    #[prost(string, optional, tag = "5")]
    pub latest_thesis_id: Option<String>,
    /// Time of the post.
    #[prost(int64, optional, tag = "6")]
    pub last_activity_at: Option<i64>,
}

/// Velocity at the entry's `created_at`. The token is as [`Token::for_events`] gives it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThesisVelocity {
    /// The token.
    #[prost(message, required, tag = "1")]
    pub token: Token,
    /// Theses of the last five minutes.
    #[prost(int64, tag = "2")]
    pub last_5m: i64,
    /// Theses of the last hour.
    #[prost(int64, tag = "3")]
    pub last_1h: i64,
    /// Theses of the hour before.
    #[prost(int64, tag = "4")]
    pub previous_1h: i64,
}

impl ThesisVelocity {
    /// The change from the hour before to the last hour, in per cent; none if the hour before had no theses.
    #[must_use]
    pub fn change_pct(&self) -> Option<f64> {
        change_pct(self.last_1h, self.previous_1h)
    }
}

/// A later observation of a profile differed from the stored one.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileUpdated {
    /// The profile as it is now.
    #[prost(message, required, tag = "1")]
    pub profile: Profile,
    /// The fields that changed.
    #[prost(string, repeated, tag = "2")]
    pub changed: Vec<String>,
    /// The previous handle.
    #[prost(string, optional, tag = "4")]
    pub previous_handle: Option<String>,
}

/// A file of the archive: what it covers, and its hash. Receipts show the stored form of this entry, so its tags, that of
/// the kind and that of [`Entry::created_at`] are public (`docs/guides/receipts.md`).
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveFile {
    /// The day in UTC, such as `2026-01-31`.
    #[prost(string, tag = "1")]
    pub date: String,
    /// The name of its [`super::archive::FileKind`].
    #[prost(string, tag = "2")]
    pub kind: String,
    /// The file is about the log up to this sequence number.
    #[prost(uint64, tag = "3")]
    pub position: u64,
    /// Its rows.
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    /// Its size.
    #[prost(uint64, tag = "5")]
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    #[prost(string, tag = "6")]
    pub sha256: String,
}

/// An entry with its position in its log.
#[derive(Clone, Debug, PartialEq)]
pub struct SequencedEntry {
    /// Its sequence number, from 1.
    pub seq: u64,
    /// The entry.
    pub entry: Entry,
}

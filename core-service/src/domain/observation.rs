//! Observations of the upstream, the input of ingestion. Times are unix milliseconds.

use super::row::Wallet;

/// A profile as seen upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedProfile {
    pub upstream_id: String,
    /// With or without `@`.
    pub handle: String,
    pub display_name: Option<String>,
    pub avatar_url: Option<String>,
    pub profile_url: Option<String>,
    pub bio: Option<String>,
    pub verified: Option<bool>,
    pub created_at: Option<i64>,
    pub source_updated_at: Option<i64>,
    /// Public, authorized wallets; none if they were not read.
    pub wallets: Option<Vec<Wallet>>,
    /// Its own revision, if the upstream dates it separately from the thesis.
    pub revision: Option<i64>,
}

/// A token as seen upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedToken {
    pub chain: String,
    pub address: String,
    /// With or without `$`.
    pub symbol: String,
    pub name: Option<String>,
    pub chain_id: Option<i64>,
    pub logo_url: Option<String>,
    pub platform_url: Option<String>,
    pub source_updated_at: Option<i64>,
    /// Its own revision, if the upstream dates it separately from the thesis.
    pub revision: Option<i64>,
}

/// A thesis as seen upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedThesis {
    pub upstream_id: String,
    pub profile: ObservedProfile,
    pub token: ObservedToken,
    pub text: String,
    pub likes: Option<i64>,
    pub replies: Option<i64>,
    /// Time of the post.
    pub created_at: i64,
    /// Time of the last change.
    pub updated_at: i64,
}

/// New engagement counts of a thesis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedEngagement {
    /// The upstream's id of the thesis.
    pub upstream_id: String,
    pub likes: Option<i64>,
    pub replies: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ObservedThing {
    Thesis(Box<ObservedThesis>),
    Engagement(ObservedEngagement),
    /// The thesis with this upstream id was deleted.
    Deletion(String),
    Profile(Box<ObservedProfile>),
    Token(Box<ObservedToken>),
    /// The public, authorized wallets of the profile with this upstream id.
    Wallets(String, Vec<Wallet>),
}

/// An observation, idempotent by its version.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub observed_at: i64,
    /// The upstream's revision, if it gave one.
    pub revision: Option<i64>,
    pub seen: ObservedThing,
}

impl Observation {
    /// Version that orders the observations of a thesis. An older one changes nothing.
    pub fn version(&self) -> i64 {
        self.revision.unwrap_or(self.observed_at)
    }
}

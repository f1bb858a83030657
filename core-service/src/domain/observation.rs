//! Observations of the upstream, the input of ingestion. Times are unix milliseconds.

use super::row::Wallet;

/// A profile as seen upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedProfile {
    /// The upstream's user id.
    pub upstream_id: String,
    /// With or without `@`.
    pub handle: String,
    /// Shown name.
    pub display_name: Option<String>,
    /// Picture.
    pub avatar_url: Option<String>,
    /// Public page.
    pub profile_url: Option<String>,
    /// About.
    pub bio: Option<String>,
    /// Verified upstream.
    pub verified: Option<bool>,
    /// Account creation.
    pub created_at: Option<i64>,
    /// Last changed upstream.
    pub source_updated_at: Option<i64>,
    /// Public, authorized wallets; none if they were not read.
    pub wallets: Option<Vec<Wallet>>,
    /// Its own revision, if the upstream dates it separately from the thesis.
    pub revision: Option<i64>,
}

/// A token as seen upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedToken {
    /// The chain's name.
    pub chain: String,
    /// The address.
    pub address: String,
    /// With or without `$`.
    pub symbol: String,
    /// Name.
    pub name: Option<String>,
    /// The chain's number.
    pub chain_id: Option<i64>,
    /// Logo.
    pub logo_url: Option<String>,
    /// Page.
    pub platform_url: Option<String>,
    /// Last changed upstream.
    pub source_updated_at: Option<i64>,
    /// Its own revision, if the upstream dates it separately from the thesis.
    pub revision: Option<i64>,
}

/// A thesis as seen upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedThesis {
    /// The upstream's id.
    pub upstream_id: String,
    /// Its author.
    pub profile: ObservedProfile,
    /// Its token.
    pub token: ObservedToken,
    /// The text.
    pub text: String,
    /// Likes.
    pub likes: Option<i64>,
    /// Replies.
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
    /// Likes.
    pub likes: Option<i64>,
    /// Replies.
    pub replies: Option<i64>,
}

/// The observed thing.
#[derive(Clone, Debug, PartialEq)]
pub enum ObservedThing {
    /// A thesis.
    Thesis(Box<ObservedThesis>),
    /// New engagement counts.
    Engagement(ObservedEngagement),
    /// The thesis with this upstream id was deleted.
    Deletion(String),
    /// A profile.
    Profile(Box<ObservedProfile>),
    /// A token.
    Token(Box<ObservedToken>),
    /// The public, authorized wallets of the profile with this upstream id.
    Wallets(String, Vec<Wallet>),
}

/// An observation, idempotent by its version.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Time of the observation.
    pub observed_at: i64,
    /// The upstream's revision, if it gave one.
    pub revision: Option<i64>,
    /// The observed thing.
    pub seen: ObservedThing,
}

impl Observation {
    /// Version that orders the observations of a thesis. An older one changes nothing.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.revision.unwrap_or(self.observed_at)
    }
}

//! The indexes of theses: their scopes, and the body of an index row.
//!
//! `index_bucket` lists the buckets of a scope that are not empty, so a sparse scope reads no empty partition. A
//! deletion moves a thesis to `d:<profile>:<token>`, which only verification reads.

use bytes::Bytes;
use prost::Message as _;

use crate::domain::{
    row::{IndexedThesis, Thesis},
    window::DAY_MS,
};

/// The key of an index of theses. A token fixes its chain, so six scopes serve every combination of filters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexScope {
    All,
    Profile(String),
    Token(String),
    Chain(String),
    ProfileToken(String, String),
    ProfileChain(String, String),
    /// Deleted theses of a profile on a token, for verification.
    Deleted(String, String),
}

impl IndexScope {
    pub fn of(thesis: &Thesis) -> [Self; 6] {
        let (profile, token, chain) = (&thesis.profile_id, &thesis.token_id, &thesis.chain);
        [
            Self::All,
            Self::Profile(profile.clone()),
            Self::Token(token.clone()),
            Self::Chain(chain.clone()),
            Self::ProfileToken(profile.clone(), token.clone()),
            Self::ProfileChain(profile.clone(), chain.clone()),
        ]
    }

    /// The token of an index, from the scope's text.
    pub(super) fn token_of(text: &str) -> Option<&str> {
        text.strip_prefix("t:")
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Profile(profile) => format!("p:{profile}"),
            Self::Token(token) => format!("t:{token}"),
            Self::Chain(chain) => format!("c:{chain}"),
            Self::ProfileToken(profile, token) => format!("pt:{profile}:{token}"),
            Self::ProfileChain(profile, chain) => format!("pc:{profile}:{chain}"),
            Self::Deleted(profile, token) => format!("d:{profile}:{token}"),
        }
    }

    /// Width of a bucket. Busy scopes get narrow buckets and sparse ones wide, so a page needs one or two slices.
    fn width(&self) -> i64 {
        match self {
            Self::All | Self::Chain(_) => DAY_MS,
            Self::Token(_) => 7 * DAY_MS,
            Self::Profile(_) | Self::ProfileToken(..) | Self::ProfileChain(..) | Self::Deleted(..) => 90 * DAY_MS,
        }
    }

    pub(super) fn bucket(&self, created_at: i64) -> i64 {
        created_at.div_euclid(self.width())
    }
}

pub(super) fn author_of(body: &Bytes) -> String {
    IndexedThesis::decode(body.clone()).map(|indexed| indexed.profile_id).unwrap_or_default()
}

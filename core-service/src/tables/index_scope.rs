//! The indexes of theses: their scopes, and the bodies of index rows.
//!
//! `index_bucket` lists the buckets of a scope that are not empty, so a sparse scope reads no empty partition. A
//! deletion moves a thesis to `d:<profile>:<token>`, which only verification reads, and to `dt:<token>`, which says
//! when the token's list had the thesis.
//!
//! Only the figures of a token can be those of an earlier time, so only the rows of `t:` and `dt:` say when their
//! thesis was recorded and when it was removed. The other lists show the present, and the thesis has both times.
//!
//! Lists by an author and a token or chain filter the author's theses, whose rows name both. Only prolific authors have
//! the rows of `pt:` and `pc:`.

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
    /// Theses of a prolific author on a token.
    ProfileToken(String, String),
    /// Theses of a prolific author on a chain.
    ProfileChain(String, String),
    /// Deleted theses of a profile on a token, for verification.
    Deleted(String, String),
    /// Deleted theses on a token, for lists of an earlier time.
    DeletedOnToken(String),
}

impl IndexScope {
    /// The scopes that list a thesis while it is not deleted, whoever its author is.
    pub fn of(thesis: &Thesis) -> [Self; 4] {
        [
            Self::All,
            Self::Profile(thesis.profile_id.clone()),
            Self::Token(thesis.token_id.clone()),
            Self::Chain(thesis.chain.clone()),
        ]
    }

    /// The scopes that list a thesis too if its author is prolific.
    pub fn of_prolific(thesis: &Thesis) -> [Self; 2] {
        [
            Self::ProfileToken(thesis.profile_id.clone(), thesis.token_id.clone()),
            Self::ProfileChain(thesis.profile_id.clone(), thesis.chain.clone()),
        ]
    }

    /// The scopes that list a deleted thesis.
    pub fn of_deleted(thesis: &Thesis) -> [Self; 2] {
        [
            Self::Deleted(thesis.profile_id.clone(), thesis.token_id.clone()),
            Self::DeletedOnToken(thesis.token_id.clone()),
        ]
    }

    /// The author of a scope that lists only theses of a prolific author.
    pub(super) fn prolific_author(&self) -> Option<&str> {
        match self {
            Self::ProfileToken(profile, _) | Self::ProfileChain(profile, _) => Some(profile),
            _ => None,
        }
    }

    /// Returns whether a scope of one author has a thesis of this author, by the body of its row in the author's index.
    pub(super) fn has(&self, thesis: &IndexedThesis) -> bool {
        match self {
            Self::ProfileToken(_, token) => thesis.token_id == *token,
            Self::ProfileChain(_, chain) => thesis.chain == *chain,
            _ => true,
        }
    }

    /// The body of a thesis' row in this index.
    pub(super) fn body(&self, thesis: &Thesis) -> Bytes {
        let none = IndexedThesis::default();
        let (profile_id, recorded_at) = (thesis.profile_id.clone(), thesis.recorded_at);
        let indexed = match self {
            Self::Token(_) => IndexedThesis { profile_id, recorded_at, ..none },
            Self::DeletedOnToken(_) => IndexedThesis { profile_id, recorded_at, removed_at: thesis.removed_at, ..none },
            Self::Profile(_) => {
                IndexedThesis { token_id: thesis.token_id.clone(), chain: thesis.chain.clone(), ..none }
            }
            _ => none,
        };
        indexed.encode_to_vec().into()
    }

    /// The token of an index, from the scope's text.
    pub(super) fn token_of(text: &str) -> Option<&str> {
        text.strip_prefix("t:")
    }

    /// Returns whether a scope lists deleted theses, by its text.
    pub(super) fn is_of_deleted(text: &str) -> bool {
        text.starts_with("d:") || text.starts_with("dt:")
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
            Self::DeletedOnToken(token) => format!("dt:{token}"),
        }
    }

    /// Width of a bucket. Busy scopes get narrow buckets and sparse ones wide, so a page needs one or two slices.
    fn width(&self) -> i64 {
        match self {
            Self::All | Self::Chain(_) => DAY_MS,
            Self::Token(_) | Self::DeletedOnToken(_) => 7 * DAY_MS,
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

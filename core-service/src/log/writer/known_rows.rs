//! What a writer knows of the rows at the head of its log.

use std::sync::Arc;

use parking_lot::Mutex;
use quick_cache::sync::Cache;

use crate::domain::{
    entry::{DatasetTotals, Entry, Kind, ProfileObserved, ProfileUpdated, TokenObserved},
    row::{Profile, Token},
};

/// Maximum number of profiles, and of tokens, that a writer remembers.
const MAX_ROWS: usize = 32_768;

/// Facts from the log's entries up to the head, whoever appended them, so that they need not be read again.
pub(super) struct KnownRows {
    /// Rows of this dataset.
    pub(super) profiles: Cache<String, Arc<Profile>>,
    pub(super) tokens: Cache<String, Arc<Token>>,
    /// By token: number of theses and of authors.
    pub(super) totals: Cache<String, (i64, i64)>,
    /// By token and author: number of theses.
    pub(super) of_author: Cache<(String, String), i64>,
    /// By author: number of theses that the dataset ever had, as `Totals::by_author`.
    pub(super) by_author: Cache<String, i64>,
    /// The totals of the dataset, if an entry carried them.
    pub(super) in_dataset: Mutex<Option<DatasetTotals>>,
}

impl KnownRows {
    pub(super) fn new() -> Self {
        Self {
            profiles: Cache::new(MAX_ROWS),
            tokens: Cache::new(MAX_ROWS),
            totals: Cache::new(65_536),
            of_author: Cache::new(262_144),
            by_author: Cache::new(65_536),
            in_dataset: Mutex::default(),
        }
    }

    /// Updates the facts with an entry. Entries come in order.
    pub(super) fn apply_entry(&self, entry: &Entry) {
        let (thesis, totals) = match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                if created.introduces_profile {
                    self.put_profile(&created.profile);
                }
                if created.introduces_token {
                    self.put_token(&created.token);
                }
                (&created.thesis, &created.totals)
            }
            Some(Kind::ThesisDeleted(deleted)) => (&deleted.thesis, &deleted.totals),
            Some(
                Kind::ProfileUpdated(ProfileUpdated { profile, .. })
                | Kind::ProfileObserved(ProfileObserved { profile }),
            ) => return self.put_profile(profile),
            Some(Kind::TokenObserved(TokenObserved { token, .. })) => return self.put_token(token),
            _ => return,
        };
        if totals.in_dataset.is_some() {
            *self.in_dataset.lock() = totals.in_dataset;
        }
        self.totals.insert(thesis.token_id.clone(), (totals.theses, totals.authors));
        self.of_author.insert((thesis.token_id.clone(), thesis.profile_id.clone()), totals.of_author);
        self.by_author.insert(thesis.profile_id.clone(), totals.by_author);
    }

    pub(super) fn put_profile(&self, profile: &Profile) {
        self.profiles.insert(profile.id.clone(), Arc::new(profile.clone()));
    }

    pub(super) fn put_token(&self, token: &Token) {
        self.tokens.insert(token.id.clone(), Arc::new(token.clone()));
    }
}

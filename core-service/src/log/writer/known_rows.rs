//! Rows that a writer remembers as they are at the head of its log.

use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message;
use quick_cache::{Weighter, sync::Cache};

use crate::domain::{
    entry::{DatasetTotals, Entry, Kind, ProfileObserved, ProfileUpdated, TokenObserved},
    row::{Profile, Token},
};

/// Maximum size in bytes of the profiles, and of the tokens, that a writer remembers.
const MAX_PROFILES_BYTES: u64 = 8 << 20;
const MAX_TOKENS_BYTES: u64 = 4 << 20;
/// Typical size in bytes of a remembered row.
const TYPICAL_ROW_BYTES: u64 = 1_024;
/// Approximate size in bytes of a remembered row without its content: its key, its place in the cache, and allocations.
const ENTRY_BYTES: usize = 160;

#[derive(Clone)]
struct KnownRow<M> {
    /// Approximate size of the row in memory.
    bytes: usize,
    /// None if only the id is remembered.
    row: Option<Arc<M>>,
}

#[derive(Clone)]
struct BySize;

impl<M> Weighter<String, KnownRow<M>> for BySize {
    fn weight(&self, id: &String, known: &KnownRow<M>) -> u64 {
        (ENTRY_BYTES + id.len() + known.bytes) as u64
    }
}

/// Rows of one type and dataset. A row that is too large is forgotten.
pub(super) struct RowMemory<M> {
    by_id: Cache<String, KnownRow<M>, BySize>,
    /// False where this process is the only writer, since reading a row is cheap there.
    keeps_rows: bool,
}

impl<M: Message + Clone> RowMemory<M> {
    fn new(max_bytes: u64, keeps_rows: bool) -> Self {
        let expected = usize::try_from(max_bytes / TYPICAL_ROW_BYTES).unwrap_or_default();
        Self { by_id: Cache::with_weighter(expected, max_bytes, BySize), keeps_rows }
    }

    /// True if the dataset is known to have the row.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<M>> {
        self.by_id.get(id)?.row
    }

    pub(super) fn put(&self, id: &str, row: &M) {
        let row = self.keeps_rows.then(|| Arc::new(row.clone()));
        let bytes = row.as_ref().map_or(0, |row| size_of::<M>() + row.encoded_len());
        self.by_id.insert(id.to_owned(), KnownRow { bytes, row });
    }
}

/// Facts from the log's entries up to the head, whoever appended them, so that they need not be read again.
pub(super) struct KnownRows {
    pub(super) profiles: RowMemory<Profile>,
    pub(super) tokens: RowMemory<Token>,
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
    pub(super) fn new(is_exclusive: bool) -> Self {
        Self {
            profiles: RowMemory::new(MAX_PROFILES_BYTES, !is_exclusive),
            tokens: RowMemory::new(MAX_TOKENS_BYTES, !is_exclusive),
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
        self.profiles.put(&profile.id, profile);
    }

    pub(super) fn put_token(&self, token: &Token) {
        self.tokens.put(&token.id, token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIO_BYTES: usize = 10_000;

    fn profile(number: usize) -> Profile {
        Profile { id: format!("fp_{number}"), bio: Some("x".repeat(BIO_BYTES)), ..Profile::default() }
    }

    #[test]
    fn rows_take_a_bounded_number_of_bytes_and_their_ids_alone_take_few() {
        for is_exclusive in [false, true] {
            let known = KnownRows::new(is_exclusive);
            for number in 0..2_000 {
                known.put_profile(&profile(number));
            }
            let ids = (0..2_000).map(|number| format!("fp_{number}"));
            let (rows, contained) = ids.fold((0, 0), |(rows, contained), id| {
                let (row, contains) = (known.profiles.get(&id), known.profiles.contains(&id));
                (rows + usize::from(row.is_some()), contained + usize::from(contains))
            });
            if is_exclusive {
                assert_eq!((rows, contained), (0, 2_000));
            } else {
                assert!(rows > 100 && rows == contained && rows * BIO_BYTES <= 8 << 20, "{rows} rows");
            }
        }
    }
}

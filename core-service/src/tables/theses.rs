//! Profiles, tokens and theses: rows, their indexes, and the slices that lists are made of.

mod changes;
mod followed;
mod names;
mod past_blocks;
mod reader;
mod slices;

use std::{ops::Bound, sync::Arc};

use prost::Message;
use quick_cache::sync::Cache;

use self::{followed::FollowedLogs, past_blocks::PastBlocks};
use super::{
    index_scope::IndexScope,
    log::LogStore,
    recent_theses::{RecentTheses, ThesisMove},
    row_cache::RowCache,
};
use crate::{
    domain::{
        entry::{DatasetTotals, Totals},
        row::{IndexedThesis, Thesis},
    },
    key,
    store::{Change, Row, Scan, SharedBackend, StoreError, StoreResult, schema},
};

#[cfg(test)]
pub use self::changes::{creation_changes, deletion_changes};
pub use self::{
    changes::{bucket_removal, entry_changes, lists_deleted, logged_thesis_change, prolific_changes, thesis_change},
    reader::RowReader,
};

/// Replaces the token's id in the row with the totals of the whole dataset.
pub const ALL_TOKENS: &str = "*";
/// Replaces the author's id in the row with the totals of a token.
pub const ALL_AUTHORS: &str = "";
/// Maximum number of scopes whose newest bucket is remembered.
const MAX_NEWEST_BUCKETS: usize = 16_384;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The scope's text.
    pub scope: String,
    pub bucket: i64,
}

impl Bucket {
    /// The buckets that list a thesis of a prolific author, or of another one, while it is not deleted.
    pub fn of(thesis: &Thesis, is_prolific: bool) -> Vec<Self> {
        let of_prolific = is_prolific.then(|| IndexScope::of_prolific(thesis));
        let scopes = IndexScope::of(thesis).into_iter().chain(of_prolific.into_iter().flatten());
        scopes.map(|scope| Self { scope: scope.text(), bucket: scope.bucket(thesis.created_at) }).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRow {
    /// Time of the thesis, in unix milliseconds.
    pub created_at: i64,
    pub id: String,
    /// The fields that this index has.
    pub indexed: IndexedThesis,
    /// The sequence number of the entry that wrote the row. In a list of theses that are not deleted, it is that of the
    /// creation, except in the lists of a prolific author and a token or chain.
    pub version: i64,
}

#[derive(Clone, Debug)]
pub struct IndexSlice {
    /// Lower bound, inclusive.
    pub from: i64,
    /// Upper bound, inclusive.
    pub to: i64,
    /// The row to continue after, exclusive.
    pub after: Option<(i64, String)>,
    /// True for newest first.
    pub descending: bool,
}

impl IndexSlice {
    /// True if the slice has the newest rows first, without an upper bound.
    fn begins_newest(&self) -> bool {
        self.descending && self.after.is_none() && self.to >= i64::MAX / 2
    }
}

#[derive(Clone)]
pub struct ThesisStore {
    backend: SharedBackend,
    /// Has the theses whose rows have no body.
    log: LogStore,
    rows: Arc<RowCache>,
    /// Keeps the cached rows right where other processes write too.
    followed: Option<Arc<FollowedLogs>>,
    /// The newest bucket that a list of a scope has found, by a hash of the scope. A wrong one costs a request.
    newest_buckets: Arc<Cache<u64, i64>>,
    /// Blocks of theses for figures as of earlier times.
    past: Arc<PastBlocks>,
    /// The last day of busy tokens, where the user of this store knows of every write.
    recent: Option<Arc<RecentTheses>>,
}

fn decode<M: Message + Default>(row: &Row) -> StoreResult<M> {
    M::decode(&row.body[..]).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn count(row: &Row) -> i64 {
    row.body.as_ref().try_into().map(i64::from_be_bytes).unwrap_or_default()
}

impl ThesisStore {
    #[cfg(test)]
    pub fn new(backend: SharedBackend) -> Self {
        Self::with_log(LogStore::new(backend))
    }

    /// The rows of the logs in `log`, whose entries in memory keep cached rows right.
    pub fn with_log(log: LogStore) -> Self {
        let backend = Arc::clone(log.backend());
        let is_exclusive = backend.is_exclusive();
        let (rows, past) = (Arc::<RowCache>::default(), Arc::<PastBlocks>::default());
        let follow = || Arc::new(FollowedLogs::new(Arc::clone(&rows), Arc::clone(&past), log.clone()));
        Self {
            followed: (!is_exclusive).then(follow),
            recent: is_exclusive.then(Arc::default),
            newest_buckets: Arc::new(Cache::new(MAX_NEWEST_BUCKETS)),
            past,
            log,
            rows,
            backend,
        }
    }

    pub fn log(&self) -> &LogStore {
        &self.log
    }

    /// The store of a dataset's writer, which writes its rows or learns that other writers wrote them.
    pub fn of_writer(&self, dataset: &str) -> Self {
        let recent = || Arc::new(RecentTheses::of(dataset));
        Self { recent: self.recent.clone().or_else(|| Some(recent())), ..self.clone() }
    }

    /// Forgets the recent theses of a writer, since another writer has written rows.
    pub fn forget_recent(&self) {
        if let Some(recent) = self.recent.as_ref().filter(|_| !self.backend.is_exclusive()) {
            recent.clear();
        }
    }

    /// Applies changes of rows, in the store and in memory.
    pub async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        let Some(recent) = &self.recent else { return self.backend.apply(changes).await };
        let moves = changes.iter().filter_map(ThesisMove::of_change).collect();
        if self.backend.is_exclusive() {
            self.past.note_changes(&changes);
        }
        let _writing = self.followed.is_none().then(|| {
            let written = changes.iter().filter(|change| RowCache::caches(change.table));
            self.rows.write(
                written.filter_map(|change| Some((change.table, change.key.last()?.text().to_owned()))).collect(),
            )
        });
        let applied = self.backend.apply(changes).await;
        match &applied {
            Ok(()) => recent.apply(moves),
            Err(_) => recent.clear(),
        }
        applied
    }

    /// Reads the totals of tokens in a dataset, in the same order.
    pub async fn totals(&self, dataset: &str, tokens: &[&str]) -> StoreResult<Vec<Totals>> {
        let keys: Vec<_> = tokens.iter().map(|token| key![dataset, *token, ALL_AUTHORS]).collect();
        let rows = self.backend.get_many(&schema::TOKEN_TOTALS, &keys).await?;
        rows.iter().map(|row| row.as_ref().map_or(Ok(Totals::default()), decode)).collect()
    }

    pub async fn dataset_totals(&self, dataset: &str) -> StoreResult<DatasetTotals> {
        let rows = self.backend.get_many(&schema::TOKEN_TOTALS, &[key![dataset, ALL_TOKENS, ALL_AUTHORS]]).await?;
        rows.first().and_then(Option::as_ref).map_or(Ok(DatasetTotals::default()), decode)
    }

    /// Reads the number of theses that authors have on tokens in a dataset, for pairs of token and author, in the same
    /// order.
    pub async fn author_counts(&self, dataset: &str, pairs: &[(&str, &str)]) -> StoreResult<Vec<i64>> {
        let keys: Vec<_> = pairs.iter().map(|(token, author)| key![dataset, *token, *author]).collect();
        let rows = self.backend.get_many(&schema::TOKEN_TOTALS, &keys).await?;
        Ok(rows.iter().map(|row| row.as_ref().map_or(0, count)).collect())
    }

    /// Reads how many theses a dataset ever had by authors, in the same order. The number of a prolific author is only
    /// the one that made the author prolific.
    pub async fn counts_by_author(&self, dataset: &str, authors: &[&str]) -> StoreResult<Vec<i64>> {
        let keys: Vec<_> = authors.iter().map(|author| key![dataset, *author]).collect();
        let rows = self.backend.get_many(&schema::AUTHOR, &keys).await?;
        Ok(rows.iter().map(|row| row.as_ref().map_or(0, count)).collect())
    }

    /// Reads all authors who have or had theses on a token in a dataset, with their numbers of theses. Use it only for a
    /// dataset with few authors.
    pub async fn authors(&self, dataset: &str, token: &str) -> StoreResult<Vec<(String, i64)>> {
        let all = Scan::all(&schema::TOKEN_TOTALS, key![dataset, token], usize::MAX);
        let rows = self.backend.scan(&Scan { from: Bound::Excluded(key![ALL_AUTHORS]), ..all }).await?;
        Ok(rows.iter().filter_map(|row| Some((row.clustering.first()?.text().to_owned(), count(row)))).collect())
    }
}

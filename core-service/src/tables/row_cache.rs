//! Decoded rows in memory, where this process is the only writer. A write forgets its rows; rows read meanwhile are not
//! kept.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use quick_cache::sync::Cache;

use crate::{
    domain::row::{Profile, Thesis, Token},
    store::{Table, schema},
};

/// A row with its dataset, by id.
type Rows<M> = Cache<String, (Arc<str>, Arc<M>)>;

/// The rows that answers are made of.
pub(super) struct RowCache {
    /// Moves when a write begins and when it ends.
    epoch: AtomicU64,
    /// Writes under way.
    writers: AtomicU64,
    theses: Rows<Thesis>,
    profiles: Rows<Profile>,
    tokens: Rows<Token>,
}

/// A kind of row that is kept in memory.
pub(super) trait Cached: prost::Message + Default + Sized + 'static {
    /// Its table in the store.
    const TABLE: &'static Table;
    /// Its rows in memory.
    fn rows(cache: &RowCache) -> &Rows<Self>;
}

impl Cached for Thesis {
    const TABLE: &'static Table = &schema::THESIS;
    fn rows(cache: &RowCache) -> &Rows<Self> {
        &cache.theses
    }
}

impl Cached for Profile {
    const TABLE: &'static Table = &schema::PROFILE;
    fn rows(cache: &RowCache) -> &Rows<Self> {
        &cache.profiles
    }
}

impl Cached for Token {
    const TABLE: &'static Table = &schema::TOKEN;
    fn rows(cache: &RowCache) -> &Rows<Self> {
        &cache.tokens
    }
}

impl Default for RowCache {
    /// A cache that takes some tens of megabytes when full.
    fn default() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            writers: AtomicU64::new(0),
            theses: Cache::new(50_000),
            profiles: Cache::new(20_000),
            tokens: Cache::new(10_000),
        }
    }
}

impl RowCache {
    /// The row of a dataset, if it is kept.
    pub(super) fn get<M: Cached>(&self, dataset: &str, id: &str) -> Option<Arc<M>> {
        let (home, row) = M::rows(self).get(id)?;
        (*home == *dataset).then_some(row)
    }

    /// Note it before reading rows that are to be kept.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Keeps a row that was read since the epoch was noted, unless a row was written meanwhile.
    pub(super) fn keep<M: Cached>(&self, epoch: u64, dataset: &str, id: &str, row: &Arc<M>) {
        let quiet = || self.writers.load(Ordering::Acquire) == 0 && self.epoch() == epoch;
        if quiet() {
            M::rows(self).insert(id.to_owned(), (dataset.into(), Arc::clone(row)));
            if !quiet() {
                M::rows(self).remove(id);
            }
        }
    }

    /// Whether rows of this table are kept here.
    pub(super) fn keeps(table: &Table) -> bool {
        matches!(table.name, "thesis" | "profile" | "token")
    }

    /// Hold this while rows are written: rows read meanwhile are not kept, and at the end these are forgotten.
    pub(super) fn write(&self, rows: Vec<(&'static Table, String)>) -> Writing<'_> {
        self.writers.fetch_add(1, Ordering::AcqRel);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        Writing { cache: self, rows }
    }
}

/// Rows that are being written.
pub(super) struct Writing<'a> {
    cache: &'a RowCache,
    rows: Vec<(&'static Table, String)>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        for (table, id) in &self.rows {
            match table.name {
                "thesis" => drop(self.cache.theses.remove(id)),
                "profile" => drop(self.cache.profiles.remove(id)),
                _ => drop(self.cache.tokens.remove(id)),
            }
        }
        self.cache.epoch.fetch_add(1, Ordering::AcqRel);
        self.cache.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

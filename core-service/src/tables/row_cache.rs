//! A cache of decoded rows, where this process is the only writer. A write removes its rows. Rows that were read during
//! a write are not cached.

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

/// The rows that responses contain.
pub(super) struct RowCache {
    /// Counts the beginnings and ends of writes.
    epoch: AtomicU64,
    /// Number of running writes.
    writers: AtomicU64,
    theses: Rows<Thesis>,
    profiles: Rows<Profile>,
    tokens: Rows<Token>,
}

pub(super) trait CachedRow: prost::Message + Default + Sized + 'static {
    const TABLE: &'static Table;
    fn rows(cache: &RowCache) -> &Rows<Self>;
}

impl CachedRow for Thesis {
    const TABLE: &'static Table = &schema::THESIS;
    fn rows(cache: &RowCache) -> &Rows<Self> {
        &cache.theses
    }
}

impl CachedRow for Profile {
    const TABLE: &'static Table = &schema::PROFILE;
    fn rows(cache: &RowCache) -> &Rows<Self> {
        &cache.profiles
    }
}

impl CachedRow for Token {
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
    pub(super) fn get<M: CachedRow>(&self, dataset: &str, id: &str) -> Option<Arc<M>> {
        let (home, row) = M::rows(self).get(id)?;
        (*home == *dataset).then_some(row)
    }

    /// The current epoch. Read it before reading rows to cache.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Caches a row that was read after `epoch`, unless a write has run since then.
    pub(super) fn keep<M: CachedRow>(&self, epoch: u64, dataset: &str, id: &str, row: &Arc<M>) {
        let quiet = || self.writers.load(Ordering::Acquire) == 0 && self.epoch() == epoch;
        if quiet() {
            M::rows(self).insert(id.to_owned(), (dataset.into(), Arc::clone(row)));
            if !quiet() {
                M::rows(self).remove(id);
            }
        }
    }

    pub(super) fn caches(table: &Table) -> bool {
        matches!(table.name, "thesis" | "profile" | "token")
    }

    /// Hold the guard while these rows are written: no row is cached, and at the end these rows are removed.
    pub(super) fn write(&self, rows: Vec<(&'static Table, String)>) -> WriteGuard<'_> {
        self.writers.fetch_add(1, Ordering::AcqRel);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        WriteGuard { cache: self, rows }
    }
}

pub(super) struct WriteGuard<'a> {
    cache: &'a RowCache,
    rows: Vec<(&'static Table, String)>,
}

impl Drop for WriteGuard<'_> {
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

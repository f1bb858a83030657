//! A cache of decoded rows.
//!
//! Where this process is the only writer, a write removes its rows, and rows that were read during a write are not
//! cached. So a cached row is always right. Every write has two steps, its beginning and its end. Other data that was
//! read while no write ran is right while the number of steps is the same.
//!
//! On a cluster a cached row is right up to a position of its log, and `theses/followed.rs` moves that position before
//! a request reads from the cache. There each row has the epoch of its log. A new epoch makes all cached rows of a log
//! wrong at once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;
use quick_cache::{Weighter, sync::Cache};

use super::partition_cache::PartitionCache;
use crate::{
    domain::{
        entry::Kind,
        row::{Profile, Thesis, Token},
    },
    store::{Change, Table, schema},
};

/// Maximum size in bytes of all cached rows of a type; together 64 MiB.
const MAX_THESES_BYTES: u64 = 44 << 20;
const MAX_PROFILES_BYTES: u64 = 14 << 20;
const MAX_TOKENS_BYTES: u64 = 6 << 20;
/// Typical size in bytes of a cached row.
const TYPICAL_ROW_BYTES: u64 = 1_024;
/// Approximate size in bytes of a cache entry without its row: its key, its place in the cache, and allocations.
const ENTRY_BYTES: usize = 160;

#[derive(Clone)]
pub(super) struct CacheEntry<M> {
    /// The dataset of the row.
    dataset: Arc<str>,
    /// The epoch of the dataset's log; 0 where this process is the only writer.
    epoch: u64,
    /// The version of the row's last write.
    version: i64,
    /// Approximate size of the row in memory.
    bytes: usize,
    row: Arc<M>,
}

#[derive(Clone)]
pub(super) struct BySize;

impl<M> Weighter<String, CacheEntry<M>> for BySize {
    fn weight(&self, id: &String, entry: &CacheEntry<M>) -> u64 {
        (ENTRY_BYTES + id.len() + entry.bytes) as u64
    }
}

/// Rows of one type, by id.
type Rows<M> = Cache<String, CacheEntry<M>, BySize>;

fn rows<M: Clone>(max_bytes: u64) -> Rows<M> {
    let expected = usize::try_from(max_bytes / TYPICAL_ROW_BYTES).unwrap_or_default();
    Cache::with_weighter(expected, max_bytes, BySize)
}

/// The rows that responses contain.
pub(super) struct RowCache {
    /// The last epoch of a log. No two logs have the same, nor two instances of one.
    epochs: AtomicU64,
    /// Counts the beginnings and ends of writes.
    write_steps: AtomicU64,
    /// Number of running writes.
    writers: AtomicU64,
    /// Held while a row that was read is cached, so that no write begins meanwhile: a write that began earlier prevents
    /// the caching, and one that begins later removes the row.
    caching: RwLock<()>,
    theses: Rows<Thesis>,
    profiles: Rows<Profile>,
    tokens: Rows<Token>,
    /// The partitions that lead to these rows.
    pub(super) partitions: PartitionCache,
}

pub(super) trait CachedRow: prost::Message + Default + Clone + Sized + 'static {
    const TABLE: &'static Table;
    fn rows(cache: &RowCache) -> &Rows<Self>;

    /// The row with this id, if a log entry of this kind writes it and such rows are also stored without their bodies.
    fn written_by(_: Kind, _: &str) -> Option<Self> {
        None
    }
}

impl CachedRow for Thesis {
    const TABLE: &'static Table = &schema::THESIS;
    fn rows(cache: &RowCache) -> &Rows<Self> {
        &cache.theses
    }

    fn written_by(kind: Kind, id: &str) -> Option<Self> {
        kind.into_thesis().filter(|thesis| thesis.id == id)
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
    fn default() -> Self {
        Self {
            epochs: AtomicU64::new(0),
            write_steps: AtomicU64::new(0),
            writers: AtomicU64::new(0),
            caching: RwLock::new(()),
            theses: rows(MAX_THESES_BYTES),
            profiles: rows(MAX_PROFILES_BYTES),
            tokens: rows(MAX_TOKENS_BYTES),
            partitions: PartitionCache::default(),
        }
    }
}

impl RowCache {
    /// Begins an epoch of a log. It is not 0.
    pub(super) fn new_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The cached row of this epoch of its log.
    pub(super) fn get<M: CachedRow>(&self, dataset: &str, epoch: u64, id: &str) -> Option<Arc<M>> {
        let entry = M::rows(self).get(id)?;
        (entry.epoch == epoch && *entry.dataset == *dataset).then_some(entry.row)
    }

    /// Caches a row, unless a newer one of the epoch is cached.
    pub(super) fn put<M: CachedRow>(&self, dataset: &Arc<str>, epoch: u64, id: &str, version: i64, row: &Arc<M>) {
        if M::rows(self).peek(id).is_none_or(|cached| cached.epoch != epoch || cached.version <= version) {
            let bytes = size_of::<M>() + row.encoded_len();
            let entry = CacheEntry { dataset: Arc::clone(dataset), epoch, version, bytes, row: Arc::clone(row) };
            M::rows(self).insert(id.to_owned(), entry);
        }
    }

    /// Caches the row that a change has written, or applies the change to its cached partition.
    pub(super) fn put_change(&self, dataset: &Arc<str>, epoch: u64, change: &Change) {
        match change.table.name {
            "thesis" => self.put_body::<Thesis>(dataset, epoch, change),
            "profile" => self.put_body::<Profile>(dataset, epoch, change),
            "token" => self.put_body::<Token>(dataset, epoch, change),
            _ => self.partitions.apply(epoch, change),
        }
    }

    fn put_body<M: CachedRow>(&self, dataset: &Arc<str>, epoch: u64, change: &Change) {
        let (Some(id), Some(body)) = (change.key.last(), &change.body) else { return };
        match M::decode(body.clone()) {
            Ok(row) => self.put(dataset, epoch, id.text(), change.version, &Arc::new(row)),
            Err(_) => drop(M::rows(self).remove(id.text())),
        }
    }

    /// The number of beginnings and ends of writes so far. Read it before reading rows to cache.
    pub(super) fn write_steps(&self) -> u64 {
        self.write_steps.load(Ordering::Acquire)
    }

    /// Caches a row that was read after the number of `steps`, unless a write has run since then.
    pub(super) fn put_read<M: CachedRow>(&self, steps: u64, dataset: &Arc<str>, id: &str, version: i64, row: &Arc<M>) {
        let _caching = self.caching.read();
        // A write that ends between the two loads has changed the steps.
        if self.writers.load(Ordering::Acquire) == 0 && self.write_steps() == steps {
            self.put(dataset, 0, id, version, row);
        }
    }

    /// The number of steps so far; none while a write runs. Read it before reading data, and keep the data with it:
    /// the data is right for each request that gets the same number. If a write changes it meanwhile, no later request
    /// gets that number.
    pub(super) fn quiet_steps(&self) -> Option<u64> {
        let steps = self.write_steps();
        (self.writers.load(Ordering::Acquire) == 0).then_some(steps)
    }

    pub(super) fn caches(table: &Table) -> bool {
        matches!(table.name, "thesis" | "profile" | "token")
    }

    /// Hold the guard while these rows are written: no row is cached, and at the end these rows are removed.
    pub(super) fn write(&self, rows: Vec<(&'static Table, String)>) -> WriteGuard<'_> {
        let _beginning = self.caching.write();
        self.writers.fetch_add(1, Ordering::AcqRel);
        self.write_steps.fetch_add(1, Ordering::AcqRel);
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
        self.cache.write_steps.fetch_add(1, Ordering::AcqRel);
        self.cache.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const ID: &str = "th_1";

    #[test]
    fn a_row_that_was_read_before_a_write_is_not_there_after_it() {
        const WRITES: i64 = 50_000;
        let (cache, dataset) = (RowCache::default(), Arc::<str>::from("live"));
        // The stored row, whose likes are its version.
        let stored = AtomicU64::new(0);
        let read = || {
            let steps = cache.write_steps();
            let version = stored.load(Ordering::SeqCst).cast_signed();
            let thesis = Arc::new(Thesis { likes: Some(version), ..Thesis::default() });
            cache.put_read(steps, &dataset, ID, version, &thesis);
        };
        let cached = || cache.get::<Thesis>(&dataset, 0, ID).and_then(|thesis| thesis.likes);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for version in 1..=WRITES {
                    let writing = cache.write(vec![(&schema::THESIS, ID.to_owned())]);
                    stored.store(version.unsigned_abs(), Ordering::SeqCst);
                    drop(writing);
                    let cached = cached();
                    assert!(cached.is_none_or(|cached| cached >= version), "{cached:?} after {version}");
                }
            });
            while !writer.is_finished() {
                read();
            }
        });
        read();
        assert_eq!(cached(), Some(WRITES));
    }
}

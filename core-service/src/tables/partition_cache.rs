//! A cache of the partitions that lead to rows: the profiles that claim a handle, the tokens with a symbol, the buckets
//! of an index and its newest theses. On a cluster each of them would cost a request, elsewhere processor time.
//!
//! A cached partition has its rows with the highest keys, without a gap between them. In an index these are the newest
//! ones. On a cluster it is right up to the position of its log, as a cached row is, and the entries of the log bring
//! the changes of its rows (`theses/followed.rs`). Where this process is the only writer, it is right until the next
//! write (`row_cache.rs`).

use std::{ops::Bound, sync::Arc};

use quick_cache::{Equivalent, Weighter, sync::Cache};

use crate::store::{Change, Row, Scan, Value};

/// Maximum size in bytes of all cached partitions.
const MAX_BYTES: u64 = 16 << 20;
/// Typical size in bytes of a cached partition.
const TYPICAL_BYTES: u64 = 4 << 10;
/// Approximate size in bytes of a cache entry without its rows: its key, its place in the cache, and allocations.
const ENTRY_BYTES: usize = 300;
/// Approximate size in bytes of a row without its texts and its body.
const ROW_BYTES: usize = size_of::<Row>() + 2 * size_of::<Value>() + 64;
/// Maximum number of rows of a cached slice. It is one more than an author who is not prolific can have, because a
/// filter of the author's theses reads that many rows. It is low in tests so that tests reach it.
pub(super) const MAX_ROWS: usize = if cfg!(test) { 40 } else { 129 };
/// Number of rows that are read at least, so that a deletion or a longer list does not need another read. It is low in
/// tests, so tests cache parts of partitions.
pub(super) const MIN_ROWS: usize = if cfg!(test) { 4 } else { 64 };

/// The rows of a partition with the highest keys.
pub(super) struct CachedPartition {
    /// The epoch of its dataset's log; where this process is the only writer, the number of write steps.
    epoch: u64,
    /// From the highest key down.
    rows: Vec<Arc<Row>>,
    /// True if the partition has no other rows.
    is_whole: bool,
    /// Approximate size of the rows in memory.
    bytes: usize,
}

impl CachedPartition {
    /// The rows that a read from the highest key down has found, up to `limit`.
    pub(super) fn new(epoch: u64, rows: Vec<Row>, limit: usize) -> Self {
        let is_whole = rows.len() < limit;
        Self::of(epoch, rows.into_iter().map(Arc::new).collect(), is_whole)
    }

    fn of(epoch: u64, rows: Vec<Arc<Row>>, is_whole: bool) -> Self {
        let texts = |row: &Row| row.clustering.iter().map(|value| value.text().len()).sum::<usize>();
        let bytes = rows.iter().map(|row| ROW_BYTES + texts(row) + row.body.len()).sum();
        Self { epoch, rows, is_whole, bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows of a slice, if all of them are here.
    pub(super) fn slice(&self, scan: &Scan) -> Option<Vec<Row>> {
        let start = self.rows.partition_point(|row| !is_upto(row, &scan.to));
        let end = self.rows.partition_point(|row| is_from(row, &scan.from));
        let within = self.rows.get(start..end).unwrap_or_default();
        let has_all = self.is_whole || end < self.rows.len();
        let rows = within.iter().map(|row| (**row).clone());
        if scan.reverse {
            (has_all || within.len() >= scan.limit).then(|| rows.take(scan.limit).collect())
        } else {
            has_all.then(|| rows.rev().take(scan.limit).collect())
        }
    }

    /// The partition after a change of one of its rows; none if nothing changes here.
    pub(super) fn changed(&self, change: &Change) -> Option<Self> {
        let clustering = &change.key[change.table.partition.len()..];
        let row = |body| Arc::new(Row { clustering: clustering.to_vec(), body, version: change.version });
        let mut rows = self.rows.clone();
        let place = rows.binary_search_by(|row| clustering.cmp(row.clustering.as_slice()));
        match (place, change.body.clone()) {
            (Ok(index), _) if rows[index].version > change.version => return None,
            (Ok(index), Some(body)) => rows[index] = row(body),
            (Ok(index), None) => drop(rows.remove(index)),
            // Below the last row there may be others that are not here.
            (Err(index), Some(body)) if index < rows.len() || self.is_whole => rows.insert(index, row(body)),
            (Err(_), _) => return None,
        }
        let is_whole = self.is_whole && rows.len() <= MAX_ROWS;
        rows.truncate(MAX_ROWS);
        Some(Self::of(self.epoch, rows, is_whole))
    }
}

/// The first columns of a row's key, as many as a bound has.
fn columns<'r>(row: &'r Row, bound: &[Value]) -> &'r [Value] {
    &row.clustering[..bound.len().min(row.clustering.len())]
}

fn is_from(row: &Row, lower: &Bound<Vec<Value>>) -> bool {
    match lower {
        Bound::Included(bound) => columns(row, bound) >= bound.as_slice(),
        Bound::Excluded(bound) => columns(row, bound) > bound.as_slice(),
        Bound::Unbounded => true,
    }
}

fn is_upto(row: &Row, upper: &Bound<Vec<Value>>) -> bool {
    match upper {
        Bound::Included(bound) => columns(row, bound) <= bound.as_slice(),
        Bound::Excluded(bound) => columns(row, bound) < bound.as_slice(),
        Bound::Unbounded => true,
    }
}

/// The name of a table, and the partition's columns.
type PartitionKey = (&'static str, Vec<Value>);

/// A key to find a partition by, which copies no column.
#[derive(Hash)]
struct PartitionRef<'k>(&'static str, &'k [Value]);

impl Equivalent<PartitionKey> for PartitionRef<'_> {
    fn equivalent(&self, (table, columns): &PartitionKey) -> bool {
        self.0 == *table && self.1 == columns.as_slice()
    }
}

#[derive(Clone)]
struct BySize;

impl Weighter<PartitionKey, Arc<CachedPartition>> for BySize {
    fn weight(&self, (_table, columns): &PartitionKey, partition: &Arc<CachedPartition>) -> u64 {
        let texts: usize = columns.iter().map(|value| value.text().len()).sum();
        (ENTRY_BYTES + texts + partition.bytes) as u64
    }
}

pub(super) struct PartitionCache(Cache<PartitionKey, Arc<CachedPartition>, BySize>);

impl Default for PartitionCache {
    fn default() -> Self {
        let expected = usize::try_from(MAX_BYTES / TYPICAL_BYTES).unwrap_or_default();
        Self(Cache::with_weighter(expected, MAX_BYTES, BySize))
    }
}

impl PartitionCache {
    /// The cached rows of the partition that a scan reads, in this epoch.
    pub(super) fn get(&self, epoch: u64, scan: &Scan) -> Option<Arc<CachedPartition>> {
        let key = PartitionRef(scan.table.name, &scan.partition);
        self.0.get(&key).filter(|cached| cached.epoch == epoch)
    }

    pub(super) fn put(&self, scan: &Scan, partition: CachedPartition) {
        self.0.insert((scan.table.name, scan.partition.clone()), Arc::new(partition));
    }

    /// Applies a change to its partition, if that is cached in this epoch.
    pub(super) fn apply(&self, epoch: u64, change: &Change) {
        let (table, columns) = (change.table.name, &change.key[..change.table.partition.len()]);
        let cached = self.0.peek(&PartitionRef(table, columns)).filter(|cached| cached.epoch == epoch);
        if let Some(changed) = cached.and_then(|cached| cached.changed(change)) {
            // A change is no use of the partition: one that nobody reads may be evicted.
            drop(self.0.replace((table, columns.to_vec()), Arc::new(changed), true));
        }
    }
}

#[cfg(test)]
mod tests;

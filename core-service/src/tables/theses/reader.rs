//! Reads of profiles, tokens and theses by their ids, and of the partitions that lead to them.
//!
//! A thesis row without a body is a reference: its version is the number of the log entry that has the thesis. The
//! embedded store has only such rows. A list reads the rows of its theses together, and then the entries together.
//!
//! Requests read partitions from memory. On a cluster a cached partition is right at a position of its log. Where this
//! process is the only writer, it is right until something is written, since a write may change any partition.

use std::{ops::Bound, slice, sync::Arc};

use futures::future::try_join_all;

use super::{
    ThesisStore, decode,
    followed::{FollowedLogs, FollowedPosition},
};
use crate::{
    domain::{
        dataset::{Dataset, View},
        row::{Profile, Thesis, Token},
    },
    key,
    store::{Consistency, Row, Scan, StoreError, StoreResult, Table, Value},
    tables::{
        partition_cache::{CachedPartition, MAX_ROWS, MIN_ROWS},
        row_cache::CachedRow,
    },
};

/// Reads the rows of one request. They are at least as new as the projections were when the reader was created.
pub struct RowReader<'a> {
    pub(super) store: &'a ThesisStore,
    /// Positions of the datasets whose cached rows may be read. They are needed only where other processes write.
    positions: Vec<FollowedPosition>,
    /// True in a request where this process is the only writer: partitions that were read since the last write may be
    /// read from memory.
    caches_unwritten: bool,
}

/// Makes a scan of the rows with the highest keys in the partition of another scan.
fn highest_rows(scan: &Scan, limit: usize) -> Scan {
    Scan { from: Bound::Unbounded, to: Bound::Unbounded, reverse: true, limit, ..scan.clone() }
}

impl ThesisStore {
    /// Creates a reader for the datasets of a view. Where other processes write, this reads how far their logs are
    /// projected.
    pub async fn reader(&self, view: &View) -> StoreResult<RowReader<'_>> {
        let positions = match &self.followed {
            Some(followed) => followed.catch_up(view).await?,
            None => Vec::new(),
        };
        Ok(RowReader { store: self, positions, caches_unwritten: self.followed.is_none() })
    }

    /// Creates a reader that reads from the store each time. Only where this process is the only writer, it reads rows
    /// from memory.
    pub fn direct_reader(&self) -> RowReader<'_> {
        RowReader { store: self, positions: Vec::new(), caches_unwritten: false }
    }

    /// Reads a thesis that a view shows, deleted or not.
    pub async fn thesis(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Thesis>)>> {
        self.reader(view).await?.thesis(view, id).await
    }

    pub async fn profile(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Profile>)>> {
        self.reader(view).await?.profile(view, id).await
    }

    pub async fn token(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Token>)>> {
        self.reader(view).await?.token(view, id).await
    }

    /// Reads theses by dataset and id, in the same order, including awaited ones. They are the rows at the head for a
    /// writer that has projected its log.
    pub async fn theses(&self, keys: &[(impl AsRef<str> + Sync, &str)]) -> StoreResult<Vec<Option<Arc<Thesis>>>> {
        self.direct_reader().theses(keys).await
    }

    pub async fn profiles(&self, keys: &[(impl AsRef<str> + Sync, &str)]) -> StoreResult<Vec<Option<Arc<Profile>>>> {
        self.direct_reader().profiles(keys).await
    }

    pub async fn tokens(&self, keys: &[(impl AsRef<str> + Sync, &str)]) -> StoreResult<Vec<Option<Arc<Token>>>> {
        self.direct_reader().tokens(keys).await
    }
}

impl RowReader<'_> {
    /// A reader of the same rows that reads as [`ThesisStore::direct_reader`] does.
    pub fn direct(&self) -> RowReader<'_> {
        self.store.direct_reader()
    }

    fn position_of(&self, dataset: &str) -> Option<&FollowedPosition> {
        self.positions.iter().find(|position| position.is_of(dataset))
    }

    /// The projected position that the log of a dataset has at least; none where this process is the only writer.
    pub fn projected(&self, dataset: &Dataset) -> Option<u64> {
        self.position_of(dataset.name()).map(|at| at.position)
    }

    /// The number of write steps so far, in a request where this process is the only writer; none while a write runs.
    /// Rows and partitions that are read from now on are right for each request that gets the same number.
    pub fn write_steps(&self) -> Option<u64> {
        self.caches_unwritten.then(|| self.store.rows.quiet_steps()).flatten()
    }

    /// Returns the log and the position at which cached rows of a partition are valid, if other processes write too.
    fn followed_position(&self, scan: &Scan) -> Option<(&FollowedLogs, &FollowedPosition)> {
        let dataset = scan.partition.first()?.text();
        self.store.followed.as_deref().zip(self.position_of(dataset))
    }

    /// Reads a slice of a partition, from memory if it is there. If `caches` is true, a slice that is not there is
    /// cached, together with all rows above it.
    pub(super) async fn scan(&self, scan: &Scan, caches: bool) -> StoreResult<Vec<Row>> {
        if let Some(steps) = self.write_steps().filter(|_| caches) {
            return Ok(self.scan_unwritten(slice::from_ref(scan), steps).await?.pop().unwrap_or_default());
        }
        let backend = &self.store.backend;
        let Some((followed, at)) = self.followed_position(scan) else { return backend.scan(scan).await };
        let known = self.store.rows.partitions.get(at.epoch, scan);
        if let Some(rows) = known.as_ref().and_then(|known| known.slice(scan)) {
            return Ok(rows);
        }
        let wanted = scan.limit.min(MAX_ROWS);
        // A cached partition with that many rows may end before this slice begins.
        if caches && known.is_none_or(|known| known.len() < wanted) {
            let highest = highest_rows(scan, wanted.max(MIN_ROWS));
            let read = CachedPartition::new(at.epoch, backend.scan(&highest).await?, highest.limit);
            let rows = read.slice(scan);
            followed.put_partition(at, scan, read);
            if let Some(rows) = rows {
                return Ok(rows);
            }
        }
        backend.scan(scan).await
    }

    /// Reads slices like [`Self::scan`], in their order. If this process is the only writer, all slices show the same
    /// state of the store.
    pub(super) async fn scan_many(&self, scans: &[Scan], caches: bool) -> StoreResult<Vec<Vec<Row>>> {
        if let Some(steps) = self.write_steps().filter(|_| caches) {
            return self.scan_unwritten(scans, steps).await;
        }
        if self.positions.is_empty() {
            return self.store.backend.scan_many(scans).await;
        }
        try_join_all(scans.iter().map(|scan| self.scan(scan, caches))).await
    }

    /// Reads slices as of this number of write steps, and caches them. It requires that this process is the only
    /// writer. If a slice is not in memory, it reads all of them from one snapshot, because a write may begin between
    /// reads.
    async fn scan_unwritten(&self, scans: &[Scan], steps: u64) -> StoreResult<Vec<Vec<Row>>> {
        let (backend, partitions) = (&self.store.backend, &self.store.rows.partitions);
        let wanted = |scan: &Scan| scan.limit.min(MAX_ROWS);
        let (mut found, mut is_deep) = (Vec::with_capacity(scans.len()), false);
        for scan in scans {
            let known = partitions.get(steps, scan);
            match known.as_ref().and_then(|known| known.slice(scan)) {
                Some(rows) => found.push(rows),
                // A cached partition with that many rows may end before this slice begins.
                None => is_deep |= known.is_some_and(|known| known.len() >= wanted(scan)),
            }
        }
        if found.len() < scans.len() && !is_deep {
            // The next write invalidates all rows, so read only one more row. It shows whether there are more.
            let highest: Vec<Scan> = scans.iter().map(|scan| highest_rows(scan, wanted(scan) + 1)).collect();
            let read = backend.scan_many(&highest).await?;
            found.clear();
            for ((scan, highest), rows) in scans.iter().zip(&highest).zip(read) {
                let read = CachedPartition::new(steps, rows, highest.limit);
                found.extend(read.slice(scan));
                partitions.put(scan, read);
            }
        }
        if found.len() == scans.len() {
            return Ok(found);
        }
        backend.scan_many(scans).await
    }

    /// Reads the only row of a partition.
    pub(super) async fn row(&self, table: &'static Table, partition: Vec<Value>) -> StoreResult<Option<Row>> {
        if self.positions.is_empty() && self.write_steps().is_none() {
            return self.store.backend.get(table, &partition, Consistency::Quorum).await;
        }
        Ok(self.scan(&Scan::all(table, partition, 1), true).await?.pop())
    }

    fn cached<M: CachedRow>(&self, dataset: &str, id: &str) -> Option<Arc<M>> {
        let epoch = match self.store.followed {
            None => 0,
            Some(_) => self.position_of(dataset)?.epoch,
        };
        self.store.rows.get(dataset, epoch, id)
    }

    async fn read_many<M: CachedRow>(
        &self,
        keys: &[(impl AsRef<str> + Sync, &str)],
    ) -> StoreResult<Vec<Option<Arc<M>>>> {
        let key_at = |index: usize| (keys[index].0.as_ref(), keys[index].1);
        let mut found: Vec<Option<Arc<M>>> = vec![None; keys.len()];
        let mut sorted: Vec<usize> = (0..keys.len()).collect();
        sorted.sort_unstable_by_key(|index| key_at(*index));
        // Many theses of a list can have the same author or token. Each is read once, so all of them show the same row,
        // although it may change meanwhile.
        let mut missing: Vec<&[usize]> = Vec::new();
        for places in sorted.chunk_by(|a, b| key_at(*a) == key_at(*b)) {
            let (dataset, id) = key_at(places[0]);
            match self.cached(dataset, id) {
                Some(row) => put_in_places(&mut found, places, row),
                None => missing.push(places),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let steps = self.store.rows.write_steps();
        let wanted: Vec<_> = missing.iter().map(|places| key![key_at(places[0]).0, key_at(places[0]).1]).collect();
        let stored = missing.into_iter().zip(self.store.backend.get_many(M::TABLE, &wanted).await?);
        let stored = stored.filter_map(|(places, row)| Some((places, (key_at(places[0]), row?))));
        let (missing, stored): (Vec<_>, Vec<_>) = stored.unzip();
        let rows = self.decode_rows::<M>(&stored).await?;
        for ((places, ((dataset, id), stored)), row) in missing.into_iter().zip(stored).zip(rows) {
            let row = Arc::new(row);
            match &self.store.followed {
                None => self.store.rows.put_read(steps, &dataset.into(), id, stored.version, &row),
                Some(followed) => {
                    if let Some(position) = self.position_of(dataset) {
                        followed.put_read(position, id, stored.version, &row);
                    }
                }
            }
            put_in_places(&mut found, places, row);
        }
        Ok(found)
    }

    /// Decodes rows, each with its dataset and id.
    async fn decode_rows<M: CachedRow>(&self, rows: &[((&str, &str), Row)]) -> StoreResult<Vec<M>> {
        let logged = rows.iter().filter(|(_, row)| row.body.is_empty());
        let places: Vec<(&str, u64)> =
            logged.map(|((dataset, _), row)| (*dataset, row.version.unsigned_abs())).collect();
        let mut entries = self.store.log.entries_at(&places).await?.into_iter();
        let rows = rows.iter().map(|((dataset, id), row)| {
            if !row.body.is_empty() {
                return decode(row);
            }
            let kind = entries.next().and_then(|entry| entry.kind);
            let found = kind.and_then(|kind| M::written_by(kind, id));
            found.ok_or_else(|| StoreError::Damaged(format!("entry {} of log {dataset} has no {id}", row.version)))
        });
        rows.collect()
    }

    async fn find_first<M: CachedRow>(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<M>)>> {
        let keys: Vec<_> = view.datasets().iter().map(|dataset| (dataset.name(), id)).collect();
        // A row is in one dataset only, so a cached row ends the search.
        let cached = keys.iter().map(|(dataset, id)| self.cached::<M>(dataset, id));
        if let Some((dataset, row)) = view.datasets().iter().zip(cached).find_map(|(of, row)| Some((of, row?))) {
            return Ok(Some((dataset.clone(), row)));
        }
        let found = self.read_many(&keys).await?;
        Ok(view.datasets().iter().zip(found).find_map(|(dataset, row)| Some((dataset.clone(), row?))))
    }

    /// Reads a thesis that a view shows, deleted or not.
    pub async fn thesis(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Thesis>)>> {
        let found: Option<(Dataset, Arc<Thesis>)> = self.find_first(view, id).await?;
        Ok(found.filter(|(_, thesis)| !thesis.is_awaited()))
    }

    pub async fn profile(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Profile>)>> {
        self.find_first(view, id).await
    }

    pub async fn token(&self, view: &View, id: &str) -> StoreResult<Option<(Dataset, Arc<Token>)>> {
        self.find_first(view, id).await
    }

    /// Reads theses by dataset and id, in the same order, including awaited ones.
    pub async fn theses(&self, keys: &[(impl AsRef<str> + Sync, &str)]) -> StoreResult<Vec<Option<Arc<Thesis>>>> {
        self.read_many(keys).await
    }

    pub async fn profiles(&self, keys: &[(impl AsRef<str> + Sync, &str)]) -> StoreResult<Vec<Option<Arc<Profile>>>> {
        self.read_many(keys).await
    }

    pub async fn tokens(&self, keys: &[(impl AsRef<str> + Sync, &str)]) -> StoreResult<Vec<Option<Arc<Token>>>> {
        self.read_many(keys).await
    }
}

/// Puts a row into its places. The last one takes the reference itself: threads that read the same rows contend for the
/// counts of their references, and most rows have one place.
fn put_in_places<M>(found: &mut [Option<Arc<M>>], places: &[usize], row: Arc<M>) {
    let Some((last, others)) = places.split_last() else { return };
    others.iter().for_each(|index| found[*index] = Some(Arc::clone(&row)));
    found[*last] = Some(row);
}

#[cfg(test)]
mod tests;

//! Reads entries from many places of a log. The lists of one token or author read few entries of a long log, and the
//! same ones again and again, so these stay in memory.
//!
//! Only an erasure changes an entry. One in memory is right while the newest erasure of its log is the one that was
//! known before it was read, or is before the entry (`recent_entries.rs`).

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::future::try_join_all;
use quick_cache::{Equivalent, Weighter, sync::Cache};

use super::{LogStore, bucket_of, decode, int, payload};
use crate::{
    domain::entry::Entry,
    key,
    store::{StoreError, StoreResult, schema},
};

/// Maximum number of rows per wanted entry for which entries are read as one slice.
const MAX_ROWS_PER_ENTRY: usize = 4;
/// Maximum size in bytes of the entries in memory.
const MAX_BYTES: u64 = 8 << 20;
/// Typical size in bytes of an entry.
const TYPICAL_BYTES: u64 = 1_024;
/// Approximate size in bytes of an entry without its content: its key, its place in the cache, and allocations.
const ENTRY_BYTES: usize = 160;

#[derive(Clone)]
struct ListedEntry {
    body: Bytes,
    /// The newest erasure of the log that was known before the entry was read.
    erasure: u64,
}

/// The log and the sequence number of an entry. It copies no name.
#[derive(Hash)]
struct EntryPlace<'l>(&'l str, u64);

impl Equivalent<(String, u64)> for EntryPlace<'_> {
    fn equivalent(&self, (log, seq): &(String, u64)) -> bool {
        self.0 == log.as_str() && self.1 == *seq
    }
}

#[derive(Clone)]
struct BySize;

impl Weighter<(String, u64), ListedEntry> for BySize {
    fn weight(&self, (log, _seq): &(String, u64), entry: &ListedEntry) -> u64 {
        (ENTRY_BYTES + log.len() + entry.body.len()) as u64
    }
}

/// Entries that lists have read lately.
pub(super) struct ListedEntries(Cache<(String, u64), ListedEntry, BySize>);

impl Default for ListedEntries {
    fn default() -> Self {
        let expected = usize::try_from(MAX_BYTES / TYPICAL_BYTES).unwrap_or_default();
        Self(Cache::with_weighter(expected, MAX_BYTES, BySize))
    }
}

impl ListedEntries {
    /// An entry, if it is in memory. `erasure` is the newest erasure of the log.
    fn get(&self, log: &str, seq: u64, erasure: u64) -> Option<Bytes> {
        let known = self.0.get(&EntryPlace(log, seq))?;
        if seq < erasure && known.erasure < erasure {
            // Any entry before the erasure may contain the text. None of them stays, even if nobody will request it.
            self.0.retain(|(of, seq), known| of != log || *seq >= erasure || known.erasure >= erasure);
            return None;
        }
        Some(known.body)
    }

    /// Forgets an entry that is replaced.
    pub(super) fn remove(&self, log: &str, seq: u64) {
        self.0.remove(&EntryPlace(log, seq));
    }

    fn put(&self, log: &str, seq: u64, body: &Bytes, erasure: u64) {
        self.0.insert((log.to_owned(), seq), ListedEntry { body: body.clone(), erasure });
    }
}

impl LogStore {
    /// Reads entries by their sequence numbers, in the same order. Entries that are close together are read as one
    /// slice.
    pub async fn get_many(&self, log: &str, seqs: &[u64]) -> StoreResult<Vec<(u64, Bytes)>> {
        let in_memory = seqs.iter().filter_map(|seq| Some((*seq, self.recent.get(log, *seq)?)));
        let mut entries: HashMap<u64, Bytes> = in_memory.collect();
        let missing: Vec<u64> = seqs.iter().copied().filter(|seq| !entries.contains_key(seq)).collect();
        if let (Some(lowest), Some(highest)) = (missing.iter().min(), missing.iter().max()) {
            let slice = usize::try_from(highest - lowest + 1).unwrap_or(usize::MAX);
            if slice <= missing.len().saturating_mul(MAX_ROWS_PER_ENTRY) {
                entries.extend(self.read(log, lowest - 1, *highest, slice).await?);
            } else {
                let keys: Vec<_> = missing.iter().map(|seq| key![log, int(bucket_of(*seq)), int(*seq)]).collect();
                let rows = self.backend.get_many(&schema::EVENT_LOG, &keys).await?;
                for (seq, row) in missing.iter().zip(rows).filter_map(|(seq, row)| Some((*seq, row?))) {
                    entries.insert(seq, payload(row)?);
                }
            }
        }
        Ok(seqs.iter().filter_map(|seq| Some((*seq, entries.remove(seq)?))).collect())
    }

    /// Reads entries like [`Self::get_many`], from memory if such a read has found them before. The projection of the
    /// log must have reached them, and this process must know each erasure: on a cluster it has read the checkpoint of
    /// the rows for this request.
    pub async fn get_listed(&self, log: &str, seqs: &[u64]) -> StoreResult<Vec<(u64, Bytes)>> {
        let erasure = self.newest_erasure(log);
        let known = seqs.iter().filter_map(|seq| Some((*seq, self.listed.get(log, *seq, erasure)?)));
        let mut entries: HashMap<u64, Bytes> = known.collect();
        let missing: Vec<u64> = seqs.iter().copied().filter(|seq| !entries.contains_key(seq)).collect();
        for (seq, body) in self.get_many(log, &missing).await? {
            self.listed.put(log, seq, &body, erasure);
            entries.insert(seq, body);
        }
        Ok(seqs.iter().filter_map(|seq| Some((*seq, entries.remove(seq)?))).collect())
    }

    /// Reads entries of several logs like [`Self::entries_at`], from memory like [`Self::get_listed`].
    pub async fn listed_entries_at(&self, places: &[(&str, u64)]) -> StoreResult<Vec<Entry>> {
        let mut seqs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (log, seq) in places {
            seqs.entry(*log).or_default().push(*seq);
        }
        let read = try_join_all(seqs.iter().map(|(log, seqs)| self.get_listed(log, seqs))).await?;
        let mut bodies: HashMap<(&str, u64), Bytes> = HashMap::new();
        for (log, entries) in seqs.keys().zip(read) {
            bodies.extend(entries.into_iter().map(|(seq, body)| ((*log, seq), body)));
        }
        let entries = places.iter().map(|(log, seq)| {
            let body = bodies.get(&(*log, *seq)).cloned();
            decode(*seq, body.ok_or_else(|| StoreError::Damaged(format!("log {log} has no entry {seq}")))?)
        });
        entries.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        store::SharedBackend,
        tests::harness::{ManualClock, memory},
    };

    #[tokio::test]
    async fn a_list_reads_an_entry_again_only_after_an_erasure_behind_it() {
        let backend = memory(&ManualClock::new());
        let writer = LogStore::new(SharedBackend::clone(&backend));
        let entry = |seq: u64, at| (seq, Bytes::from(Entry::filler(seq, at).stored(seq)));
        let bodies: Vec<Bytes> = (1..=300).map(|seq| entry(seq, 1).1).collect();
        writer.append("live", 0, [1; 16], &bodies).await.unwrap();
        let reader = LogStore::new(backend);
        let seqs = [290, 7, 150];
        let read = async || reader.get_listed("live", &seqs).await.unwrap();
        let mut expected = seqs.map(|seq| entry(seq, 1)).to_vec();
        assert_eq!(read().await, expected);
        let erased = [7, 150].map(|seq| entry(seq, 2));
        for (seq, body) in &erased {
            writer.replace("live", *seq, body.clone()).await.unwrap();
        }
        assert_eq!(read().await, expected, "they were not in memory");
        reader.recent.note_erasure("live", 100);
        expected[1] = erased[0].clone();
        assert_eq!(read().await, expected);
        reader.recent.note_erasure("live", 200);
        expected[2] = erased[1].clone();
        assert_eq!(read().await, expected);
    }
}

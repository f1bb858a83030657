//! Finds entries by their time. The times of a log never decrease.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::{LogStore, outline};
use crate::store::{StoreError, StoreResult};

/// A binary search ends with one read of fewer entries than this. Before that it reads only entries whose sequence
/// number is a multiple of it. Their times are few enough to stay in memory. It must be a power of two.
const PAGE: u64 = 64;
/// Maximum number of entries between pages whose times are in memory.
const MAX_TIMES: usize = 16_384;
/// Maximum number of pages whose times are in memory.
const MAX_PAGES: usize = 4_096;

/// Times of entries that searches have read. Not even an erasure changes the time of an entry.
pub(super) struct EntryTimes {
    /// By log and sequence number.
    between: Cache<(String, u64), i64>,
    /// The times of the entries after a sequence number, as many as a search needed, by log and this number.
    pages: Cache<(String, u64), Arc<[i64]>>,
}

impl Default for EntryTimes {
    fn default() -> Self {
        Self { between: Cache::new(MAX_TIMES), pages: Cache::new(MAX_PAGES) }
    }
}

impl LogStore {
    /// Finds the last entry up to `upto` whose time is at most `at`; 0 if there is none. The log must have reached
    /// `upto`.
    pub async fn last_at(&self, log: &str, upto: u64, at: i64) -> StoreResult<u64> {
        let mut last = 0;
        // Every search of a log begins with the same entries, so most of their times are in memory.
        let mut step = (upto + 1).next_power_of_two();
        while step >= PAGE {
            let next = last + step;
            if next <= upto && self.time_of(log, next).await? <= at {
                last = next;
            }
            step /= 2;
        }
        let end = upto.min(last + PAGE - 1);
        let times = self.times_between(log, last, end).await?;
        Ok(last + (last..end).zip(&*times).take_while(|(_, time)| **time <= at).count() as u64)
    }

    /// Reads the times of the entries after `last` up to `end`, and perhaps of later ones.
    async fn times_between(&self, log: &str, last: u64, end: u64) -> StoreResult<Arc<[i64]>> {
        let place = (log.to_owned(), last);
        if let Some(known) = self.times.pages.get(&place).filter(|known| known.len() as u64 >= end - last) {
            return Ok(known);
        }
        let entries = self.read_all(log, last, end).await?;
        let times = entries.iter().map(|(_, body)| outline(body).map(|outline| outline.created_at));
        let times: Arc<[i64]> = times.collect::<StoreResult<Vec<i64>>>()?.into();
        self.times.pages.insert(place, Arc::clone(&times));
        Ok(times)
    }

    async fn time_of(&self, log: &str, seq: u64) -> StoreResult<i64> {
        let place = (log.to_owned(), seq);
        if let Some(time) = self.times.between.get(&place) {
            return Ok(time);
        }
        let body = self.get(log, seq).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {log} has no entry {seq}")))?;
        let time = outline(&body)?.created_at;
        self.times.between.insert(place, time);
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        domain::entry::Entry,
        store::schema,
        tests::harness::{ManualClock, SharedMemory, memory},
    };

    /// Appends entries with these times.
    async fn append(log: &LogStore, times: &[i64]) {
        let mut head = 0;
        for batch in times.chunks(100) {
            let bodies: Vec<Bytes> =
                (head + 1..).zip(batch).map(|(seq, time)| Entry::filler(seq, *time).stored(seq).into()).collect();
            log.append("live", head, [1; 16], &bodies).await.unwrap();
            head += batch.len() as u64;
        }
    }

    #[tokio::test]
    async fn the_last_entry_at_a_time_is_that_of_a_scan() {
        let log = LogStore::new(memory(&ManualClock::new()));
        // Several entries share a time, and some times have no entry.
        let times: Vec<i64> = (1..=300).map(|seq| seq / 3 * 5).collect();
        append(&log, &times).await;
        for upto in [0, 1, 62, 63, 64, 65, 127, 128, 200, 300] {
            for at in -1..=510 {
                let scanned = times.iter().take(usize::try_from(upto).unwrap()).filter(|time| **time <= at).count();
                assert_eq!(log.last_at("live", upto, at).await.unwrap(), scanned as u64, "{at} of {upto} entries");
            }
        }
    }

    #[tokio::test]
    async fn a_page_of_times_is_read_once() {
        let store = SharedMemory::new(&ManualClock::new());
        append(&LogStore::new(store.clone()), &(1..=300).collect::<Vec<i64>>()).await;
        // This one has only the newest page in memory, and then also the times of another page.
        let log = LogStore::new(store.clone());
        for at in [300, 100] {
            log.last_at("live", 300, at).await.unwrap();
        }
        let before = store.calls(&schema::EVENT_LOG);
        for at in 65..128 {
            assert_eq!(log.last_at("live", 300, at).await.unwrap(), u64::try_from(at).unwrap());
        }
        assert_eq!(store.calls(&schema::EVENT_LOG), before);
    }
}

//! Reads that many readers share who catch up at the same time, since an edge or a core has ended.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Mutex;

use super::Datasets;
use crate::{domain::dataset::Dataset, error::Result, tables::log::outline};

/// Age of a position that a reader may take who catches up anyway, in milliseconds.
pub(super) const RECENT_MS: i64 = 1_000;

/// The last reads of a dataset, which its readers share.
#[derive(Debug, Default)]
pub(super) struct SharedReads {
    /// The time at which the last read of the position began; none if it failed. A read has the lock until it ends.
    read_at: Mutex<Option<i64>>,
    /// Number of reads of the position that have begun.
    begun: AtomicU64,
    /// Sequence number and time of an entry. Later entries are not older.
    known_entry: parking_lot::Mutex<Option<(u64, i64)>>,
    /// Lock for one read of an entry at a time.
    reading_entry: Mutex<()>,
}

impl SharedReads {
    /// True if an entry is certainly not older than a time.
    fn is_since(&self, seq: u64, time: i64) -> bool {
        self.known_entry.lock().is_some_and(|(known, created_at)| known <= seq && created_at >= time)
    }
}

impl Datasets {
    /// The projected position, for a reader that continues after `after` and catches up from there. It may be a second
    /// old if it is at most `max_distance` ahead, so that many readers cost one read a second. One read serves all
    /// readers that came before it began.
    pub async fn recent_position(&self, dataset: &Dataset, after: u64, max_distance: u64) -> Result<u64> {
        let shared = self.with(dataset, |open| Arc::clone(&open.shared_reads));
        let came = shared.begun.load(Ordering::Relaxed);
        let mut read_at = shared.read_at.lock().await;
        let now_ms = self.shared.clock.now_ms();
        if let Some(at) = *read_at {
            let known = self.with(dataset, |open| *open.position.borrow());
            let is_near = known.checked_sub(after).is_some_and(|distance| distance <= max_distance);
            let is_present = shared.begun.load(Ordering::Relaxed) != came;
            if is_present || is_near && (0..RECENT_MS).contains(&(now_ms - at)) {
                return Ok(known);
            }
        }
        shared.begun.fetch_add(1, Ordering::Relaxed);
        *read_at = None;
        let position = self.refresh(dataset).await?;
        *read_at = Some(now_ms);
        Ok(position)
    }

    /// True if the entry `seq` is not older than a time, or is not there. Readers that continue from about the same
    /// place share the read.
    pub async fn is_since(&self, dataset: &Dataset, seq: u64, time: i64) -> Result<bool> {
        let shared = self.with(dataset, |open| Arc::clone(&open.shared_reads));
        if shared.is_since(seq, time) {
            return Ok(true);
        }
        let _reading = shared.reading_entry.lock().await;
        if shared.is_since(seq, time) {
            return Ok(true);
        }
        let Some(body) = self.shared.log.get(dataset.name(), seq).await? else { return Ok(true) };
        let created_at = outline(&body)?.created_at;
        if created_at >= time {
            *shared.known_entry.lock() = Some((seq, created_at));
        }
        Ok(created_at >= time)
    }
}

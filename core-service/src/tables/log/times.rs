//! Finds entries by their time. The times of a log never decrease.

use super::{LogStore, outline};
use crate::store::{StoreError, StoreResult};

/// A binary search ends with one read of up to this many entries. Before that it reads only entries whose sequence
/// number is a multiple of it. Their times are few enough to stay in memory. It must be a power of two.
const PAGE: u64 = 64;
/// Maximum number of entries whose times are in memory.
pub(super) const MAX_TIMES: usize = 16_384;

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
        for (seq, body) in self.read_all(log, last, upto.min(last + PAGE - 1)).await? {
            if outline(&body)?.created_at > at {
                break;
            }
            last = seq;
        }
        Ok(last)
    }

    async fn time_of(&self, log: &str, seq: u64) -> StoreResult<i64> {
        let place = (log.to_owned(), seq);
        if let Some(time) = self.times.get(&place) {
            return Ok(time);
        }
        let body = self.get(log, seq).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {log} has no entry {seq}")))?;
        let time = outline(&body)?.created_at;
        self.times.insert(place, time);
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        domain::entry::Entry,
        tests::harness::{ManualClock, memory},
    };

    #[tokio::test]
    async fn the_last_entry_at_a_time_is_that_of_a_scan() {
        let log = LogStore::new(memory(&ManualClock::new()));
        // Several entries share a time, and some times have no entry.
        let times: Vec<i64> = (1..=300).map(|seq| seq / 3 * 5).collect();
        let mut head = 0;
        for batch in times.chunks(100) {
            let bodies: Vec<Bytes> =
                (head + 1..).zip(batch).map(|(seq, time)| Entry::filler(seq, *time).stored(seq).into()).collect();
            log.append("live", head, [1; 16], &bodies).await.unwrap();
            head += batch.len() as u64;
        }
        for upto in [0, 1, 62, 63, 64, 65, 127, 128, 200, 300] {
            for at in -1..=510 {
                let scanned = times.iter().take(usize::try_from(upto).unwrap()).filter(|time| **time <= at).count();
                assert_eq!(log.last_at("live", upto, at).await.unwrap(), scanned as u64, "{at} of {upto} entries");
            }
        }
    }
}

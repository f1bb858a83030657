//! The counts of attempts, in rows beside the deliveries that they count.
//!
//! A row of the kind [`COUNTED`] counts attempts that one process has noted: of the deliveries of its partition, those
//! that began in one slot of five minutes. It has the whole counts, and one write stores it with the rows of the
//! deliveries, which are in the same partition. No attempt costs another request, and nothing needs a condition.
//! Readers add all rows.
//!
//! Writes that are under way at the same time have rows of their own. So a row never has the counts of deliveries whose
//! write has not succeeded, and after a crash the counts are those of the delivery log. A row whose write is in doubt
//! is the next to be written: without what the write has added, which the repeated report adds again.
//!
//! Two owners of a webhook that both send an attempt also both count it, although the delivery keeps one of them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use prost::Message as _;

use super::delivery_rows::{COUNTED, RETENTION_SECONDS, bucket_of, counts_version};
use crate::{
    domain::{
        attempt_counts::AttemptCounts,
        delivery::{Delivery, Status},
    },
    key,
    store::{Change, schema},
};

/// Maximum number of rows that are remembered. Then this process begins others.
const MAX_REMEMBERED: usize = 20_000;
/// Bytes that a write of deliveries leaves to the rows of counts beside it.
pub(super) const RESERVED_BYTES: usize = 1_024;

/// A webhook, the partition of its deliveries, and the slot in which their attempts began.
type CountKey = (String, i64, i64);

/// A row that this process writes.
#[derive(Default)]
struct OwnCounts {
    /// The counts whose writes have succeeded.
    counts: AttemptCounts,
    /// Number of writes: the version grows with each.
    writes: i64,
    is_being_written: bool,
    is_in_doubt: bool,
}

#[derive(Default)]
struct Remembered {
    /// Grows when rows are forgotten. It is part of the rows' ids, since a forgotten row is never written again.
    generation: u64,
    /// The rows of each key, by their number. A row is reused once its write has ended.
    rows: HashMap<CountKey, Vec<OwnCounts>>,
}

/// Counts on their way to the store. Dropping them ends their write.
pub(super) struct AddedCounts {
    remembered: Arc<Mutex<Remembered>>,
    generation: u64,
    /// What is added to each row.
    added: Vec<(CountKey, usize, AttemptCounts)>,
    is_written: bool,
}

impl AddedCounts {
    /// Notes that the write has succeeded.
    pub(super) fn confirm(mut self) {
        self.is_written = true;
    }
}

impl Drop for AddedCounts {
    fn drop(&mut self) {
        let mut remembered = self.remembered.lock();
        if remembered.generation != self.generation {
            return;
        }
        for (key, number, more) in &self.added {
            let Some(own) = remembered.rows.get_mut(key).and_then(|rows| rows.get_mut(*number)) else { continue };
            (own.is_being_written, own.is_in_doubt) = (false, !self.is_written);
            if self.is_written {
                own.counts.add(more);
            }
        }
    }
}

/// The counts of this process.
#[derive(Clone)]
pub(super) struct AttemptCounter {
    /// The name of this process in the rows; another one never has it.
    run: String,
    remembered: Arc<Mutex<Remembered>>,
}

impl AttemptCounter {
    pub(super) fn new(run: String) -> Self {
        Self { run, remembered: Arc::default() }
    }

    /// Counts what changes of deliveries add. Returns the rows to write with them.
    pub(super) fn add<'a>(
        &self,
        changes: impl Iterator<Item = (&'a Delivery, &'a Delivery)>,
        now_ms: i64,
    ) -> (Vec<Change>, AddedCounts) {
        let mut counts: HashMap<CountKey, AttemptCounts> = HashMap::new();
        for (before, after) in changes {
            if let Some((at, more)) = counts_of(before, after, now_ms) {
                let key = (after.webhook_id.clone(), bucket_of(after.created_at), bucket_of(at));
                counts.entry(key).or_default().add(&more);
            }
        }
        let mut remembered = self.remembered.lock();
        if remembered.rows.len() >= MAX_REMEMBERED {
            remembered.rows.clear();
            remembered.generation += 1;
        }
        let generation = remembered.generation;
        let (mut rows, mut added) = (Vec::new(), Vec::new());
        for (key, more) in counts {
            let of_key = remembered.rows.entry(key.clone()).or_default();
            let doubtful = of_key.iter().position(|own| own.is_in_doubt && !own.is_being_written);
            let free = doubtful.or_else(|| of_key.iter().position(|own| !own.is_being_written));
            let number = free.unwrap_or_else(|| {
                of_key.push(OwnCounts::default());
                of_key.len() - 1
            });
            let own = &mut of_key[number];
            own.is_being_written = true;
            own.writes += 1;
            let mut whole = own.counts.clone();
            whole.add(&more);
            let (webhook, bucket, slot) = &key;
            rows.push(Change {
                table: &schema::DELIVERY,
                key: key![webhook, *bucket, COUNTED, *slot, format!("{}_{generation}_{number}", self.run)],
                version: counts_version(*bucket, own.writes),
                body: Some(whole.encode_to_vec().into()),
                ttl: Some(RETENTION_SECONDS),
            });
            added.push((key, number, more));
        }
        drop(remembered);
        let remembered = Arc::clone(&self.remembered);
        (rows, AddedCounts { remembered, generation, added, is_written: false })
    }
}

/// What a change of a delivery adds to the counts, and the time that it belongs to; none if it adds nothing.
fn counts_of(before: &Delivery, after: &Delivery, now_ms: i64) -> Option<(i64, AttemptCounts)> {
    let mut counts = AttemptCounts::default();
    let attempt = after.attempts.last().filter(|_| after.attempts.len() > before.attempts.len());
    if let Some(attempt) = attempt {
        counts.add_attempt(attempt.has_succeeded(), attempt.response_status.map(|_| attempt.latency_ms));
    }
    let was_retrying = before.status() == Status::Retrying;
    counts.began_retrying = u64::from(!was_retrying && after.status() == Status::Retrying);
    counts.ended_retrying = u64::from(was_retrying && after.is_over());
    (counts != AttemptCounts::default()).then(|| (attempt.map_or(now_ms, |attempt| attempt.started_at), counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::delivery::Attempt;

    fn attempted(before: &Delivery, response_status: i32) -> Delivery {
        let (number, response_status) = (before.attempt_count() + 1, Some(response_status));
        before.after(Attempt { number, response_status, ..Attempt::default() }, 0)
    }

    /// The counts and the version of the one row.
    fn row((rows, _): &(Vec<Change>, AddedCounts)) -> (AttemptCounts, i64) {
        let [row] = rows.as_slice() else { panic!("{} rows", rows.len()) };
        (AttemptCounts::decode(row.body.clone().unwrap()).unwrap(), row.version)
    }

    #[test]
    fn a_failed_write_counts_nothing_and_versions_grow() {
        let counter = AttemptCounter::new("run".to_owned());
        let pending = Delivery { webhook_id: "wh_1".to_owned(), ..Delivery::default() };
        let failed = attempted(&pending, 500);
        let first = counter.add([(&pending, &failed)].into_iter(), 0);
        assert_eq!((row(&first).0.attempts, row(&first).1), (1, 1));
        drop(first);
        let again = counter.add([(&pending, &failed)].into_iter(), 0);
        let (counts, version) = row(&again);
        assert_eq!((counts.attempts, counts.successes, counts.began_retrying, version), (1, 0, 1, 2));
        again.1.confirm();
        let delivered = attempted(&failed, 200);
        let (counts, version) = row(&counter.add([(&failed, &delivered)].into_iter(), 0));
        assert_eq!((counts.attempts, counts.successes, counts.ended_retrying, version), (2, 1, 1, 3));
    }

    #[test]
    fn writes_at_the_same_time_have_rows_of_their_own() {
        let counter = AttemptCounter::new("run".to_owned());
        let pending = Delivery { webhook_id: "wh_1".to_owned(), ..Delivery::default() };
        let delivered = attempted(&pending, 200);
        let add = || counter.add([(&pending, &delivered)].into_iter(), 0);
        let written = |added: &(Vec<Change>, AddedCounts)| (added.0[0].key.clone(), row(added).0.attempts);
        let (first, second) = (add(), add());
        let ((first_key, first_attempts), (second_key, second_attempts)) = (written(&first), written(&second));
        assert_ne!(first_key, second_key);
        assert_eq!((first_attempts, second_attempts), (1, 1), "neither has the counts of the other");
        first.1.confirm();
        // This one fails, or its outcome is in doubt: its row is the next to be written, without its counts.
        drop(second);
        let third = add();
        assert_eq!(written(&third), (second_key, 1));
        assert_eq!(written(&add()), (first_key, 2));
    }

    #[test]
    fn a_cancelled_retry_ends_without_an_attempt() {
        let counter = AttemptCounter::new("run".to_owned());
        let retrying = attempted(&Delivery::default(), 500);
        let (counts, _) = row(&counter.add([(&retrying, &retrying.cancelled())].into_iter(), 0));
        assert_eq!((counts.attempts, counts.began_retrying, counts.ended_retrying), (0, 0, 1));
        let (rows, _) = counter.add([(&Delivery::default(), &Delivery::default().cancelled())].into_iter(), 0);
        assert!(rows.is_empty(), "it had no attempt");
    }
}

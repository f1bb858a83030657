//! The queues of due attempts: one for each webhook, in the partitions of its deliveries. The removed rows of a
//! partition go with its time, and one endpoint's million rows never come before another's.
//!
//! A queue row is a hint: the delivery decides. A mark says that a webhook has rows that are due from a minute on. A
//! core reads all marks when it takes a shard of webhooks over, and later the new ones. Marks that it postpones itself
//! are for the next core.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    delivery_buckets::{self, DeliveryBuckets},
    delivery_rows::{QUEUED, RETENTION_SECONDS, bucket_of, queue_key, queue_version},
    shard_of_name,
};
use crate::{
    domain::{
        delivery::Delivery,
        window::{HOUR_MS, MINUTE_MS},
    },
    key,
    store::{Change, Consistency, Row, Scan, SharedBackend, StoreResult, schema},
};

/// Webhooks are spread over this number of shards; a core hands out the attempts of its shards.
pub const SHARDS: i64 = 8;
/// Maximum number of marks in one read.
const MARKS_PAGE: usize = 10_000;
/// The body of a postponed mark. A new mark has no body, and a higher version.
const POSTPONED: &[u8] = b"put off";
/// Maximum number of marks remembered as stored.
const MAX_REMEMBERED_MARKS: usize = 20_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedAttempt {
    /// Time at which it is due, in unix milliseconds.
    pub due_at: i64,
    pub delivery: String,
}

/// A webhook that has rows due from a minute on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueMark {
    pub webhook: String,
    /// The minute, counted from 1970.
    pub since: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkSelection {
    /// Marks that were written with a queue row.
    New,
    /// These, and marks that a core postponed: it has their rows in memory, and only the next core needs them.
    All,
}

#[derive(Clone)]
pub struct DeliveryQueue {
    backend: SharedBackend,
    buckets: DeliveryBuckets,
    /// Recently stored marks, each with its own minute.
    written: Arc<Mutex<HashSet<(QueueMark, i64)>>>,
}

pub fn shard_of(webhook: &str) -> i64 {
    shard_of_name(webhook, SHARDS)
}

pub fn minute_of(at: i64) -> i64 {
    at.div_euclid(MINUTE_MS)
}

/// The start of a minute, in unix milliseconds.
pub fn start_of(minute: i64) -> i64 {
    minute * MINUTE_MS
}

/// The hour of a partition of marks.
fn hour_of(at: i64) -> i64 {
    at.div_euclid(HOUR_MS)
}

impl DeliveryQueue {
    pub(super) fn new(backend: SharedBackend, buckets: DeliveryBuckets) -> Self {
        Self { backend, buckets, written: Arc::default() }
    }

    /// Queues the next attempts of deliveries that have one, and makes the changes that belong to them. After an error
    /// a repeat is safe.
    pub(super) async fn enqueue(
        &self,
        deliveries: &[&Delivery],
        mut changes: Vec<Change>,
        now_ms: i64,
    ) -> StoreResult<()> {
        let mut marks = BTreeSet::new();
        for delivery in deliveries {
            let Some(due_at) = delivery.next_attempt_at else { continue };
            let webhook = &delivery.webhook_id;
            let (table, key, body) = (&schema::DELIVERY, queue_key(webhook, due_at, &delivery.id), Some(Bytes::new()));
            // The row is removed when its attempt is reported. It expires so that the file that has it can.
            changes.push(Change { table, key, version: queue_version(due_at), body, ttl: Some(RETENTION_SECONDS) });
            let mark = QueueMark { webhook: webhook.clone(), since: minute_of(due_at) };
            let minute = mark.since.max(minute_of(now_ms));
            marks.insert((mark, minute));
        }
        {
            let written = self.written.lock();
            marks.retain(|mark| !written.contains(mark));
        }
        let buckets = self.buckets.unnoted(&changes);
        changes.extend(marks.iter().map(|(mark, minute)| mark_change(mark, *minute, b"")));
        changes.extend(buckets.iter().map(delivery_buckets::note));
        if changes.is_empty() {
            return Ok(());
        }
        self.backend.apply(changes).await?;
        self.buckets.remember(buckets);
        // Marks are remembered only after the write: a failed or dropped write leaves its marks to the next one.
        let mut written = self.written.lock();
        if written.len() >= MAX_REMEMBERED_MARKS {
            written.clear();
        }
        written.extend(marks);
        Ok(())
    }

    /// The change that removes the row of a delivery's next attempt from its queue.
    pub(super) fn removal(delivery: &Delivery) -> Option<Change> {
        Some(removal(&delivery.webhook_id, delivery.next_attempt_at?, &delivery.id))
    }

    pub async fn remove(&self, webhook: &str, rows: &[QueuedAttempt]) -> StoreResult<()> {
        let removals = rows.iter().map(|row| removal(webhook, row.due_at, &row.delivery));
        self.backend.apply(removals.collect()).await
    }

    /// Reads the rows of a webhook after a position and up to a time, earliest first.
    pub async fn read(
        &self,
        webhook: &str,
        after: &(i64, String),
        to_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<QueuedAttempt>> {
        let mut found = Vec::new();
        for bucket in self.buckets.between(webhook, bucket_of(after.0), bucket_of(to_ms)).await? {
            let mut scan = Scan::all(&schema::DELIVERY, key![webhook, bucket], limit - found.len());
            scan.from = Bound::Excluded(key![QUEUED, after.0, &after.1]);
            scan.to = Bound::Included(key![QUEUED, to_ms]);
            for row in self.backend.scan(&scan).await? {
                if let [_, due_at, delivery] = row.clustering.as_slice() {
                    found.push(QueuedAttempt { due_at: due_at.int(), delivery: delivery.text().to_owned() });
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// Reads the marks of a shard in the hour of `minute`, from that minute up to `to`.
    pub async fn marks(&self, shard: i64, minute: i64, to: i64, wanted: MarkSelection) -> StoreResult<Vec<QueueMark>> {
        let mut marks = Vec::new();
        let mut scan = Scan::all(&schema::QUEUE_MARK, key![shard, hour_of(start_of(minute))], MARKS_PAGE);
        scan.from = Bound::Included(key![minute]);
        scan.to = Bound::Included(key![to]);
        loop {
            let rows = self.backend.scan(&scan).await?;
            let is_wanted = |row: &&Row| wanted == MarkSelection::All || row.body != POSTPONED;
            marks.extend(rows.iter().filter(is_wanted).filter_map(|row| match row.clustering.as_slice() {
                [_, webhook, since] => Some(QueueMark { webhook: webhook.text().to_owned(), since: since.int() }),
                _ => None,
            }));
            match rows.last() {
                Some(last) if rows.len() == MARKS_PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => return Ok(marks),
            }
        }
    }

    pub async fn postpone_marks(&self, marks: &[QueueMark], minute: i64) -> StoreResult<()> {
        self.backend.apply(marks.iter().map(|mark| mark_change(mark, minute, POSTPONED)).collect()).await
    }

    /// Reads the last minute of a shard whose marks need no reading; none before the first [`Self::set_done`].
    pub async fn done(&self, shard: i64) -> StoreResult<Option<i64>> {
        let row = self.backend.get(&schema::QUEUE_DONE, &key![shard], Consistency::Quorum).await?;
        Ok(row.map(|row| row.version))
    }

    /// Stores that the marks of a shard's minutes up to this one need no reading.
    pub async fn set_done(&self, shard: i64, minute: i64) -> StoreResult<()> {
        let (table, body) = (&schema::QUEUE_DONE, Some(Bytes::new()));
        self.backend.apply(vec![Change { table, key: key![shard], version: minute, body, ttl: None }]).await
    }
}

/// The change that removes a row, with a version above the version of its write.
fn removal(webhook: &str, due_at: i64, delivery: &str) -> Change {
    let key = queue_key(webhook, due_at, delivery);
    Change { table: &schema::DELIVERY, key, version: queue_version(due_at) + 1, body: None, ttl: None }
}

fn mark_change(mark: &QueueMark, minute: i64, body: &'static [u8]) -> Change {
    let key = key![shard_of(&mark.webhook), hour_of(start_of(minute)), minute, &mark.webhook, mark.since];
    let (version, body) = (2 * minute + i64::from(body.is_empty()), Some(Bytes::from_static(body)));
    Change { table: &schema::QUEUE_MARK, key, version, body, ttl: Some(RETENTION_SECONDS) }
}

#[cfg(test)]
mod tests;

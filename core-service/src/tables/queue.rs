//! The queues of due attempts: one for each webhook, in partitions of an hour, so that what was taken out of them goes
//! with its hour, and one endpoint's million rows never come before another's.
//!
//! A queue row is a hint: the delivery decides. A mark says that a webhook has rows that are due from a minute on. A core
//! reads all marks when it takes a shard of webhooks over, and later the new ones. Marks that it puts off itself are for
//! the next core.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::spread;
use super::told::{KEPT, told, told_body};
use crate::{
    domain::{
        delivery::{Delivery, EventRef},
        window::{HOUR_MS, MINUTE_MS},
    },
    key,
    store::{Change, Consistency, Row, Scan, SharedBackend, StoreResult, schema},
};

/// Number of shards that webhooks are spread over; a core hands out the attempts of its shards.
pub const SHARDS: i64 = 8;
/// Most marks read at once.
const MARKS: usize = 10_000;
/// The body of a mark that was put off. A new mark has none, and a higher version.
const PUT_OFF: &[u8] = b"put off";
/// Most marks remembered as stored.
const REMEMBERED: usize = 20_000;

/// An attempt, as its queue row says.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    /// When it is due, in unix milliseconds.
    pub due_at: i64,
    /// The delivery.
    pub delivery: String,
    /// The delivery's event, before its first attempt.
    pub told: Option<EventRef>,
}

/// A webhook that has rows due from a minute on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// The webhook.
    pub webhook: String,
    /// The minute, counted from 1970.
    pub since: i64,
}

/// Which marks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Marks that were written with a queue row.
    New,
    /// These, and marks that a core put off: it has their rows in memory, and only the next core needs them.
    All,
}

/// The queues.
#[derive(Clone)]
pub struct DeliveryQueue {
    backend: SharedBackend,
    /// Marks that were stored lately, each with its own minute.
    written: Arc<Mutex<HashSet<(Mark, i64)>>>,
}

/// The shard of a webhook.
#[must_use]
pub fn shard_of(webhook: &str) -> i64 {
    spread(webhook, SHARDS)
}

/// The minute in which a time lies.
#[must_use]
pub fn minute_of(at: i64) -> i64 {
    at.div_euclid(MINUTE_MS)
}

/// When a minute begins.
#[must_use]
pub fn first_of(minute: i64) -> i64 {
    minute * MINUTE_MS
}

/// The hour of a partition.
fn hour_of(at: i64) -> i64 {
    at.div_euclid(HOUR_MS)
}

impl DeliveryQueue {
    /// The queues of this backend.
    #[must_use]
    pub fn new(backend: SharedBackend) -> Self {
        Self { backend, written: Arc::default() }
    }

    /// Queues the next attempts of deliveries that have one, and makes the changes that belong to them.
    ///
    /// # Errors
    /// When the store does not answer; doing it again is safe.
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
            let body = if delivery.attempts.is_empty() { told_body(delivery) } else { Bytes::new() };
            let key = key![webhook, hour_of(due_at), due_at, &delivery.id];
            // It needs no time of expiry: it is taken out when its attempt is reported, or when its webhook is gone.
            changes.push(Change { table: &schema::DELIVERY_QUEUE, key, version: due_at, body: Some(body), ttl: None });
            let mark = Mark { webhook: webhook.clone(), since: minute_of(due_at) };
            let minute = mark.since.max(minute_of(now_ms));
            marks.insert((mark, minute));
        }
        {
            let written = self.written.lock();
            marks.retain(|mark| !written.contains(mark));
        }
        changes.extend(marks.iter().map(|(mark, minute)| mark_change(mark, *minute, b"")));
        if changes.is_empty() {
            return Ok(());
        }
        self.backend.apply(changes).await?;
        // Only now: a write that fails or is dropped leaves its marks to the next one.
        let mut written = self.written.lock();
        if written.len() >= REMEMBERED {
            written.clear();
        }
        written.extend(marks);
        Ok(())
    }

    /// Takes the row of a delivery's next attempt out of its queue.
    pub(super) fn removal(delivery: &Delivery) -> Option<Change> {
        Some(removal(&delivery.webhook_id, delivery.next_attempt_at?, &delivery.id))
    }

    /// Takes rows out of a webhook's queue.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn remove(&self, webhook: &str, rows: &[Queued]) -> StoreResult<()> {
        let removals = rows.iter().map(|row| removal(webhook, row.due_at, &row.delivery));
        self.backend.apply(removals.collect()).await
    }

    /// The rows of a webhook after a place and up to a time, earliest first.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn read(
        &self,
        webhook: &str,
        after: &(i64, String),
        to_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<Queued>> {
        let mut found = Vec::new();
        for hour in hour_of(after.0)..=hour_of(to_ms) {
            let mut scan = Scan::all(&schema::DELIVERY_QUEUE, key![webhook, hour], limit - found.len());
            scan.from = Bound::Excluded(key![after.0, &after.1]);
            scan.to = Bound::Included(key![to_ms]);
            for row in self.backend.scan(&scan).await? {
                if let [due_at, delivery] = row.clustering.as_slice() {
                    let (due_at, delivery) = (due_at.int(), delivery.text().to_owned());
                    found.push(Queued { due_at, delivery, told: told(row.body)? });
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// The marks of a shard in the hour of `minute`, from that minute up to `to`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn marks(&self, shard: i64, minute: i64, to: i64, wanted: Marks) -> StoreResult<Vec<Mark>> {
        let mut marks = Vec::new();
        let mut scan = Scan::all(&schema::QUEUE_MARK, key![shard, hour_of(first_of(minute))], MARKS);
        scan.from = Bound::Included(key![minute]);
        scan.to = Bound::Included(key![to]);
        loop {
            let rows = self.backend.scan(&scan).await?;
            let is_wanted = |row: &&Row| wanted == Marks::All || row.body != PUT_OFF;
            marks.extend(rows.iter().filter(is_wanted).filter_map(|row| match row.clustering.as_slice() {
                [_, webhook, since] => Some(Mark { webhook: webhook.text().to_owned(), since: since.int() }),
                _ => None,
            }));
            match rows.last() {
                Some(last) if rows.len() == MARKS => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => return Ok(marks),
            }
        }
    }

    /// Puts marks off to a later minute.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn put_off(&self, marks: &[Mark], minute: i64) -> StoreResult<()> {
        self.backend.apply(marks.iter().map(|mark| mark_change(mark, minute, PUT_OFF)).collect()).await
    }

    /// The last minute of a shard whose marks need no reading; none when none was noted yet.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn done(&self, shard: i64) -> StoreResult<Option<i64>> {
        let row = self.backend.get(&schema::QUEUE_DONE, &key![shard], Consistency::Quorum).await?;
        Ok(row.map(|row| row.version))
    }

    /// Notes that the marks of a shard's minutes up to this one need no reading.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn set_done(&self, shard: i64, minute: i64) -> StoreResult<()> {
        let (table, body) = (&schema::QUEUE_DONE, Some(Bytes::new()));
        self.backend.apply(vec![Change { table, key: key![shard], version: minute, body, ttl: None }]).await
    }
}

/// Removes a row, with a version above the one that it was written with.
fn removal(webhook: &str, due_at: i64, delivery: &str) -> Change {
    let key = key![webhook, hour_of(due_at), due_at, delivery];
    Change { table: &schema::DELIVERY_QUEUE, key, version: due_at + 1, body: None, ttl: None }
}

fn mark_change(mark: &Mark, minute: i64, body: &'static [u8]) -> Change {
    let key = key![shard_of(&mark.webhook), hour_of(first_of(minute)), minute, &mark.webhook, mark.since];
    let (version, body) = (2 * minute + i64::from(body.is_empty()), Some(Bytes::from_static(body)));
    Change { table: &schema::QUEUE_MARK, key, version, body, ttl: Some(KEPT) }
}

#[cfg(test)]
mod tests;

//! Deliveries and their due attempts, and the failures of webhooks in a row.
//!
//! A delivery is one row, from its creation to its end. A second row in the same partition queues its first attempt.
//! The usual delivery costs two requests of a cluster: both rows are created by one write, and the report of the
//! attempt stores the new state and removes the queued attempt by one write. The first one of a webhook in some minutes
//! also costs a mark and the note of its partition. A retry is queued before, in the partition of its time. No write
//! has a condition.
//!
//! # Why plain writes are safe
//!
//! The core that holds the lease of a webhook's shard owns its attempts. Each time the lease goes to another core, its
//! epoch grows (`tables/leases.rs`, the only condition). The owner changes a delivery only on a state that it read, or
//! was given by fan-out, under its epoch, and an attempt keeps the epoch under which it was handed out. Of the versions
//! of a row (`tables/delivery_rows.rs`) a success is the highest, then the one with the higher epoch. The highest
//! version stays, in any order of arrival.
//!
//! - A success stays, whoever writes it. If the owner did not know of it, it may have sent the attempt again and queued
//!   a retry. The delivery does not expect that retry, so it is not sent.
//! - Two owners: a core that was paused does not know that its lease has ended. A failure that it writes late has its
//!   old epoch, so it never replaces what its successor wrote. Both may send an attempt; of two failures the row has
//!   the successor's. If the successor has written nothing yet, it reads the late outcome, or replaces it by its own.
//! - Under one epoch a delivery has one writer: the owner neither cancels nor sends a delivery while an attempt of it
//!   is out, and every core counts one report of an attempt at a time. Should an attempt be handed out twice and both
//!   be reported, an end beats a retry, and of two retries one state stays.
//! - A report of an attempt that is not out at the core that receives it (it came late, or to another core) is counted
//!   on the stored state, if that expects the attempt. The owner writes it under its epoch. Another core keeps the
//!   epoch of the stored row, so its failure never replaces what an owner has written under a later epoch. Under the
//!   same epoch an end beats a retry, and of two retries one state stays.
//! - A repeated report finds the attempt counted and changes nothing. If its first write failed or is in doubt, it
//!   writes the same row again, with the same times. A report that is repeated half a minute later takes new times.
//! - A lost report: the owner hands the attempt out again, and the next report counts.
//! - A crash between writes: the next attempt is queued before the row expects it, and the old one is removed with or
//!   after the row's change. A queued attempt is removed when it is due and read and its delivery is over or expects a
//!   later one. It stays while the delivery expects an earlier one: a core may stand still between the two writes of a
//!   report for longer than the retry is away, and a removal outlasts a repeated write of the queued attempt. The owner
//!   also removes nothing while an attempt of the delivery is out or its report is being counted. So a row that expects
//!   an attempt has it in its queue.
//! - A restart: the embedded store has one process and needs no epoch. Reports are durable when they are answered.
//! - Fan-out that repeats a creation writes the epoch 0, which changes no row that an owner has written.
//! - The counts of attempts are written with the deliveries that they count (`tables/attempt_counts.rs`).

mod insight;

use std::{collections::HashMap, mem, ops::Bound, sync::Arc};

use futures::future::join_all;
use prost::Message as _;
use quick_cache::sync::Cache;

pub use self::insight::AttemptTotals;
use super::{
    attempt_counts::{AttemptCounter, RESERVED_BYTES},
    delivery_buckets::DeliveryBuckets,
    delivery_rows::{self, LOGGED, RETENTION_SECONDS, bucket_of},
    queue::DeliveryQueue,
    read_message, replace_row,
};
use crate::{
    domain::{
        delivery::{Delivery, Streak},
        window::DAY_MS,
    },
    key,
    store::{Change, Consistency, MAX_ATOMIC_BYTES, Row, Scan, SharedBackend, StoreResult, schema},
};

/// Maximum number of deliveries of one webhook created concurrently on a cluster. No client waits for them, and
/// requests need the capacity.
const CREATE_BATCH: usize = 64;
/// Number of buckets that one read of their index returns for a page of deliveries.
const BUCKETS_PAGE: usize = 64;
/// Number of a quiet webhook's buckets that are read at the same time.
const PARALLEL_BUCKETS: usize = 16;
/// Maximum number of webhooks whose counts stay in memory.
const MAX_TOTALS: usize = 1_000;

/// Start position of the next page of a delivery log.
pub type LogPosition = (i64, String);

#[derive(Clone)]
pub struct DeliveryStore {
    backend: SharedBackend,
    buckets: DeliveryBuckets,
    counter: AttemptCounter,
    /// The counts of webhooks that were read lately, each with the time of the read.
    totals: Arc<Cache<String, (i64, Arc<AttemptTotals>)>>,
    pub queue: DeliveryQueue,
}

/// The change of a delivery by an attempt, or when it is given up.
#[derive(Clone, Debug)]
pub struct DeliveryChange {
    pub before: Delivery,
    pub after: Delivery,
    /// The epoch under which `before` was read; see above.
    pub epoch: i64,
}

/// Writes of one partition that go to the store together.
#[derive(Default)]
struct ChangeGroup {
    /// Indexes of the changes.
    members: Vec<usize>,
    writes: Vec<Change>,
    /// Removals in other partitions. They only follow the writes, since they are not atomic with them.
    removals: Vec<Change>,
    bytes: usize,
}

impl DeliveryStore {
    /// `run` is a name that no other process has; its counts have it.
    pub fn new(backend: SharedBackend, run: String) -> Self {
        let buckets = DeliveryBuckets::new(backend.clone());
        let queue = DeliveryQueue::new(backend.clone(), buckets.clone());
        let totals = Arc::new(Cache::new(MAX_TOTALS));
        Self { queue, counter: AttemptCounter::new(run), totals, buckets, backend }
    }

    pub async fn get(&self, id: &str) -> StoreResult<Option<Delivery>> {
        Ok(self.get_with_epoch(id).await?.map(|(delivery, _)| delivery))
    }

    /// Reads a delivery, and the epoch under which it was written.
    pub async fn get_with_epoch(&self, id: &str) -> StoreResult<Option<(Delivery, i64)>> {
        let row = self.backend.get(&schema::DELIVERY, &delivery_rows::key_of(id), Consistency::Quorum).await?;
        row.map(|row| Ok((delivery_rows::decode_by_id(id, row.body)?, delivery_rows::epoch_of(row.version))))
            .transpose()
    }

    /// Reads deliveries by id, in the same order. None where there is none, an error where its row is damaged.
    pub async fn rows(&self, ids: &[String]) -> StoreResult<Vec<StoreResult<Option<Delivery>>>> {
        let keys: Vec<_> = ids.iter().map(|id| delivery_rows::key_of(id)).collect();
        let rows = self.backend.get_many(&schema::DELIVERY, &keys).await?;
        let decode =
            |(id, row): (&String, Option<Row>)| row.map(|row| delivery_rows::decode_by_id(id, row.body)).transpose();
        Ok(ids.iter().zip(rows).map(decode).collect())
    }

    /// Creates deliveries and queues their first attempts. A repeat is safe.
    pub async fn create(&self, deliveries: &[&Delivery], now_ms: i64) -> StoreResult<()> {
        let batch_size = if self.backend.is_exclusive() { deliveries.len() } else { CREATE_BATCH };
        for batch in deliveries.chunks(batch_size.max(1)) {
            let rows = batch.iter().map(|delivery| delivery_rows::put(delivery, 0)).collect();
            self.queue.enqueue(batch, rows, now_ms).await?;
        }
        if deliveries.iter().any(|delivery| delivery.is_requested()) {
            // Nothing brings such a delivery back but its rows: no fan-out creates it.
            self.backend.sync().await?;
        }
        Ok(())
    }

    /// Stores the changes of deliveries, and moves the deliveries in their queues. Returns the outcome of each change.
    /// A row that a later owner has written stays. After an error a repeat is safe.
    pub async fn advance(&self, changes: &[DeliveryChange], now_ms: i64) -> StoreResult<Vec<StoreResult<()>>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let mut outcomes: Vec<StoreResult<()>> = changes.iter().map(|_| Ok(())).collect();
        let writes = groups(changes).into_iter().map(async |ChangeGroup { members, mut writes, removals, .. }| {
            let after: Vec<&Delivery> = members.iter().map(|index| &changes[*index].after).collect();
            let counted = members.iter().map(|index| (&changes[*index].before, &changes[*index].after));
            let (rows, added) = self.counter.add(counted, now_ms);
            writes.extend(rows);
            let written = self.write(&after, writes, removals, now_ms).await;
            if written.is_ok() {
                added.confirm();
            }
            (members, written)
        });
        for (members, written) in join_all(writes).await {
            if let Err(error) = written {
                members.into_iter().for_each(|index| outcomes[index] = Err(error.clone()));
            }
        }
        self.backend.sync().await?;
        Ok(outcomes)
    }

    /// Queues the next attempts of a group's deliveries, then makes its writes and then its removals.
    async fn write(
        &self,
        after: &[&Delivery],
        writes: Vec<Change>,
        removals: Vec<Change>,
        now_ms: i64,
    ) -> StoreResult<()> {
        self.queue.enqueue(after, Vec::new(), now_ms).await?;
        self.backend.apply(writes).await?;
        if !removals.is_empty() {
            self.backend.apply(removals).await?;
        }
        Ok(())
    }

    /// Counts the outcomes of a webhook's attempts, in this order. Returns the new streak of failures.
    pub async fn note_outcomes(&self, webhook: &str, succeeded: &[bool], now_ms: i64) -> StoreResult<Streak> {
        let mut consistency = Consistency::Quorum;
        loop {
            let (backend, table) = (&self.backend, &schema::WEBHOOK_STREAK);
            let row = read_message(backend, table, &key![webhook], consistency, "streak").await?;
            let (version, before) = row.map_or((None, Streak::default()), |(version, streak)| (Some(version), streak));
            let noted =
                |streak: Streak, succeeded: &bool| if *succeeded { Streak::default() } else { streak.longer(now_ms) };
            let after = succeeded.iter().fold(before, noted);
            if after == before {
                return Ok(after);
            }
            let (body, ttl) = (after.encode_to_vec().into(), Some(RETENTION_SECONDS));
            if replace_row(backend, table, key![webhook], version, body, ttl).await? {
                return Ok(after);
            }
            // Another report came between.
            consistency = Consistency::Serial;
        }
    }

    /// Reads a page of a webhook's deliveries, newest first, each with its position. They end at their retention time.
    /// A damaged row has a position alone.
    pub async fn page(
        &self,
        webhook: &str,
        after: Option<&LogPosition>,
        now_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<(LogPosition, Option<Delivery>)>> {
        let oldest = bucket_of(now_ms - i64::from(RETENTION_SECONDS) * 1_000);
        let mut newest = bucket_of(after.map_or(now_ms + DAY_MS, |(at, _)| *at));
        let mut found = Vec::new();
        // The newest bucket of a busy webhook is enough.
        let mut parallel = 1;
        loop {
            let buckets = self.buckets.newest(webhook, oldest, newest, BUCKETS_PAGE).await?;
            let mut unread = buckets.as_slice();
            while found.len() < limit && !unread.is_empty() {
                let (read, later) = unread.split_at(parallel.min(unread.len()));
                let rows = read.iter().map(|bucket| self.bucket(webhook, *bucket, after, limit - found.len()));
                for rows in join_all(rows).await {
                    found.extend(rows?);
                }
                (unread, parallel) = (later, PARALLEL_BUCKETS);
            }
            match buckets.last() {
                Some(last) if found.len() < limit && buckets.len() == BUCKETS_PAGE => newest = last - 1,
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Reads the deliveries of one bucket, newest first.
    async fn bucket(
        &self,
        webhook: &str,
        bucket: i64,
        after: Option<&LogPosition>,
        limit: usize,
    ) -> StoreResult<Vec<(LogPosition, Option<Delivery>)>> {
        let mut scan = Scan::all(&schema::DELIVERY, key![webhook, bucket], limit);
        scan.reverse = true;
        scan.from = Bound::Included(key![LOGGED]);
        if let Some((at, id)) = after {
            scan.to = Bound::Excluded(key![LOGGED, *at, id]);
        }
        let mut found = Vec::new();
        for row in self.backend.scan(&scan).await? {
            if let [_, at, id] = row.clustering.as_slice() {
                let (at, id) = (at.int(), id.text().to_owned());
                let delivery = delivery_rows::decode(webhook, at, &id, row.body)
                    .inspect_err(|error| tracing::error!(id, %error, "a delivery cannot be read and is left out"));
                found.push(((at, id), delivery.ok()));
            }
        }
        Ok(found)
    }
}

/// Groups the writes of changes by partition, each group small enough to be atomic. A removal goes with its delivery's
/// row if both are in one partition, and otherwise follows it.
fn groups(changes: &[DeliveryChange]) -> Vec<ChangeGroup> {
    let mut full = Vec::new();
    let mut open: HashMap<(&str, i64), ChangeGroup> = HashMap::new();
    for (index, DeliveryChange { before, after, epoch }) in changes.iter().enumerate() {
        let row = delivery_rows::put(after, *epoch);
        // Twice the 64 bytes of a change: the removal may be beside it.
        let bytes = 128 + row.body.as_ref().map_or(0, bytes::Bytes::len);
        let group = open.entry((after.webhook_id.as_str(), bucket_of(after.created_at))).or_default();
        if !group.members.is_empty() && group.bytes + bytes + RESERVED_BYTES > MAX_ATOMIC_BYTES {
            full.push(mem::take(group));
        }
        group.members.push(index);
        group.bytes += bytes;
        if let Some(removal) = DeliveryQueue::removal(before) {
            let is_beside = removal.key[..2] == row.key[..2] && bytes <= MAX_ATOMIC_BYTES;
            let removals = if is_beside { &mut group.writes } else { &mut group.removals };
            removals.push(removal);
        }
        group.writes.push(row);
    }
    full.extend(open.into_values());
    full
}

#[cfg(test)]
mod tests;

//! Deliveries, their log by webhook, and the failures of webhooks in a row.
//!
//! A delivery is created by plain writes: a row in the log and one in the queue. A conditional write creates its own
//! row when its first attempt ends. Each later attempt is stored only if the row has the expected number of attempts.
//! Until the first attempt ends, the log row represents the delivery. Tests and replays have their own row from the
//! beginning, since it holds the body that they send.

use std::ops::Bound;

use futures::future::join_all;
use prost::Message as _;

use super::{
    decode_message,
    delivery_event::{RETENTION_SECONDS, decode_event, encode_event},
    queue::DeliveryQueue,
    read_message, replace_row,
};
use crate::{
    domain::{
        delivery::{Delivery, EventRef, Streak, parse_delivery_id},
        window::DAY_MS,
    },
    key,
    store::{
        Change, ConditionalWrite, Consistency, Expect, Row, Scan, SharedBackend, StoreResult, Transaction, schema,
    },
};

/// Width of the delivery log's buckets.
const MONTH_MS: i64 = 30 * DAY_MS;
/// Maximum number of deliveries of one webhook created concurrently on a cluster. No client waits for them, and
/// requests need the capacity.
const CREATE_BATCH: usize = 64;

/// Start position of the next page of a delivery log.
pub type LogPosition = (i64, String);

#[derive(Clone)]
pub struct DeliveryStore {
    backend: SharedBackend,
    pub queue: DeliveryQueue,
}

/// The change of a delivery by an attempt, or when it is given up.
#[derive(Clone, Debug)]
pub struct DeliveryChange {
    pub before: Delivery,
    pub after: Delivery,
}

fn decode(row: &Row) -> StoreResult<Delivery> {
    decode_message(row.body.clone(), "delivery")
}

fn log_key(webhook: &str, created_at: i64, id: &str) -> Vec<crate::store::Value> {
    key![webhook, created_at.div_euclid(MONTH_MS), created_at, id]
}

impl DeliveryStore {
    pub fn new(backend: SharedBackend) -> Self {
        Self { queue: DeliveryQueue::new(backend.clone()), backend }
    }

    pub async fn get(&self, id: &str) -> StoreResult<Option<Delivery>> {
        if let Some(row) = self.backend.get(&schema::DELIVERY, &key![id], Consistency::Quorum).await? {
            return decode(&row).map(Some);
        }
        let Some((webhook, created_at)) = parse_delivery_id(id) else { return Ok(None) };
        let key = log_key(&webhook, created_at, id);
        let Some(row) = self.backend.get(&schema::DELIVERY_LOG, &key, Consistency::Quorum).await? else {
            return Ok(None);
        };
        Ok(decode_event(row.body)?.map(|event| Delivery::pending(id.to_owned(), webhook, created_at, event)))
    }

    /// Reads the rows of deliveries by id, in the same order. None where no attempt has ended yet, an error where a row
    /// is damaged.
    pub async fn rows(&self, ids: &[String]) -> StoreResult<Vec<StoreResult<Option<Delivery>>>> {
        let keys: Vec<_> = ids.iter().map(|id| key![id]).collect();
        let rows = self.backend.get_many(&schema::DELIVERY, &keys).await?;
        Ok(rows.iter().map(|row| row.as_ref().map(decode).transpose()).collect())
    }

    /// Writes a delivery's own row if it is as expected, and then the changes that belong to it.
    async fn write(&self, delivery: &Delivery, expect: Expect, beside: Vec<Change>) -> StoreResult<bool> {
        let write = ConditionalWrite {
            clustering: Vec::new(),
            expect,
            version: i64::from(delivery.attempt_count()) + i64::from(delivery.is_over()) * 1_000,
            body: Some(delivery.encode_to_vec().into()),
        };
        let partition = key![&delivery.id];
        let transaction =
            Transaction { table: &schema::DELIVERY, partition, writes: vec![write], ttl: Some(RETENTION_SECONDS) };
        self.backend.transact_with(transaction, beside).await
    }

    /// Creates deliveries and queues their first attempts. A repeat is safe.
    pub async fn create(&self, deliveries: &[&Delivery], now_ms: i64) -> StoreResult<()> {
        let batch_size = if self.backend.is_exclusive() { deliveries.len() } else { CREATE_BATCH };
        for batch in deliveries.chunks(batch_size.max(1)) {
            // The write returns false if an earlier call has created the row.
            let own = batch.iter().filter(|delivery| delivery.has_row());
            for written in join_all(own.map(|delivery| self.write(delivery, Expect::Absent, Vec::new()))).await {
                written?;
            }
            let mut changes = Vec::with_capacity(batch.len() * 2 + 1);
            for delivery in batch {
                let key = log_key(&delivery.webhook_id, delivery.created_at, &delivery.id);
                let (table, body) = (&schema::DELIVERY_LOG, Some(encode_event(delivery)));
                // With a version that grows with time, the store can drop expired rows.
                changes.push(Change { table, key, version: delivery.created_at, body, ttl: Some(RETENTION_SECONDS) });
            }
            self.queue.enqueue(batch, changes, now_ms).await?;
        }
        if deliveries.iter().any(|delivery| delivery.has_row()) {
            // Nothing brings such a delivery back but its queue row: no log has an event for it.
            self.backend.sync().await?;
        }
        Ok(())
    }

    /// Stores the changes of deliveries, each only if its row is still as before, and moves the deliveries in their
    /// queues. The next attempts are queued first and the old ones removed last, so a crash in between leaves a queue
    /// row too many. Returns for each change whether it was stored. After an error a repeat is safe.
    pub async fn advance(&self, changes: &[DeliveryChange], now_ms: i64) -> StoreResult<Vec<StoreResult<bool>>> {
        let after: Vec<&Delivery> = changes.iter().map(|change| &change.after).collect();
        self.queue.enqueue(&after, Vec::new(), now_ms).await?;
        let writes = changes.iter().map(|DeliveryChange { before, after }| {
            let attempts = i64::from(before.attempt_count());
            let expect = if before.has_row() { Expect::Version(attempts) } else { Expect::Absent };
            self.write(after, expect, DeliveryQueue::removal(before).into_iter().collect())
        });
        Ok(join_all(writes).await)
    }

    /// Counts the outcomes of a webhook's attempts, in this order. Returns the new streak of failures.
    pub async fn note(&self, webhook: &str, succeeded: &[bool], now_ms: i64) -> StoreResult<Streak> {
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

    /// Reads a page of a webhook's delivery log, newest first, each delivery with its position. The log ends at the
    /// retention time of deliveries.
    pub async fn page(
        &self,
        webhook: &str,
        after: Option<&LogPosition>,
        now_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<(LogPosition, Delivery)>> {
        let newest = after.map_or(now_ms + DAY_MS, |(at, _)| *at).div_euclid(MONTH_MS);
        let oldest = (now_ms - i64::from(RETENTION_SECONDS) * 1_000).div_euclid(MONTH_MS);
        let mut found: Vec<(i64, String, Option<EventRef>)> = Vec::new();
        for month in (oldest..=newest).rev() {
            let mut scan = Scan::all(&schema::DELIVERY_LOG, key![webhook, month], limit - found.len());
            scan.reverse = true;
            if let Some((at, id)) = after {
                scan.to = Bound::Excluded(key![*at, id]);
            }
            for row in self.backend.scan(&scan).await? {
                if let [at, id] = row.clustering.as_slice() {
                    found.push((at.int(), id.text().to_owned(), decode_event(row.body)?));
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        let ids: Vec<String> = found.iter().map(|(_, id, _)| id.clone()).collect();
        let rows = self.rows(&ids).await?.into_iter().collect::<StoreResult<Vec<_>>>()?;
        let joined = found.into_iter().zip(rows).filter_map(|((at, id, event), row)| {
            let pending = || event.map(|event| Delivery::pending(id.clone(), webhook.to_owned(), at, event));
            Some(((at, id.clone()), row.or_else(pending)?))
        });
        Ok(joined.collect())
    }
}

//! Deliveries, their log by webhook, and the queues of due attempts.
//!
//! A queue row is a hint: the delivery decides. Each endpoint has its own partition, so that its million due rows never
//! come before another's.

use std::ops::Bound;

use bytes::Bytes;
use prost::Message as _;

use crate::{
    domain::{
        delivery::{Delivery, Streak},
        window::{DAY_MS, MINUTE_MS},
    },
    key,
    store::{
        Change, ConditionalWrite, Consistency, Expect, Row, Scan, SharedBackend, StoreError, StoreResult, Transaction,
        schema,
    },
};

/// Number of shards that webhooks are spread over; a replica hands out the attempts of its shards.
pub const SHARDS: i64 = 8;
/// Seconds for which deliveries are kept.
const KEPT: u32 = 90 * 86_400;
/// Width of the delivery log's buckets.
const MONTH_MS: i64 = 30 * DAY_MS;
/// Most deliveries created at once on a cluster; each makes up to three requests at once there.
const CREATED_AT_ONCE: usize = 8;
/// Most webhooks read of one minute.
const READY_ROWS: usize = 100_000;

/// An attempt, as its queue row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// When it is due, or a minute before it was queued if that is later: a new row is never far in the past.
    pub due_at: i64,
    /// The delivery.
    pub delivery: String,
}

/// Where the next page of a delivery log starts.
pub type LogPosition = (i64, String);

/// Deliveries and queues.
#[derive(Clone)]
pub struct DeliveryStore {
    backend: SharedBackend,
}

/// The shard of a webhook.
#[must_use]
pub fn shard_of(webhook: &str) -> i64 {
    webhook.bytes().fold(11, |sum, byte| (sum * 31 + i64::from(byte)) % SHARDS)
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

fn decode(row: &Row) -> StoreResult<Delivery> {
    Delivery::decode(row.body.clone()).map_err(|error| StoreError::Damaged(format!("delivery: {error}")))
}

fn hint(
    table: &'static crate::store::Table,
    key: Vec<crate::store::Value>,
    version: i64,
    body: Option<Bytes>,
) -> Change {
    Change { table, key, version, body, ttl: Some(KEPT) }
}

impl DeliveryStore {
    /// Deliveries of this backend.
    #[must_use]
    pub fn new(backend: SharedBackend) -> Self {
        Self { backend }
    }

    /// Reads a delivery.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn get(&self, id: &str) -> StoreResult<Option<Delivery>> {
        let row = self.backend.get(&schema::DELIVERY, &key![id], Consistency::Quorum).await?;
        row.as_ref().map(decode).transpose()
    }

    /// Reads deliveries by id, in the order asked.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn get_many(&self, ids: &[String]) -> StoreResult<Vec<Option<Delivery>>> {
        let keys: Vec<_> = ids.iter().map(|id| key![id]).collect();
        let rows = self.backend.get_many(&schema::DELIVERY, &keys).await?;
        rows.iter().map(|row| row.as_ref().map(decode).transpose()).collect()
    }

    async fn write(&self, delivery: &Delivery, expect: Expect) -> StoreResult<bool> {
        let write = ConditionalWrite {
            clustering: Vec::new(),
            expect,
            version: i64::from(delivery.attempts_made()) + i64::from(delivery.is_over()) * 1_000,
            body: Some(delivery.encode_to_vec().into()),
        };
        let partition = key![&delivery.id];
        let transaction = Transaction { table: &schema::DELIVERY, partition, writes: vec![write], ttl: Some(KEPT) };
        self.backend.transact(transaction).await
    }

    /// Creates deliveries that do not exist yet and queues those that have an attempt due. Doing it again is safe.
    ///
    /// On a cluster only a few go at once, since nobody waits for them and requests need the capacity. A store with one
    /// writer commits all together.
    ///
    /// # Errors
    /// When the store does not answer; nothing is lost when it is then done again.
    pub async fn create(&self, deliveries: &[Delivery], now_ms: i64) -> StoreResult<()> {
        let at_once = if self.backend.is_exclusive() { deliveries.len() } else { CREATED_AT_ONCE };
        for some in deliveries.chunks(at_once.max(1)) {
            self.create_some(some, now_ms).await?;
        }
        Ok(())
    }

    async fn create_some(&self, deliveries: &[Delivery], now_ms: i64) -> StoreResult<()> {
        let writes = deliveries.iter().map(|delivery| self.write(delivery, Expect::Absent));
        for written in futures::future::join_all(writes).await {
            match written {
                // False: it exists already, perhaps from an earlier call that failed, and may not be queued yet. After
                // an error, doubt included, the caller repeats the whole.
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        let mut changes = Vec::with_capacity(deliveries.len() * 3);
        for delivery in deliveries {
            let webhook = &delivery.webhook_id;
            let log = key![webhook, delivery.created_at.div_euclid(MONTH_MS), delivery.created_at, &delivery.id];
            changes.push(hint(&schema::DELIVERY_LOG, log, 1, Some(Bytes::new())));
            self.queue(delivery, now_ms, &mut changes);
        }
        self.backend.apply(changes).await
    }

    fn queue(&self, delivery: &Delivery, now_ms: i64, changes: &mut Vec<Change>) {
        let Some(due_at) = delivery.next_attempt_at else { return };
        let webhook = &delivery.webhook_id;
        // The same place when two replicas queue it at about the same time.
        let place = due_at.max(now_ms - MINUTE_MS);
        changes.push(hint(&schema::QUEUE, key![webhook, place, &delivery.id], 1, Some(Bytes::new())));
        let ready = key![shard_of(webhook), minute_of(due_at.max(now_ms)), webhook];
        changes.push(hint(&schema::READY, ready, 1, Some(Bytes::new())));
    }

    /// Replaces a delivery by its state after an attempt, if nobody did so before, and moves it in its queue from
    /// `queued_at`, if that is known. The next attempt is queued first and the old one removed last, so that a crash in
    /// between leaves a hint too many.
    ///
    /// # Errors
    /// When the store does not answer; doing it again is safe.
    pub async fn advance(
        &self,
        before: &Delivery,
        after: &Delivery,
        queued_at: Option<i64>,
        now_ms: i64,
    ) -> StoreResult<bool> {
        let mut changes = Vec::new();
        self.queue(after, now_ms, &mut changes);
        if !changes.is_empty() {
            self.backend.apply(changes).await?;
        }
        let written = self.write(after, Expect::Version(i64::from(before.attempts_made()))).await?;
        if written && let Some(due_at) = queued_at {
            self.unqueue(&before.webhook_id, &Queued { due_at, delivery: before.id.clone() }).await?;
        }
        Ok(written)
    }

    /// Notes how an attempt at a webhook ended; gives its new streak of failures.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn note(&self, webhook: &str, succeeded: bool, now_ms: i64) -> StoreResult<Streak> {
        let mut consistency = Consistency::Quorum;
        loop {
            let row = self.backend.get(&schema::WEBHOOK_STREAK, &key![webhook], consistency).await?;
            let before = row.as_ref().map(|row| Streak::decode(row.body.clone())).transpose();
            let before = before.map_err(|error| StoreError::Damaged(format!("streak: {error}")))?.unwrap_or_default();
            let after = if succeeded { Streak::default() } else { before.longer(now_ms) };
            if after == before {
                return Ok(after);
            }
            let (expect, version) = match &row {
                Some(row) => (Expect::Version(row.version), row.version + 1),
                None => (Expect::Absent, 1),
            };
            let body = Some(after.encode_to_vec().into());
            let write = ConditionalWrite { clustering: Vec::new(), expect, version, body };
            let partition = key![webhook];
            let transaction =
                Transaction { table: &schema::WEBHOOK_STREAK, partition, writes: vec![write], ttl: Some(KEPT) };
            if self.backend.transact(transaction).await? {
                return Ok(after);
            }
            // Another report came between.
            consistency = Consistency::Serial;
        }
    }

    /// Takes a row out of a queue.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn unqueue(&self, webhook: &str, queued: &Queued) -> StoreResult<()> {
        let key = key![webhook, queued.due_at, &queued.delivery];
        self.backend.apply(vec![Change { table: &schema::QUEUE, key, version: 1, body: None, ttl: None }]).await
    }

    /// The due attempts of a webhook that are queued for `from_ms` or later, earliest first. On a cluster, a removed
    /// row costs a read as much as a present one, and too many of them make it fail.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn due(&self, webhook: &str, from_ms: i64, now_ms: i64, limit: usize) -> StoreResult<Vec<Queued>> {
        let mut scan = Scan::all(&schema::QUEUE, key![webhook], limit);
        scan.from = Bound::Included(key![from_ms]);
        scan.to = Bound::Included(key![now_ms]);
        let rows = self.backend.scan(&scan).await?;
        Ok(rows
            .iter()
            .filter_map(|row| match row.clustering.as_slice() {
                [due_at, delivery] => Some(Queued { due_at: due_at.int(), delivery: delivery.text().to_owned() }),
                _ => None,
            })
            .collect())
    }

    /// Webhooks of a shard with attempts due in a minute.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn ready(&self, shard: i64, minute: i64) -> StoreResult<Vec<String>> {
        let rows = self.backend.scan(&Scan::all(&schema::READY, key![shard, minute], READY_ROWS)).await?;
        Ok(rows.iter().filter_map(|row| Some(row.clustering.first()?.text().to_owned())).collect())
    }

    /// The last minute of a shard with nothing left to do; none when none was noted yet.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn ready_done(&self, shard: i64) -> StoreResult<Option<i64>> {
        let row = self.backend.get(&schema::READY_DONE, &key![shard], Consistency::Quorum).await?;
        Ok(row.map(|row| row.version))
    }

    /// Notes that nothing is left to do in a shard's minutes up to this one.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn set_ready_done(&self, shard: i64, minute: i64) -> StoreResult<()> {
        let change = Change {
            table: &schema::READY_DONE,
            key: key![shard],
            version: minute,
            body: Some(Bytes::new()),
            ttl: None,
        };
        self.backend.apply(vec![change]).await
    }

    /// A page of a webhook's delivery log, newest first, with the position of each row. Looks back as far as deliveries
    /// are kept.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn log(
        &self,
        webhook: &str,
        after: Option<&LogPosition>,
        now_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<LogPosition>> {
        let newest = after.map_or(now_ms + DAY_MS, |(at, _)| *at).div_euclid(MONTH_MS);
        let oldest = (now_ms - i64::from(KEPT) * 1_000).div_euclid(MONTH_MS);
        let mut found = Vec::new();
        for month in (oldest..=newest).rev() {
            let mut scan = Scan::all(&schema::DELIVERY_LOG, key![webhook, month], limit - found.len());
            scan.reverse = true;
            if let Some((at, id)) = after {
                scan.to = Bound::Excluded(key![*at, id]);
            }
            for row in self.backend.scan(&scan).await? {
                if let [at, id] = row.clustering.as_slice() {
                    found.push((at.int(), id.text().to_owned()));
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }
}

//! The partitions that a webhook's deliveries and due attempts have, so that nobody reads the empty ones.

use std::{collections::HashSet, ops::Bound, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use super::delivery_rows::{BUCKET_MS, BUCKETS_PER_MONTH, RETENTION_SECONDS};
use crate::{
    domain::retry::MAX_DELAY_MS,
    key,
    store::{Change, Scan, SharedBackend, StoreResult, Value, schema},
};

/// Maximum number of buckets remembered as stored.
const MAX_REMEMBERED: usize = 100_000;
/// Time by which the note of a bucket outlasts the row that was written with it, in seconds. That row may be a retry,
/// written [`MAX_DELAY_MS`] before it is due, and the bucket is read until the last of its rows expires.
const MARGIN_SECONDS: u32 = 86_400;
/// Retention time of the note of a bucket, in seconds.
pub const NOTE_SECONDS: u32 = RETENTION_SECONDS + MARGIN_SECONDS;
const _: () = assert!(MAX_DELAY_MS + BUCKET_MS <= MARGIN_SECONDS as i64 * 1_000, "notes outlast all rows of a bucket");
/// Maximum length of a range whose buckets are read without the index, since a read of the index costs as much as one
/// of an empty bucket.
const MAX_UNINDEXED_BUCKETS: i64 = 3;

/// A webhook, and the number of one of its partitions.
pub(super) type WebhookBucket = (String, i64);

#[derive(Clone)]
pub(super) struct DeliveryBuckets {
    backend: SharedBackend,
    written: Arc<Mutex<HashSet<WebhookBucket>>>,
}

const fn month_of(bucket: i64) -> i64 {
    bucket.div_euclid(BUCKETS_PER_MONTH)
}

/// The change that notes that a webhook has a bucket.
pub(super) fn note((webhook, bucket): &WebhookBucket) -> Change {
    Change {
        table: &schema::DELIVERY_BUCKET,
        key: key![webhook, month_of(*bucket), *bucket],
        version: *bucket,
        body: Some(Bytes::new()),
        ttl: Some(NOTE_SECONDS),
    }
}

impl DeliveryBuckets {
    pub(super) fn new(backend: SharedBackend) -> Self {
        Self { backend, written: Arc::default() }
    }

    /// The buckets of changed rows that this process has not noted yet.
    pub(super) fn unnoted(&self, changes: &[Change]) -> HashSet<WebhookBucket> {
        let written = self.written.lock();
        let rows = changes.iter().filter(|change| change.table.name == schema::DELIVERY.name);
        let buckets = rows.filter_map(|change| match change.key.as_slice() {
            [webhook, bucket, ..] => Some((webhook.text().to_owned(), bucket.int())),
            _ => None,
        });
        buckets.filter(|bucket| !written.contains(bucket)).collect()
    }

    /// Remembers that buckets are noted. A failed or dropped write leaves them to the next one.
    pub(super) fn remember(&self, buckets: HashSet<WebhookBucket>) {
        let mut written = self.written.lock();
        if written.len() >= MAX_REMEMBERED {
            written.clear();
        }
        written.extend(buckets);
    }

    /// The first buckets of a webhook in a range, the earliest first: `limit` of them, or all if they are fewer.
    pub(super) async fn between(&self, webhook: &str, first: i64, last: i64, limit: usize) -> StoreResult<Vec<i64>> {
        if last - first < MAX_UNINDEXED_BUCKETS {
            return Ok((first..=last).collect());
        }
        self.list(webhook, first, last, limit, false).await
    }

    /// The newest buckets of a webhook in a range, the newest first.
    pub(super) async fn newest(&self, webhook: &str, first: i64, last: i64, limit: usize) -> StoreResult<Vec<i64>> {
        self.list(webhook, first, last, limit, true).await
    }

    async fn list(&self, webhook: &str, first: i64, last: i64, limit: usize, reverse: bool) -> StoreResult<Vec<i64>> {
        let (from, to) = (month_of(first), month_of(last));
        let mut found = Vec::new();
        for step in 0..=to - from {
            let month = if reverse { to - step } else { from + step };
            let mut scan = Scan::all(&schema::DELIVERY_BUCKET, key![webhook, month], limit - found.len());
            scan.reverse = reverse;
            scan.from = Bound::Included(key![first]);
            scan.to = Bound::Included(key![last]);
            let rows = self.backend.scan(&scan).await?;
            found.extend(rows.iter().filter_map(|row| row.clustering.first()).map(Value::int));
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }
}

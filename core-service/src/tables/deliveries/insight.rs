//! Reads how the deliveries of a webhook go: the counts of its attempts, and its oldest delivery that waits.
//!
//! The reads are bounded by the time that a delivery can take, whatever the number of deliveries.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use super::DeliveryStore;
use crate::{
    domain::{
        attempt_counts::AttemptCounts,
        delivery::{Delivery, parse_delivery_id},
        window::{DAY_MS, HOUR_MS},
    },
    key,
    store::{Row, Scan, StoreResult, schema},
    tables::{
        decode_message,
        delivery_rows::{self, BUCKET_MS, COUNTED, LOGGED, bucket_of},
    },
};

/// Age of the oldest deliveries with attempts in the last day: they waited a day for a disabled webhook, and then less
/// than 15 hours for their last attempt. A few hours more are for outages. Attempts of deliveries that waited longer
/// for their endpoint to answer a test do not count.
const MAX_AGE_MS: i64 = 3 * DAY_MS;
/// Age up to which counts are read from memory, in milliseconds.
const MAX_TOTALS_AGE_MS: i64 = 10_000;
/// Number of slots of the last hour and day. The present one is the last of them.
const HOUR_SLOTS: i64 = HOUR_MS / BUCKET_MS;
const DAY_SLOTS: i64 = DAY_MS / BUCKET_MS;
/// Number of hours that are counted separately.
const HOURS: usize = 24;
/// Maximum number of partitions whose counts are read at the same time.
const PARALLEL_READS: usize = 32;
/// Maximum number of counts of one partition: one for each slot, process and write at the same time.
const MAX_COUNTS: usize = 10_000;
/// Maximum number of partitions that are searched for a delivery that is tried again.
const MAX_SEARCHED: usize = 4;
/// Maximum number of deliveries of such a partition that are read.
const MAX_READ: usize = 500;
/// Rows of a page of the queue, and the maximum number of pages that are searched.
const QUEUE_PAGE: usize = 64;
const MAX_QUEUE_PAGES: usize = 4;

/// The attempts of a webhook, counted in slots of five minutes.
#[derive(Debug, Default)]
pub struct AttemptTotals {
    /// Counts of the last twelve slots, and of the last 288.
    pub hour: AttemptCounts,
    pub day: AttemptCounts,
    /// Counts of the last day by twelve slots, the oldest first.
    pub hours: [AttemptCounts; HOURS],
    /// The partitions with deliveries that are tried again, the oldest first.
    retrying: Vec<i64>,
}

impl AttemptTotals {
    /// The beginning of the first slot of the last hour and of the last day, in unix milliseconds.
    pub const fn begins(now_ms: i64) -> [i64; 2] {
        let slot = bucket_of(now_ms);
        [(slot + 1 - HOUR_SLOTS) * BUCKET_MS, (slot + 1 - DAY_SLOTS) * BUCKET_MS]
    }

    /// The counts by hour, each with the beginning of its first slot in unix milliseconds, the oldest first.
    pub fn by_hour(&self, now_ms: i64) -> impl Iterator<Item = (i64, &AttemptCounts)> {
        let [_, begin] = Self::begins(now_ms);
        (0..).zip(&self.hours).map(move |(hour, counts)| (begin + hour * HOUR_MS, counts))
    }
}

impl DeliveryStore {
    /// Reads the counts of a webhook's attempts, and the time at which they were read. They may be ten seconds old,
    /// since a read scans up to 864 partitions.
    pub async fn recent_totals(&self, webhook: &str, now_ms: i64) -> StoreResult<(i64, Arc<AttemptTotals>)> {
        let is_recent = |at: i64| (0..MAX_TOTALS_AGE_MS).contains(&(now_ms - at));
        if let Some(known) = self.totals.get(webhook).filter(|(at, _)| is_recent(*at)) {
            return Ok(known);
        }
        let totals = (now_ms, Arc::new(self.attempt_totals(webhook, now_ms).await?));
        self.totals.insert(webhook.to_owned(), totals.clone());
        Ok(totals)
    }

    /// Reads the counts of a webhook's attempts.
    pub async fn attempt_totals(&self, webhook: &str, now_ms: i64) -> StoreResult<AttemptTotals> {
        let (first, last) = (bucket_of(now_ms - MAX_AGE_MS), bucket_of(now_ms) + 1);
        let all = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        let buckets = self.buckets.between(webhook, first, last, all).await?;
        let [hour, day] = AttemptTotals::begins(now_ms).map(bucket_of);
        let mut totals = AttemptTotals::default();
        for some in buckets.chunks(PARALLEL_READS) {
            let scans: Vec<Scan> = some
                .iter()
                .map(|bucket| Scan {
                    from: Bound::Included(key![COUNTED]),
                    to: Bound::Included(key![COUNTED]),
                    ..Scan::all(&schema::DELIVERY, key![webhook, *bucket], MAX_COUNTS)
                })
                .collect();
            for (bucket, rows) in some.iter().zip(self.backend.scan_many(&scans).await?) {
                let mut of_bucket = AttemptCounts::default();
                for (slot, counts) in by_slot(rows)? {
                    if slot >= hour {
                        totals.hour.add(&counts);
                    }
                    if slot >= day {
                        totals.day.add(&counts);
                        let hour = usize::try_from((slot - day) / HOUR_SLOTS).unwrap_or(HOURS);
                        // The clock of another core may be ahead.
                        totals.hours[hour.min(HOURS - 1)].add(&counts);
                    }
                    of_bucket.add(&counts);
                }
                if of_bucket.began_retrying > of_bucket.ended_retrying {
                    totals.retrying.push(*bucket);
                }
            }
        }
        Ok(totals)
    }

    /// Reads the time of the oldest delivery that is not over: of those that are tried again, and of those that wait
    /// for their first attempt, perhaps since `waits_since`. Where one partition has many deliveries, the time may be
    /// up to five minutes too early.
    pub async fn oldest_pending(
        &self,
        webhook: &str,
        totals: &AttemptTotals,
        waits_since: Option<i64>,
        now_ms: i64,
        counted: impl Fn(Delivery) -> Delivery,
    ) -> StoreResult<Option<i64>> {
        let waiting = match waits_since {
            Some(since) => self.oldest_unsent(webhook, since, now_ms, &counted).await?,
            None => None,
        };
        let oldest = match waiting {
            Some(at) => Some(at),
            None => self.oldest_of_backlog(webhook, now_ms, &counted).await?,
        };
        for bucket in totals.retrying.iter().take(MAX_SEARCHED) {
            if oldest.is_some_and(|oldest| bucket_of(oldest) < *bucket) {
                break;
            }
            if let Some(retried) = self.oldest_of_bucket(webhook, *bucket, &counted).await? {
                return Ok(Some(oldest.map_or(retried, |oldest| oldest.min(retried))));
            }
        }
        Ok(oldest)
    }

    async fn oldest_of_bucket(
        &self,
        webhook: &str,
        bucket: i64,
        counted: impl Fn(Delivery) -> Delivery,
    ) -> StoreResult<Option<i64>> {
        let mut scan = Scan::all(&schema::DELIVERY, key![webhook, bucket], MAX_READ);
        scan.from = Bound::Included(key![LOGGED]);
        let rows = self.backend.scan(&scan).await?;
        let is_whole = rows.len() < MAX_READ;
        let mut last = None;
        for row in rows {
            if let [_, at, id] = row.clustering.as_slice() {
                let (at, id) = (at.int(), id.text().to_owned());
                last = Some(at);
                // A damaged one is no reason to show nothing.
                let Ok(delivery) = delivery_rows::decode(webhook, at, &id, row.body) else { continue };
                if !counted(delivery).is_over() {
                    return Ok(last);
                }
            }
        }
        Ok(last.filter(|_| !is_whole))
    }

    /// Like [`Self::oldest_unsent`], of the last hour, or twice as far back each time that a backlog begins before.
    async fn oldest_of_backlog(
        &self,
        webhook: &str,
        now_ms: i64,
        counted: impl Fn(Delivery) -> Delivery,
    ) -> StoreResult<Option<i64>> {
        let (mut oldest, mut age_ms) = (None, HOUR_MS);
        while age_ms <= MAX_AGE_MS {
            let since = now_ms - age_ms;
            let found = self.oldest_unsent(webhook, since, now_ms, &counted).await?;
            oldest = found.or(oldest);
            if found.is_none_or(|at| at > since + 2 * BUCKET_MS) {
                break;
            }
            age_ms *= 2;
        }
        Ok(oldest)
    }

    /// Reads the time of the oldest delivery in the queue that had no attempt yet. It was due when it was created, so
    /// the first one in the queue is the oldest.
    async fn oldest_unsent(
        &self,
        webhook: &str,
        since: i64,
        now_ms: i64,
        counted: impl Fn(Delivery) -> Delivery,
    ) -> StoreResult<Option<i64>> {
        let mut after = (since, String::new());
        for _ in 0..MAX_QUEUE_PAGES {
            let page = self.queue.page(webhook, &after, now_ms, QUEUE_PAGE, Some(since)).await?;
            let is_first =
                |id: &String, due_at| parse_delivery_id(id).is_some_and(|(_, created_at)| created_at == due_at);
            let first = page.rows.iter().filter(|row| is_first(&row.delivery, row.due_at));
            let ids: Vec<String> = first.map(|row| row.delivery.clone()).collect();
            for delivery in self.rows(&ids).await? {
                // A row may be older than the last report, and a damaged one is no reason to show nothing.
                let Ok(Some(delivery)) = delivery else { continue };
                if delivery.attempts.is_empty() && !counted(delivery.clone()).is_over() {
                    return Ok(Some(delivery.created_at));
                }
            }
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        Ok(None)
    }
}

fn by_slot(rows: Vec<Row>) -> StoreResult<BTreeMap<i64, AttemptCounts>> {
    let mut slots: BTreeMap<i64, AttemptCounts> = BTreeMap::new();
    for row in rows {
        if let [_, slot, _] = row.clustering.as_slice() {
            let counts: AttemptCounts = decode_message(row.body.clone(), "counts of attempts")?;
            slots.entry(slot.int()).or_default().add(&counts);
        }
    }
    Ok(slots)
}

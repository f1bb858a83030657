//! The queues of due attempts. Each webhook has its own, in the partitions of its deliveries. So removed rows expire
//! with their partition, and a million rows of one endpoint delay no other.
//!
//! A queue row is a hint: the row of the delivery decides whether an attempt is due. A mark names a webhook and a
//! minute in which rows of its queue are due, and the first of their due times. A core reads all marks of a shard when
//! it takes the shard over, and later the new ones. It postpones the marks of pending deliveries, which are in its
//! memory, for the shard's next core. Marks expire after hours. A core that takes over later than that reads the queues
//! of all webhooks of the shard (`delivery/dispatch/read.rs`).
//!
//! A cluster remembers removed rows for hours, and refuses a read that passes too many. So a busy minute has a mark
//! every [`ROWS_PER_MARK`] rows, and one read ends where the next mark begins. First attempts come in the order of
//! their times, and so do the retries after each failure. Therefore a read passes at most [`ROWS_PER_MARK`] rows of
//! first attempts between two marks, and as many of each of the five retries; at one time, at most the rows of one
//! append are due. That is below 1,000, however many deliveries a webhook gets. It is n times as many if n cores write
//! rows of one minute. The core that reads a queue reads the marks of a minute once, and again after a notification of
//! other cores' rows (`tables/queue_parts.rs`). A read passes more removed rows in two cases: the marks have expired,
//! or other cores have written rows more than a minute after they were due, with marks in later minutes.

mod rows;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use self::rows::{mark_change, put, queued_attempt, removal};
use super::{
    delivery_buckets::{self, DeliveryBuckets},
    delivery_rows::{BUCKET_MS, QUEUED, bucket_of},
    queue_parts::QueueParts,
    shard_of_name,
};
use crate::{
    domain::{
        delivery::Delivery,
        retry::MAX_DELAY_MS,
        window::{HOUR_MS, MINUTE_MS},
    },
    key,
    store::{Change, Consistency, Row, Scan, SharedBackend, StoreResult, Value, schema},
};

/// Webhooks are spread over this number of shards. A core creates the deliveries of its shards and hands out their
/// attempts. Ten cores have six or seven shards each. `QueueHints` has room for 64.
pub const SHARDS: i64 = 64;
/// Maximum number of partitions of one page. Each has a read for every minute, and two more for marks that are not
/// known. So an error, a lost shard and other queues wait for some 100 reads of the store, not for those of 90 days.
const PAGE_BUCKETS: usize = 10;
/// Maximum number of marks in one read.
const MARKS_PAGE: usize = 10_000;
/// Minutes by which a core postpones the marks of pending deliveries.
pub const POSTPONE_MINUTES: i64 = 5;
/// Retention time of marks, in seconds. A retry has its mark up to [`MAX_DELAY_MS`] before it is due.
pub const MARK_RETENTION_SECONDS: u32 = 18 * 3_600;
/// Minutes for which the marks of due rows surely exist.
pub const MARKED_MINUTES: i64 = 6 * 60;
/// Minutes for which the marks surely exist that a core postponed when it last stored how far it has read.
pub const POSTPONED_MINUTES: i64 = 17 * 60;
/// Retention time of marks, in milliseconds.
pub const MARK_RETENTION_MS: i64 = MARK_RETENTION_SECONDS as i64 * 1_000;
const _: () = assert!(MAX_DELAY_MS + MARKED_MINUTES * MINUTE_MS <= MARK_RETENTION_MS, "marks outlive their rows");
const _: () = assert!(POSTPONED_MINUTES * MINUTE_MS < MARK_RETENTION_MS, "postponed marks exist");
/// The body of a postponed mark. A new mark has no body, and a higher version.
const POSTPONED: &[u8] = b"put off";
/// Number of rows that a core writes under one mark.
const ROWS_PER_MARK: usize = 100;
/// Maximum number of minutes of webhooks whose marks are remembered as stored.
const MAX_REMEMBERED_MINUTES: usize = 20_000;
const BUCKET_MINUTES: i64 = BUCKET_MS / MINUTE_MS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedAttempt {
    /// Time at which it is due, in unix milliseconds.
    pub due_at: i64,
    pub delivery: String,
    /// The number of an attempt that somebody requested before the time that its delivery has; 0 for any other
    /// attempt.
    pub hastened: i32,
}

/// A position in a queue: the due time and the delivery after which reading continues.
pub type QueuePosition = (i64, String);

/// A page of a queue.
pub struct QueuePage {
    pub rows: Vec<QueuedAttempt>,
    /// The position after which more rows may be.
    pub next: Option<QueuePosition>,
}

/// A webhook that has rows due from one time to another, in unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueMark {
    pub webhook: String,
    pub since: i64,
    /// The end of the minute, or [`i64::MAX`] if the mark is [`POSTPONE_MINUTES`] late: then a core may have postponed
    /// it for all rows from that time on.
    pub to: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkSelection {
    /// Marks that were written with a queue row.
    New,
    /// These, and marks that a core postponed: it has their rows in memory, and only the next core needs them.
    All,
}

/// A webhook, the minute in which rows are due, and the minute of their marks.
type MarkedMinute = (String, i64, i64);

/// The rows of a minute that this process wrote.
#[derive(Clone, Copy)]
struct MarkedRows {
    /// The earliest due time of a stored mark.
    first: i64,
    /// Number of rows since the last mark.
    count: usize,
}

impl MarkedRows {
    const NONE: Self = Self { first: i64::MAX, count: 0 };
}

#[derive(Clone)]
pub struct DeliveryQueue {
    backend: SharedBackend,
    buckets: DeliveryBuckets,
    parts: QueueParts,
    marked: Arc<Mutex<HashMap<MarkedMinute, MarkedRows>>>,
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

/// The last millisecond of a minute.
pub fn end_of(minute: i64) -> i64 {
    start_of(minute + 1) - 1
}

/// Ends marks where later ones begin, so that no read meets the rows of both.
pub fn cut_overlaps(marks: BTreeSet<QueueMark>) -> Vec<QueueMark> {
    let mut cut: Vec<QueueMark> = Vec::new();
    for mark in marks {
        let last = cut.last_mut().filter(|last| last.webhook == mark.webhook);
        // A postponed mark goes on behind the others.
        if let Some(last) = last.filter(|last| last.to <= mark.to) {
            last.to = last.to.min(mark.since - 1);
        }
        cut.push(mark);
    }
    cut
}

/// The hour of a partition of marks.
fn hour_of(at: i64) -> i64 {
    at.div_euclid(HOUR_MS)
}

impl DeliveryQueue {
    pub(super) fn new(backend: SharedBackend, buckets: DeliveryBuckets) -> Self {
        Self { backend, buckets, parts: QueueParts::default(), marked: Arc::default() }
    }

    /// Queues the next attempts of deliveries that have one, and makes the changes that belong to them. After an error
    /// a repeat is safe.
    pub async fn enqueue(&self, deliveries: &[&Delivery], mut changes: Vec<Change>, now_ms: i64) -> StoreResult<()> {
        let queued = deliveries.iter().filter_map(|delivery| Some((delivery.next_attempt_at?, *delivery)));
        let mut queued: Vec<(i64, &Delivery)> = queued.collect();
        queued.sort_unstable_by_key(|(due_at, _)| *due_at);
        changes.extend(queued.iter().map(|(due_at, delivery)| put(delivery, *due_at, Bytes::new())));
        self.write(&queued, changes, now_ms).await
    }

    /// Queues the next attempt of a delivery a second time, as due now. The delivery keeps the later time. The row that
    /// is read first sends the attempt, and the other row is stale then. An older version, which does not know such
    /// rows, ignores them as stale.
    pub async fn hasten(&self, delivery: &Delivery, now_ms: i64) -> StoreResult<()> {
        let number = delivery.attempt_count() + 1;
        let row = put(delivery, now_ms, number.to_string().into());
        self.write(&[(now_ms, delivery)], vec![row], now_ms).await
    }

    /// Makes the changes that queue attempts, with the marks and notes that they need.
    async fn write(&self, queued: &[(i64, &Delivery)], mut changes: Vec<Change>, now_ms: i64) -> StoreResult<()> {
        let (marks, firsts) = self.new_marks(queued, now_ms);
        let buckets = self.buckets.unnoted(&changes);
        changes.extend(marks);
        changes.extend(buckets.iter().map(delivery_buckets::note));
        if changes.is_empty() {
            return Ok(());
        }
        self.backend.apply(changes).await?;
        self.buckets.remember(buckets);
        // First marks are remembered only after the write: a failed or dropped write leaves them to the next one.
        let mut marked = self.marked.lock();
        for (minute, first) in firsts {
            let rows = marked.entry(minute).or_insert(MarkedRows::NONE);
            rows.first = rows.first.min(first);
        }
        Ok(())
    }

    /// The marks that new rows need, which are in the order of their due times, and the due time of the first mark of
    /// each minute once they are stored.
    fn new_marks(&self, queued: &[(i64, &Delivery)], now_ms: i64) -> (Vec<Change>, BTreeMap<MarkedMinute, i64>) {
        let (mut marks, mut firsts) = (Vec::new(), BTreeMap::new());
        let mut marked = self.marked.lock();
        if marked.len() >= MAX_REMEMBERED_MINUTES {
            marked.clear();
        }
        for (due_at, delivery) in queued {
            let (webhook, minute) = (&delivery.webhook_id, minute_of(*due_at).max(minute_of(now_ms)));
            let place = (webhook.clone(), minute_of(*due_at), minute);
            let rows = marked.entry(place.clone()).or_insert(MarkedRows::NONE);
            let first = firsts.entry(place).or_insert(rows.first);
            if *due_at < *first || rows.count >= ROWS_PER_MARK {
                marks.push(mark_change(webhook, *due_at, minute, b""));
                self.parts.add(webhook, minute_of(*due_at), [*due_at]);
                *first = (*first).min(*due_at);
                rows.count = 0;
            }
            rows.count += 1;
        }
        (marks, firsts)
    }

    /// The change that removes the row of a delivery's next attempt from its queue.
    pub(super) fn removal(delivery: &Delivery) -> Option<Change> {
        Some(removal(&delivery.webhook_id, delivery.next_attempt_at?, &delivery.id))
    }

    pub async fn remove(&self, webhook: &str, rows: &[QueuedAttempt]) -> StoreResult<()> {
        let removals = rows.iter().map(|row| removal(webhook, row.due_at, &row.delivery));
        self.backend.apply(removals.collect()).await
    }

    /// Reads a page of a webhook's rows after a position and up to a time, earliest first. A page has few partitions:
    /// where all rows were removed, the reader finds none, and still learns how far it has come. Marks that are not
    /// known are read for minutes after `marks_from`; for no minutes if the range is that of a mark.
    pub async fn page(
        &self,
        webhook: &str,
        after: &QueuePosition,
        to_ms: i64,
        limit: usize,
        marks_from: Option<i64>,
    ) -> StoreResult<QueuePage> {
        let mut rows: Vec<QueuedAttempt> = Vec::new();
        let buckets = self.buckets.between(webhook, bucket_of(after.0), bucket_of(to_ms), PAGE_BUCKETS).await?;
        'read: for &bucket in &buckets {
            let first = minute_of(after.0).max(bucket * BUCKET_MINUTES);
            let last = minute_of(to_ms).min((bucket + 1) * BUCKET_MINUTES - 1);
            for minute in first..=last {
                let (from, to) = (start_of(minute).max(after.0), to_ms.min(end_of(minute)));
                for (from, to) in self.divide(webhook, minute, (from, to), marks_from).await? {
                    if rows.len() >= limit {
                        break 'read;
                    }
                    let id = if from == after.0 { after.1.as_str() } else { "" };
                    let mut scan = Scan::all(&schema::DELIVERY, key![webhook, bucket], limit - rows.len());
                    scan.from = Bound::Excluded(key![QUEUED, from, id]);
                    scan.to = Bound::Included(key![QUEUED, to]);
                    rows.extend(self.backend.scan(&scan).await?.iter().filter_map(queued_attempt));
                }
            }
        }
        let next = if rows.len() >= limit {
            rows.last().map(|row| (row.due_at, row.delivery.clone()))
        } else {
            let end = buckets.last().filter(|_| buckets.len() >= PAGE_BUCKETS).map(|last| (last + 1) * BUCKET_MS);
            end.filter(|end| *end <= to_ms).map(|end| (end, String::new()))
        };
        Ok(QueuePage { rows, next })
    }

    /// Divides a range of times of a minute into parts, each with few rows. The embedded store remembers no removed
    /// rows.
    async fn divide(
        &self,
        webhook: &str,
        minute: i64,
        (from, to): (i64, i64),
        marks_from: Option<i64>,
    ) -> StoreResult<Vec<(i64, i64)>> {
        if self.backend.is_exclusive() {
            return Ok(vec![(from, to)]);
        }
        let are_wanted = marks_from.is_some_and(|marks_from| end_of(minute + 1) >= marks_from);
        if are_wanted && !self.parts.has_all(webhook, minute) {
            let (foreign_writes, mut begins) = (self.parts.foreign_writes(), BTreeSet::new());
            // Rows that were written late have their marks in the next minute.
            for marked in [minute, minute + 1] {
                let partition = key![shard_of(webhook), hour_of(start_of(marked))];
                let mut scan = Scan::all(&schema::QUEUE_MARK, partition, MARKS_PAGE);
                (scan.from, scan.to) = (Bound::Included(key![marked, webhook]), Bound::Included(key![marked, webhook]));
                let rows = self.backend.scan(&scan).await?;
                begins.extend(rows.iter().filter_map(|row| row.clustering.last()).map(Value::int));
            }
            self.parts.complete(webhook, minute, begins, foreign_writes);
        }
        Ok(self.parts.divide(webhook, minute, from, to))
    }

    /// Notes that another process has written rows of a webhook, the first of which is due at this time. Reads of that
    /// minute and of later ones then read their marks again.
    pub fn note_foreign(&self, webhook: &str, due_at: i64) {
        self.parts.add_foreign(webhook, minute_of(due_at));
    }

    /// Notes that this process has taken shards over, in which others may have written rows.
    pub fn note_takeover(&self) {
        self.parts.add_foreign_anywhere();
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
                [minute, webhook, since] => {
                    let (webhook, since) = (webhook.text().to_owned(), since.int());
                    if row.body != POSTPONED {
                        self.parts.add(&webhook, minute_of(since), [since]);
                    }
                    let is_late = minute.int() - minute_of(since) >= POSTPONE_MINUTES;
                    let to = if is_late { i64::MAX } else { end_of(minute_of(since)) };
                    Some(QueueMark { webhook, since, to })
                }
                _ => None,
            }));
            match rows.last() {
                Some(last) if rows.len() == MARKS_PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => return Ok(marks),
            }
        }
    }

    /// Marks webhooks, each from a due time on, for the core that takes the shard over in this minute or before.
    pub async fn postpone_marks(&self, firsts: &[(Arc<str>, i64)], minute: i64) -> StoreResult<()> {
        let marks = firsts.iter().map(|(webhook, first)| mark_change(webhook, *first, minute, POSTPONED));
        self.backend.apply(marks.collect()).await
    }

    /// Reads the last minute of a shard whose marks need no reading; none before the first [`Self::set_done`].
    pub async fn done(&self, shard: i64) -> StoreResult<Option<i64>> {
        let row = self.backend.get(&schema::QUEUE_DONE, &key![shard], Consistency::Quorum).await?;
        Ok(row.map(|row| row.version))
    }

    /// Stores for shards that the marks of the minutes up to the given one need no reading.
    pub async fn set_done(&self, done: &[(i64, i64)]) -> StoreResult<()> {
        let (table, body) = (&schema::QUEUE_DONE, Some(Bytes::new()));
        let change = |(shard, minute): &(i64, i64)| {
            let (key, version, body) = (key![*shard], *minute, body.clone());
            Change { table, key, version, body, ttl: None }
        };
        self.backend.apply(done.iter().map(change).collect()).await
    }
}

#[cfg(test)]
mod tests;

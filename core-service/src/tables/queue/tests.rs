mod busy;

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use scylla::client::{session::Session, session_builder::SessionBuilder};
use thesis_net::clock::{Clock as _, SystemClock};

use super::*;
use crate::{
    domain::{
        delivery::{Attempt, EventRef, delivery_id},
        window::DAY_MS,
    },
    store::{
        Backend as _,
        scylla::{
            ScyllaStore,
            tests::{
                options,
                traces::{TIMEOUT_MS, deletions_met},
            },
        },
    },
    tables::deliveries::{DeliveryChange, DeliveryStore},
    tests::{
        faulty::MemoryStore,
        harness::{ManualClock, NOON, SharedMemory},
    },
};

impl DeliveryQueue {
    /// Reads pages until there are as many rows as wanted, or no more.
    pub(crate) async fn read(
        &self,
        webhook: &str,
        after: &QueuePosition,
        to_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<QueuedAttempt>> {
        let (mut found, mut position) = (Vec::new(), Some(after.clone()));
        while let Some(after) = position.take().filter(|_| found.len() < limit) {
            let (left, marks_from) = (limit - found.len(), Some(to_ms - MARK_RETENTION_MS));
            let QueuePage { rows, next } = self.page(webhook, &after, to_ms, left, marks_from).await?;
            found.extend(rows);
            position = next;
        }
        Ok(found)
    }
}

const WEBHOOK: &str = "wh_aged";
/// Deliveries of a partition.
const OF_BUCKET: i64 = 40;

fn pending(due_at: i64) -> Delivery {
    let event = EventRef {
        event_id: format!("evt_{due_at}"),
        event_type: 1,
        dataset: "live".to_owned(),
        seq: 1,
        trace: Vec::new(),
    };
    Delivery::pending(delivery_id(WEBHOOK, due_at, &[]), WEBHOOK.to_owned(), due_at, event)
}

/// The row of a delivery's first attempt.
fn queued(delivery: &Delivery) -> QueuedAttempt {
    QueuedAttempt { due_at: delivery.created_at, delivery: delivery.id.clone(), hastened: 0 }
}

/// Makes the next attempt of a delivery, which ends 100 ms after it was due.
fn attempted(before: Delivery, succeeds: bool) -> DeliveryChange {
    let (number, ended_at) = (before.attempt_count() + 1, before.next_attempt_at.unwrap() + 100);
    let response_status = Some(if succeeds { 200 } else { 500 });
    let after = before.after(Attempt { number, response_status, ..Attempt::default() }, ended_at);
    DeliveryChange { before, after, epoch: 1 }
}

async fn deletions_met_in_bucket(session: &Session, keyspace: &str, bucket: i64, from: i64) -> u64 {
    let query = format!(
        "SELECT * FROM {keyspace}.delivery WHERE webhook = '{WEBHOOK}' AND bucket = {bucket} AND kind = {QUEUED} \
         AND at >= {from}"
    );
    deletions_met(session, query).await
}

/// Needs a Cassandra, whose traces name the deleted rows that a read met.
#[tokio::test]
async fn what_was_taken_out_of_an_aged_queue_is_not_met_again() {
    let keyspace = format!("aged_{}_{}", SystemClock.now_ms(), std::process::id());
    let Some(options) = options(&keyspace) else { return };
    let session = SessionBuilder::new().known_nodes(&options.nodes).build().await.unwrap();
    let backend: SharedBackend = Arc::new(ScyllaStore::connect(options, Arc::new(SystemClock)).await.unwrap());
    let store = DeliveryStore::new(backend, "run".to_owned());
    // What is deleted meets what was written in files of their own.
    let flushing = "memtable_flush_period_in_ms = 500";
    session.query_unpaged(format!("ALTER TABLE {keyspace}.delivery WITH {flushing}"), ()).await.unwrap();

    let now_ms = SystemClock.now_ms();
    let first = (bucket_of(now_ms) * BUCKET_MS) - DAY_MS;
    let count = DAY_MS / BUCKET_MS * OF_BUCKET;
    let due: Vec<Delivery> = (0..count).map(|number| pending(first + number * BUCKET_MS / OF_BUCKET)).collect();
    for some in due.chunks(1_000) {
        store.create(&some.iter().collect::<Vec<_>>(), now_ms).await.unwrap();
    }
    let (taken, left) = due.split_at(due.len() - 10);
    for some in taken.chunks(1_000) {
        store.queue.remove(WEBHOOK, &some.iter().map(queued).collect::<Vec<_>>()).await.unwrap();
    }

    // Reading goes on where it was: what went before is not met.
    let place = left[0].created_at;
    let bucket = bucket_of(place);
    assert_eq!(deletions_met_in_bucket(&session, &keyspace, bucket, place).await, 0);
    let found = store.queue.read(WEBHOOK, &(place - 1, String::new()), now_ms, 1_000).await.unwrap();
    assert_eq!(found.len(), left.len());
    // Who begins at the first partition meets its deletions at most, and none once the table is compacted.
    assert_eq!(deletions_met_in_bucket(&session, &keyspace, bucket_of(first), 0).await, OF_BUCKET as u64);
    let compacting = "gc_grace_seconds = 0 AND compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 2, \
                      'unchecked_tombstone_compaction': true, 'tombstone_compaction_interval': 1, \
                      'tombstone_threshold': 0.01}";
    session.query_unpaged(format!("ALTER TABLE {keyspace}.delivery WITH {compacting}"), ()).await.unwrap();
    let deadline = SystemClock.now_ms() + TIMEOUT_MS;
    for bucket in (bucket_of(first)..=bucket).step_by(12) {
        while deletions_met_in_bucket(&session, &keyspace, bucket, 0).await > 0 {
            assert!(SystemClock.now_ms() < deadline, "the deletions of bucket {bucket} stay");
            // Writing lets the node look again at what can be compacted.
            store.create(&[&pending(now_ms + DAY_MS)], now_ms).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    let found = store.queue.read(WEBHOOK, &(first, String::new()), now_ms, 1_000).await.unwrap();
    assert_eq!(found.len(), left.len());
    session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await.unwrap();
}

#[tokio::test]
async fn a_page_ends_after_some_emptied_partitions() {
    let store = DeliveryStore::new(SharedMemory::new(&ManualClock::new()), "run".to_owned());
    let of_page = i64::try_from(PAGE_BUCKETS).unwrap();
    let due: Vec<Delivery> = (0..3 * of_page).map(|number| pending(NOON + number * BUCKET_MS)).collect();
    store.create(&due.iter().collect::<Vec<_>>(), NOON).await.unwrap();
    let (left, taken) = due.split_last().unwrap();
    store.queue.remove(WEBHOOK, &taken.iter().map(queued).collect::<Vec<_>>()).await.unwrap();
    let now_ms = left.created_at;
    let page = async |from| store.queue.page(WEBHOOK, &(from, String::new()), now_ms, 100, None).await.unwrap();
    let mut from = NOON;
    for number in 1..=2 {
        let QueuePage { rows, next } = page(from).await;
        assert!(rows.is_empty());
        from = (bucket_of(NOON) + number * of_page) * BUCKET_MS;
        assert_eq!(next, Some((from, String::new())));
    }
    let QueuePage { rows, next } = page(from).await;
    assert_eq!((rows, next), (vec![queued(left)], None));
}

#[tokio::test]
async fn a_mark_whose_write_was_dropped_is_written_with_the_next_row() {
    let backend = SharedMemory::new(&ManualClock::new());
    let store = DeliveryStore::new(backend.clone(), "run".to_owned());
    let standing = backend.hold().await;
    assert!(store.create(&[&pending(NOON)], NOON).now_or_never().is_none(), "the store stands still");
    drop(standing);
    store.create(&[&pending(NOON + 1)], NOON).await.unwrap();
    let minute = minute_of(NOON);
    let marks = store.queue.marks(shard_of(WEBHOOK), minute, minute, MarkSelection::New).await.unwrap();
    assert_eq!(marks, [QueueMark { webhook: WEBHOOK.to_owned(), since: NOON + 1, to: end_of(minute) }]);
    // Another row that is due earlier is under no mark yet; a later one is.
    store.create(&[&pending(NOON + 2)], NOON).await.unwrap();
    store.create(&[&pending(NOON)], NOON).await.unwrap();
    let marks = store.queue.marks(shard_of(WEBHOOK), minute, minute, MarkSelection::New).await.unwrap();
    assert_eq!(marks.iter().map(|mark| mark.since).collect::<Vec<_>>(), [NOON, NOON + 1]);
}

/// 555 deliveries a second for ten seconds, created in the batches of a log.
async fn create_busy(store: &DeliveryStore, first: i64) -> Vec<Delivery> {
    let due: Vec<Delivery> = (0..5_550).map(|number| pending(first + number * 1_000 / 555)).collect();
    for batch in due.chunks(100) {
        store.create(&batch.iter().collect::<Vec<_>>(), first).await.unwrap();
    }
    due
}

/// The parts of a queue that the marks of a minute name.
async fn marked_parts(store: &DeliveryStore, minute: i64) -> Vec<QueueMark> {
    let marks = store.queue.marks(shard_of(WEBHOOK), minute, minute, MarkSelection::New).await.unwrap();
    cut_overlaps(marks.into_iter().collect())
}

#[tokio::test]
async fn the_marks_of_a_busy_minute_divide_its_rows() {
    let store = DeliveryStore::new(SharedMemory::new(&ManualClock::new()), "run".to_owned());
    let due = create_busy(&store, NOON).await;
    let mut found = Vec::new();
    for QueueMark { webhook, since, to } in marked_parts(&store, minute_of(NOON)).await {
        let rows = store.queue.read(&webhook, &(since, String::new()), to, 10_000).await.unwrap();
        assert!(rows.len() <= ROWS_PER_MARK, "{} rows under one mark", rows.len());
        found.extend(rows.into_iter().map(|row| row.delivery));
    }
    assert_eq!(found, due.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>());
}

/// Deliveries of a webhook in a second. An hour has 2,000,000.
const BUSY: i64 = 555;

/// Creates the deliveries of some seconds and makes their attempts. Half of the first attempts fail, and their retries
/// succeed. Returns the deliveries that expect an attempt, those of the last second among them.
async fn create_and_attempt(store: &DeliveryStore, seconds: i64) -> Vec<Delivery> {
    let mut due: BTreeMap<i64, Vec<Delivery>> = BTreeMap::new();
    for second in 0..seconds {
        let now_ms = NOON + second * 1_000 + 999;
        let numbers = second * BUSY..(second + 1) * BUSY;
        let new: Vec<Delivery> = numbers.map(|number| pending(NOON + number * 1_000 / BUSY)).collect();
        for some in new.chunks(100) {
            store.create(&some.iter().collect::<Vec<_>>(), now_ms).await.unwrap();
        }
        due.entry(second).or_default().extend(new);
        if second == seconds - 1 {
            break;
        }
        let mut changes = Vec::new();
        for (index, before) in due.remove(&second).unwrap().into_iter().enumerate() {
            let succeeds = before.attempt_count() > 0 || index % 2 == 1;
            changes.push(attempted(before, succeeds));
        }
        for outcome in store.advance(&changes, now_ms).await.unwrap() {
            outcome.unwrap();
        }
        for DeliveryChange { after, .. } in changes {
            if let Some(due_at) = after.next_attempt_at {
                due.entry((due_at - NOON) / 1_000).or_default().push(after);
            }
        }
    }
    due.into_values().flatten().collect()
}

/// Reads all rows of a queue up to a time, from each of some positions, as dispatchers do.
async fn read_from_everywhere(store: &DeliveryStore, to: i64, expected: &BTreeSet<String>) {
    for from in (NOON..to).step_by(7_000) {
        let (mut position, mut found) = ((from, String::new()), BTreeSet::new());
        loop {
            let rows = store.queue.read(WEBHOOK, &position, to, 128).await.unwrap();
            found.extend(rows.iter().map(|row| row.delivery.clone()));
            match rows.last() {
                Some(last) if rows.len() == 128 => position = (last.due_at, last.delivery.clone()),
                _ => break,
            }
        }
        assert_eq!(found, *expected);
    }
}

#[tokio::test]
async fn no_read_of_a_busy_queue_passes_a_thousand_removed_rows() {
    let backend = Arc::new(MemoryStore::new(false));
    let store = DeliveryStore::new(backend.clone(), "run".to_owned());
    let (seconds, mut expected) = (100, BTreeSet::new());
    let to = NOON + seconds * 1_000 - 1;
    for delivery in create_and_attempt(&store, seconds).await {
        if delivery.next_attempt_at.unwrap() <= to {
            expected.insert(delivery.id);
        }
    }
    assert!(expected.len() > 555, "first attempts and retries");
    read_from_everywhere(&store, to, &expected).await;
    // Another process reads the marks that this one wrote.
    read_from_everywhere(&DeliveryStore::new(backend.clone(), "run".to_owned()), to, &expected).await;
    assert!(backend.max_removed_rows() <= 1_000, "a read passes {} removed rows", backend.max_removed_rows());
    // One read of a minute would pass all of them.
    let mut minute = Scan::all(&schema::DELIVERY, key![WEBHOOK, bucket_of(NOON)], 1_000);
    minute.from = Bound::Included(key![QUEUED, NOON]);
    minute.to = Bound::Included(key![QUEUED, end_of(minute_of(NOON))]);
    assert!(backend.scan(&minute).await.unwrap().is_empty());
    assert_eq!(backend.max_removed_rows(), 60 * usize::try_from(BUSY).unwrap());
}

#[tokio::test]
async fn the_marks_of_another_process_divide_its_rows() {
    let backend = Arc::new(MemoryStore::new(false));
    let [own, other] = [0, 1].map(|_| DeliveryStore::new(backend.clone(), "run".to_owned()));
    own.create(&[&pending(NOON)], NOON).await.unwrap();
    let read_all = async || own.queue.read(WEBHOOK, &(NOON, String::new()), NOON + 59_999, 10_000).await.unwrap();
    assert_eq!(read_all().await.len(), 1);
    // Two processes write in turn, and all rows but one are removed.
    let due: Vec<Delivery> = (1..=5_550).map(|number| pending(NOON + number * 10)).collect();
    for (index, batch) in due.chunks(100).enumerate() {
        let writer = if index % 4 == 0 { &own } else { &other };
        writer.create(&batch.iter().collect::<Vec<_>>(), NOON).await.unwrap();
    }
    own.queue.note_foreign(WEBHOOK, due[0].created_at);
    for batch in due.chunks(100) {
        own.queue.remove(WEBHOOK, &batch.iter().map(queued).collect::<Vec<_>>()).await.unwrap();
    }
    assert_eq!(read_all().await.len(), 1);
    assert!(
        backend.max_removed_rows() <= 2 * ROWS_PER_MARK,
        "a read passes {} removed rows",
        backend.max_removed_rows()
    );
}

/// Reads a minute once, and again after another process has written 5,550 rows that were removed, and this process one
/// row. Returns the maximum number of removed rows that a read passes.
async fn removed_rows_passed(before_the_read: impl FnOnce(&DeliveryQueue)) -> usize {
    let backend = Arc::new(MemoryStore::new(false));
    let [own, other] = [0, 1].map(|_| DeliveryStore::new(backend.clone(), "run".to_owned()));
    let read_all = async || own.queue.read(WEBHOOK, &(NOON, String::new()), NOON + 59_999, 10_000).await.unwrap();
    own.create(&[&pending(NOON + 1)], NOON).await.unwrap();
    assert_eq!(read_all().await.len(), 1);
    let due: Vec<Delivery> = (1..=5_550).map(|number| pending(NOON + number * 10)).collect();
    for batch in due.chunks(100) {
        other.create(&batch.iter().collect::<Vec<_>>(), NOON).await.unwrap();
        other.queue.remove(WEBHOOK, &batch.iter().map(queued).collect::<Vec<_>>()).await.unwrap();
    }
    before_the_read(&own.queue);
    // It has a mark of its own.
    own.create(&[&pending(NOON)], NOON).await.unwrap();
    assert_eq!(read_all().await.len(), 2);
    backend.max_removed_rows()
}

#[tokio::test]
async fn marks_that_this_process_may_not_know_are_read() {
    // A notification names the first of several minutes.
    let notified = removed_rows_passed(|queue| queue.note_foreign(WEBHOOK, NOON - 60_000)).await;
    let taken_over = removed_rows_passed(DeliveryQueue::note_takeover).await;
    let forget = |queue: &DeliveryQueue| (0..50_000).for_each(|minute| queue.parts.add("wh_other", minute, []));
    let forgotten = removed_rows_passed(forget).await;
    assert!([notified, taken_over, forgotten].iter().all(|passed| *passed <= ROWS_PER_MARK));
    assert_eq!(removed_rows_passed(|_| {}).await, 5_550, "it needs one of these");
}

#[test]
fn a_postponed_mark_goes_on_behind_the_others() {
    let mark = |webhook: &str, since, to| QueueMark { webhook: webhook.to_owned(), since, to };
    let marks = [
        mark("wh_a", 10, 59),
        mark("wh_a", 20, i64::MAX),
        mark("wh_a", 30, 59),
        mark("wh_a", 40, 59),
        mark("wh_a", 70, 119),
        mark("wh_b", 50, 59),
    ];
    let ends: Vec<i64> = cut_overlaps(BTreeSet::from(marks)).into_iter().map(|part| part.to).collect();
    assert_eq!(ends, [19, i64::MAX, 39, 59, 119, 59]);
}

#[tokio::test]
async fn a_test_survives_a_loss_of_power() {
    let backend = Arc::new(MemoryStore::new(true));
    let store = DeliveryStore::new(backend.clone(), "run".to_owned());
    let test = Delivery { body: b"{}".to_vec(), is_test: true, ..pending(NOON) };
    store.create(&[&test], NOON).await.unwrap();
    backend.lose_power();
    let rows = store.queue.read(WEBHOOK, &(0, String::new()), NOON, 10).await.unwrap();
    assert_eq!(rows.iter().map(|row| &row.delivery).collect::<Vec<_>>(), [&test.id]);
}

#[tokio::test]
async fn a_mark_that_was_put_off_is_for_the_next_core() {
    let store = DeliveryStore::new(SharedMemory::new(&ManualClock::new()), "run".to_owned());
    let later = minute_of(NOON) + POSTPONE_MINUTES;
    let mark = [QueueMark { webhook: WEBHOOK.to_owned(), since: NOON, to: i64::MAX }];
    let marks = async |wanted| store.queue.marks(shard_of(WEBHOOK), later, later, wanted).await.unwrap();
    let first: [(Arc<str>, i64); 1] = [(WEBHOOK.into(), NOON)];
    store.queue.postpone_marks(&first, later).await.unwrap();
    assert!(marks(MarkSelection::New).await.is_empty());
    assert_eq!(marks(MarkSelection::All).await, mark);
    // A row that is written in that minute makes it new, whichever comes first.
    store.create(&[&pending(NOON)], start_of(later)).await.unwrap();
    assert_eq!(marks(MarkSelection::New).await, mark);
    store.queue.postpone_marks(&first, later).await.unwrap();
    assert_eq!(marks(MarkSelection::New).await, mark);
}

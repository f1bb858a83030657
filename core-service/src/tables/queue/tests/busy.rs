//! Busy queues on a Cassandra, whose traces name the deleted rows that a read met.

use std::mem::{replace, take};

use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::*;
use crate::store::scylla::tests::traces::TracedScans;

/// Deliveries of the simulated hour, unless `SOAK_DELIVERIES` names another number.
const DELIVERIES: i64 = 2_000_000;
/// Seconds of the simulated hour.
const SECONDS: i64 = HOUR_MS / 1_000;
/// One attempt of this number fails if it is a first one. Its retry succeeds.
const FAILING: usize = 20;
/// The reads in one second of this number are traced, since a traced one costs as much as many others. It is no divisor
/// of a minute, so reads of each part of a minute are traced.
const TRACED: i64 = 59;
/// Parts of the queue that are read at the same time. A node drops events of traces when 1,000 of them wait.
const PARALLEL_READS: usize = 16;
/// Maximum number of rows of a page, as dispatchers read them.
const PAGE_ROWS: usize = 128;
/// Maximum number of deleted rows that one read may meet.
const MAX_DELETIONS: u64 = 1_000;

#[tokio::test]
async fn no_read_of_a_busy_queue_meets_more_than_a_thousand_removed_rows() {
    let keyspace = format!("busy_{}_{}", SystemClock.now_ms(), std::process::id());
    let Some(options) = options(&keyspace) else { return };
    let session = SessionBuilder::new().known_nodes(&options.nodes).build().await.unwrap();
    let backend: SharedBackend = Arc::new(ScyllaStore::connect(options, Arc::new(SystemClock)).await.unwrap());
    let store = DeliveryStore::new(backend, "run".to_owned());
    let minute = minute_of(SystemClock.now_ms()) - 3;
    let due = create_busy(&store, start_of(minute)).await;
    for some in due.chunks(100) {
        store.queue.remove(WEBHOOK, &some.iter().map(queued).collect::<Vec<_>>()).await.unwrap();
    }
    // The reads that a core makes a few minutes later, or when it takes the shard over.
    let mut met = Vec::new();
    for part in marked_parts(&store, minute).await {
        let query = format!(
            "SELECT * FROM {keyspace}.delivery WHERE webhook = '{WEBHOOK}' AND bucket = {} AND kind = {QUEUED} \
             AND at >= {} AND at <= {}",
            bucket_of(part.since),
            part.since,
            part.to
        );
        met.push(deletions_met(&session, query).await);
    }
    assert!(met.iter().all(|met| *met <= MAX_DELETIONS), "{met:?}");
    assert_eq!(met.iter().sum::<u64>(), due.len() as u64, "{met:?}");
    session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await.unwrap();
}

/// The deliveries that wait for a retry, by due time and id.
type Retries = BTreeMap<(i64, String), Delivery>;

/// An hour of a webhook.
struct Hour {
    store: DeliveryStore,
    /// The present time, in unix milliseconds.
    now_ms: i64,
    /// The position after which rows may be due.
    position: QueuePosition,
    retries: Retries,
    /// Number of attempts that were made. Each has removed a row.
    attempts: usize,
}

impl Hour {
    /// Makes attempts of deliveries and stores their outcomes. Some of the first attempts fail.
    async fn attempt(&mut self, deliveries: Vec<Delivery>) {
        let mut changes = Vec::with_capacity(deliveries.len());
        for before in deliveries {
            let succeeds = before.attempt_count() > 0 || !self.attempts.is_multiple_of(FAILING);
            self.attempts += 1;
            changes.push(attempted(before, succeeds));
        }
        for outcome in self.store.advance(&changes, self.now_ms).await.unwrap() {
            outcome.unwrap();
        }
        for DeliveryChange { after, .. } in changes {
            if let Some(due_at) = after.next_attempt_at {
                self.retries.insert((due_at, after.id.clone()), after);
            }
        }
    }

    /// Reads the rows that are due, as a dispatcher does that has first attempts in memory, and makes their attempts.
    async fn attempt_due_retries(&mut self) {
        let later = self.retries.split_off(&(self.now_ms + 1, String::new()));
        let due = replace(&mut self.retries, later);
        let found = self.read_due_rows().await;
        assert!(found.iter().eq(due.keys().map(|(_, id)| id)), "a read finds the retries due at {}", self.now_ms);
        self.attempt(due.into_values().collect()).await;
    }

    /// Reads up to the first row that is not due yet.
    async fn read_due_rows(&mut self) -> Vec<String> {
        let (mut found, to) = (Vec::new(), end_of(minute_of(self.now_ms)));
        let marks_from = Some(self.now_ms - MARK_RETENTION_MS);
        loop {
            let page = self.store.queue.page(WEBHOOK, &self.position, to, PAGE_ROWS, marks_from).await.unwrap();
            for row in page.rows {
                if row.due_at > self.now_ms {
                    self.position = (row.due_at, String::new());
                    return found;
                }
                found.push(row.delivery);
            }
            let Some(next) = page.next else {
                self.position = (self.now_ms + 1, String::new());
                return found;
            };
            self.position = next;
        }
    }
}

/// Reads all rows that are due, as the core does that takes the shard over.
async fn read_as_next_core(backend: SharedBackend, from: i64, now_ms: i64) -> BTreeSet<String> {
    let store = &DeliveryStore::new(backend, "run".to_owned());
    let (mut marks, last) = (BTreeSet::new(), minute_of(now_ms));
    for hour in hour_of(from)..=hour_of(now_ms) {
        let first = minute_of(from.max(hour * HOUR_MS));
        marks.extend(store.queue.marks(shard_of(WEBHOOK), first, last, MarkSelection::All).await.unwrap());
    }
    let reads = stream::iter(cut_overlaps(marks)).map(|mark| async move {
        let (mut found, mut position) = (Vec::new(), Some((mark.since, String::new())));
        while let Some(after) = position {
            let page = store.queue.page(WEBHOOK, &after, mark.to.min(now_ms), PAGE_ROWS, None).await.unwrap();
            found.extend(page.rows.into_iter().map(|row| row.delivery));
            position = page.next;
        }
        found
    });
    reads.buffer_unordered(PARALLEL_READS).flat_map(stream::iter).collect().await
}

fn assert_few(name: &str, met: &[u64]) {
    let (max, sum) = (met.iter().copied().max().unwrap(), met.iter().sum::<u64>());
    println!("{name}: {} traced reads met {sum} deleted rows, at most {max} each", met.len());
    assert!(max <= MAX_DELETIONS, "{name}: a read met {max} deleted rows");
}

#[tokio::test]
#[ignore = "run by tests/soak"]
async fn no_read_of_an_hour_meets_more_than_a_thousand_removed_rows() {
    let deliveries = std::env::var("SOAK_DELIVERIES").map_or(DELIVERIES, |number| number.parse().unwrap());
    assert!((SECONDS..=HOUR_MS).contains(&deliveries), "each second has deliveries, and no two are due at one time");
    let keyspace = format!("hour_{}_{}", SystemClock.now_ms(), std::process::id());
    let options = options(&keyspace).expect("TEST_SCYLLA_NODES names a node");
    let session = SessionBuilder::new().known_nodes(&options.nodes).build().await.unwrap();
    let backend = TracedScans::new(ScyllaStore::connect(options, Arc::new(SystemClock)).await.unwrap());
    let begin = start_of(minute_of(SystemClock.now_ms())) - HOUR_MS - 5 * MINUTE_MS;
    let mut hour = Hour {
        store: DeliveryStore::new(backend.clone(), "run".to_owned()),
        now_ms: begin - 1,
        position: (begin, String::new()),
        retries: Retries::new(),
        attempts: 0,
    };
    let (started, mut last) = (Instant::now(), Vec::new());
    for second in 0..SECONDS {
        let first_number = |second: i64| (second * deliveries + SECONDS - 1) / SECONDS;
        let numbers = first_number(second)..first_number(second + 1);
        let new: Vec<Delivery> = numbers.map(|number| pending(begin + number * HOUR_MS / deliveries)).collect();
        let end_ms = begin + (second + 1) * 1_000 - 1;
        // The deliveries of a second are created while those of the second before are attempted.
        let store = hour.store.clone();
        let creating = async { store.create(&new.iter().collect::<Vec<_>>(), end_ms).await.unwrap() };
        tokio::join!(creating, hour.attempt(take(&mut last)));
        backend.set_tracing(second % TRACED == 0);
        hour.attempt_due_retries().await;
        (last, hour.now_ms) = (new, end_ms);
    }
    println!("{} attempts of {deliveries} deliveries in {:.0?}", hour.attempts, started.elapsed());
    assert_few("while they were made", &backend.take_met());

    backend.set_tracing(true);
    let left = hour.retries.into_keys().map(|(_, id)| id).chain(last.into_iter().map(|delivery| delivery.id));
    let found = read_as_next_core(backend.clone(), begin, hour.now_ms + 2 * MINUTE_MS).await;
    assert_eq!(found, left.collect::<BTreeSet<_>>(), "the next core finds all that is pending");
    let met = backend.take_met();
    assert_few("by the next core", &met);
    assert!(met.iter().sum::<u64>() >= hour.attempts as u64, "the node remembers the rows of all attempts");
    session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await.unwrap();
}

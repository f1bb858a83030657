use std::sync::Arc;

use futures::future::join_all;
use proptest::prelude::*;

use super::*;
use crate::tests::{
    faulty::{Fault, MemoryStore, Process, StoreCall},
    harness::{ManualClock, memory},
};

impl LogStore {
    /// Writes the heads of a log's first buckets, as if they were full, and none of their entries; gives the log's
    /// head.
    pub(crate) async fn fill_buckets(&self, log: &str, buckets: u64) -> u64 {
        for bucket in 0..buckets {
            let head = ConditionalWrite {
                clustering: key![HEAD_ROW],
                expect: Expect::Absent,
                version: int((bucket + 1) * BUCKET),
                body: Some(Bytes::new()),
            };
            let (partition, writes) = (key![log, int(bucket)], vec![head]);
            let transaction = Transaction { table: &schema::EVENT_LOG, partition, writes, ttl: None };
            assert!(self.backend.transact(transaction).await.unwrap(), "the log is not new");
        }
        buckets * BUCKET
    }
}

fn log() -> LogStore {
    LogStore::new(memory(&ManualClock::new()))
}

fn bodies(from: u64, count: u64) -> Vec<Bytes> {
    (from..from + count).map(|number| Bytes::from(number.to_string())).collect()
}

fn batch(number: u64) -> BatchId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id
}

/// Appends entries whose bodies are their sequence numbers, in batches of these sizes.
async fn fill(log: &LogStore, name: &str, sizes: impl IntoIterator<Item = u64>) -> u64 {
    let mut head = 0;
    for size in sizes {
        let size = size.min(room(head) as u64);
        let appended = log.append(name, head, batch(head + 1), &bodies(head + 1, size)).await.unwrap();
        assert_eq!(appended, AppendOutcome::Done);
        head += size;
    }
    head
}

#[tokio::test]
async fn buckets_follow_each_other_without_a_gap() {
    let log = log();
    let head = fill(&log, "live", std::iter::repeat_n(999, 23)).await;
    assert!(head > 2 * BUCKET);
    for known in [0, 1, BUCKET, BUCKET + 1, head] {
        assert_eq!(log.head("live", known, Consistency::Quorum).await.unwrap(), head);
    }
    let all = log.read("live", 0, head, usize::MAX).await.unwrap();
    assert_eq!(all.len() as u64, head);
    assert!(all.iter().all(|(seq, body)| *body == seq.to_string()));
    let newest = log.read_back("live", head + 1, 15_000).await.unwrap();
    assert!(newest.iter().map(|(seq, _)| *seq).eq((head - 14_999..=head).rev()));
    let across = log.read("live", BUCKET - 2, head, 4).await.unwrap();
    assert!(across.iter().map(|(seq, _)| *seq).eq(BUCKET - 1..=BUCKET + 2));
}

#[tokio::test]
async fn a_new_bucket_opens_only_when_the_last_is_full() {
    let log = log();
    fill(&log, "live", [50]).await;
    assert_eq!(log.append("live", BUCKET, batch(1), &bodies(BUCKET + 1, 1)).await.unwrap(), AppendOutcome::Lost);
    assert_eq!(log.append("live", 49, batch(2), &bodies(50, 1)).await.unwrap(), AppendOutcome::Lost);
    assert_eq!(log.append("live", 51, batch(3), &bodies(52, 1)).await.unwrap(), AppendOutcome::Lost);
    assert_eq!(log.head("live", 0, Consistency::Serial).await.unwrap(), 50);
}

#[tokio::test]
async fn an_append_repeated_after_doubt_has_been_done_once() {
    let log = log();
    let entries = bodies(1, 3);
    assert_eq!(log.append("live", 0, batch(1), &entries).await.unwrap(), AppendOutcome::Done);
    assert_eq!(log.append("live", 0, batch(1), &entries).await.unwrap(), AppendOutcome::Done, "its own batch");
    assert_eq!(log.append("live", 0, batch(2), &entries).await.unwrap(), AppendOutcome::Lost, "another's batch");
    assert_eq!(log.append("live", 1, batch(1), &entries).await.unwrap(), AppendOutcome::Lost, "no append began there");
    assert_eq!(log.head("live", 0, Consistency::Serial).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_append_in_doubt_stays_so_when_the_store_fails_later() {
    let process = Process::new(Arc::new(MemoryStore::new(true)));
    let log = LogStore::new(process.clone());
    process.set_chooser(Box::new(|number, called| match called {
        StoreCall::Transact if number == 0 => Some(Fault::Done),
        StoreCall::Read => Some(Fault::NotDone),
        _ => None,
    }));
    process.count(true);
    let appended = log.append("live", 0, batch(1), &bodies(1, 1)).await;
    assert!(matches!(appended, Err(StoreError::InDoubt(_))), "{appended:?}");
    process.rest();
    assert_eq!(log.head("live", 0, Consistency::Serial).await.unwrap(), 1);
}

#[tokio::test]
async fn of_writers_at_once_one_wins_each_head() {
    let log = Arc::new(log());
    let writers = (0..8_u64).map(|writer| {
        let log = Arc::clone(&log);
        async move {
            let mut won = 0;
            while won < 10 {
                let head = log.head("live", 0, Consistency::Serial).await.unwrap();
                let id = batch(writer * 1_000 + head);
                let body = [Bytes::from(format!("{writer}:{won}"))];
                won += u64::from(log.append("live", head, id, &body).await.unwrap() == AppendOutcome::Done);
            }
        }
    });
    join_all(writers).await;
    let all = log.read("live", 0, 80, usize::MAX).await.unwrap();
    let mut said: Vec<_> = all.into_iter().map(|(_, body)| body).collect();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), 80);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_slice_reads_what_was_appended(sizes in prop::collection::vec(1..700_u64, 1..40), after in 0..20_000_u64, limit in 1..500_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = log();
            let head = fill(&log, "project/1", sizes).await;
            let read = log.read("project/1", after, head, limit).await.unwrap();
            let expected = (after + 1..=head).take(limit);
            prop_assert!(read.iter().map(|(seq, _)| *seq).eq(expected));
            let back = log.read_back("project/1", after.min(head + 1), limit).await.unwrap();
            let expected = (1..after.min(head + 1)).rev().take(limit);
            prop_assert!(back.iter().map(|(seq, _)| *seq).eq(expected));
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_replaced_entry_keeps_its_place_and_its_append() {
    let log = log();
    fill(&log, "live", [3]).await;
    for seq in [1, 2] {
        log.replace("live", seq, Bytes::from("erased")).await.unwrap();
    }
    let expected = [(1, Bytes::from("erased")), (2, Bytes::from("erased")), (3, Bytes::from("3"))];
    let from_memory = log.read("live", 0, 3, 10).await.unwrap();
    let from_store = LogStore::new(Arc::clone(log.backend())).read("live", 0, 3, 10).await.unwrap();
    assert_eq!((from_memory.as_slice(), from_store.as_slice()), (&expected[..], &expected[..]));
    assert!(log.replace("live", 4, Bytes::from("erased")).await.is_err(), "an entry that is not there");
    let repeated = log.append("live", 0, batch(1), &bodies(1, 3)).await.unwrap();
    assert_eq!(repeated, AppendOutcome::Done, "the append that the entries came with");
}

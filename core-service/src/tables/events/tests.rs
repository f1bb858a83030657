use std::sync::Arc;

use super::*;
use crate::{
    store::Row,
    tests::{faulty::MemoryStore, harness::SharedMemory},
};

/// Number of buckets that have an event.
const BUCKETS: u64 = 2_000;
/// Sequence numbers of one bucket.
const BUCKET_LENGTH: u64 = 262_144;

/// A store with the index of a scope that has one event in each bucket, the first one.
fn store_of(scope: &EventScope) -> Arc<SharedMemory> {
    let memory = MemoryStore::new(false);
    let row = |body: &'static [u8]| Row { clustering: Vec::new(), body: Bytes::from_static(body), version: 1 };
    for first in (0..BUCKETS).map(|bucket| bucket * BUCKET_LENGTH + 1) {
        let segment = segment_of(first);
        let key = key!["live", scope.text(), bucket_of(segment)];
        memory.fill(&schema::EVENT_INDEX, vec![([&key[..], &key![int(segment)]].concat(), row(&[0]))]);
        memory.fill(&schema::INDEX_BUCKET, vec![(key, row(&[]))]);
    }
    SharedMemory::on(Arc::new(memory))
}

#[tokio::test]
async fn a_page_lists_no_more_buckets_than_it_needs() {
    let scope = EventScope::Chain("base".to_owned());
    let store = store_of(&scope);
    let index = EventIndex::new(Arc::clone(&store) as SharedBackend);
    // The newest bucket has just opened and has no event yet; the oldest event is before the range.
    let projected = BUCKETS * BUCKET_LENGTH + 64;
    let between = SeqRange { after: 1, before: projected + 1, projected };
    let oldest_first: Vec<u64> = (1..BUCKETS).map(|bucket| bucket * BUCKET_LENGTH + 1).collect();
    for newest_first in [true, false] {
        let mut expected = oldest_first.clone();
        if newest_first {
            expected.reverse();
        }
        for limit in [1, FIRST_BUCKETS, FIRST_BUCKETS + 1, 25, 300, 5_000] {
            let listed = store.scanned_rows(&schema::INDEX_BUCKET);
            let reads = store.scans(&schema::EVENT_INDEX);
            let found =
                index.positions("live", std::slice::from_ref(&scope), between, newest_first, limit).await.unwrap();
            assert_eq!(found, &expected[..limit.min(expected.len())], "newest first: {newest_first}, limit {limit}");
            let listed = store.scanned_rows(&schema::INDEX_BUCKET) - listed;
            assert!(listed <= FIRST_BUCKETS + (READ_GROWTH + 1) * limit, "{listed} buckets listed for {limit} events");
            let reads = store.scans(&schema::EVENT_INDEX) - reads;
            assert!(reads <= limit + 1, "{reads} buckets read for {limit} events");
        }
    }
}

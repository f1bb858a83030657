use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    key,
    store::{Backend as _, schema::THESIS_INDEX},
    tests::faulty::MemoryStore,
};

fn partition() -> Vec<Value> {
    key!["live", "all", 0]
}

fn change(seq: usize, at: i64, id: u8, stays: bool) -> Change {
    let key = [partition(), key![at, format!("th_{id}")]].concat();
    let body = stays.then(|| Bytes::from(seq.to_string()));
    Change { table: &THESIS_INDEX, key, version: i64::try_from(seq).unwrap(), body, ttl: None }
}

/// A bound of one column or two, or none.
fn bound((kind, at, id): (u8, i64, u8)) -> Bound<Vec<Value>> {
    match kind {
        0 => Bound::Included(key![at]),
        1 => Bound::Excluded(key![at]),
        2 => Bound::Included(key![at, format!("th_{id}")]),
        3 => Bound::Excluded(key![at, format!("th_{id}")]),
        _ => Bound::Unbounded,
    }
}

fn any_bound() -> impl Strategy<Value = (u8, i64, u8)> {
    (0..6_u8, 0..10_i64, 0..8_u8)
}

/// A row is written or deleted, and then a slice is read.
#[derive(Clone, Debug)]
struct Step {
    row: (i64, u8),
    stays: bool,
    bounds: [(u8, i64, u8); 2],
    reverse: bool,
    limit: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let row = (0..10_i64, 0..8_u8);
    let slice = (any_bound(), any_bound(), any::<bool>(), 1..12_usize);
    (row, prop::bool::weighted(0.7), slice).prop_map(|(row, stays, (from, to, reverse, limit))| Step {
        row,
        stays,
        bounds: [from, to],
        reverse,
        limit,
    })
}

proptest! {
    #[test]
    fn a_slice_is_that_of_the_store_or_not_there(
        steps in prop::collection::vec(step(), 1..200),
        filled_at in 0..100_usize,
        repeated in 0..100_usize,
        limit in 1..30_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new(false);
            let (mut changes, mut cached): (Vec<Change>, Option<CachedPartition>) = (Vec::new(), None);
            for (seq, Step { row: (at, id), stays, bounds, reverse, limit: wanted }) in steps.into_iter().enumerate() {
                let change = change(seq, at, id, stays);
                store.apply(vec![change.clone()]).await.unwrap();
                changes.push(change);
                let scan = Scan { reverse: true, ..Scan::all(&THESIS_INDEX, partition(), limit) };
                let mut partition = match cached.take() {
                    Some(cached) => cached,
                    None if seq < filled_at => continue,
                    None => CachedPartition::new(1, store.scan(&scan).await.unwrap(), limit),
                };
                // The first time, the read was later than the position, so entries before it are applied too.
                let from = if seq == filled_at { seq.saturating_sub(repeated) } else { seq };
                for change in &changes[from..] {
                    partition = partition.changed(change).unwrap_or(partition);
                }
                let [from, to] = bounds.map(bound);
                let scan = Scan { from, to, reverse, limit: wanted, ..scan };
                if let Some(rows) = partition.slice(&scan) {
                    prop_assert_eq!(rows, store.scan(&scan).await.unwrap(), "{:?}", scan);
                }
                let newest = Scan { from: Bound::Unbounded, to: Bound::Unbounded, reverse: true, ..scan };
                let is_here = partition.slice(&newest).is_some();
                prop_assert!(is_here || partition.len() < wanted);
                prop_assert!(partition.len() <= MAX_ROWS.max(limit));
                cached = Some(partition);
            }
            Ok(())
        })?;
    }
}

#[test]
fn partitions_of_another_epoch_are_not_there() {
    let cache = PartitionCache::default();
    let scan = Scan::all(&THESIS_INDEX, partition(), 10);
    cache.put(&scan, CachedPartition::new(1, Vec::new(), 10));
    assert!(cache.get(2, &scan).is_none());
    cache.apply(2, &change(1, 1, 1, true));
    assert_eq!(cache.get(1, &scan).unwrap().len(), 0);
    cache.apply(1, &change(1, 1, 1, true));
    assert_eq!(cache.get(1, &scan).unwrap().len(), 1);
    let other = Scan::all(&THESIS_INDEX, key!["live", "all", 1], 10);
    assert!(cache.get(1, &other).is_none());
}

#[test]
fn all_partitions_together_have_a_limit() {
    let cache = PartitionCache::default();
    let body = Bytes::from(vec![0; 4 << 10]);
    let scan = |bucket: i64| Scan::all(&THESIS_INDEX, key!["live", "all", bucket], 2);
    for bucket in 0..8_000 {
        let row = Row { clustering: key![0, "th_1"], body: body.clone(), version: 1 };
        cache.put(&scan(bucket), CachedPartition::new(1, vec![row], 2));
    }
    let kept = (0..8_000).filter(|bucket| cache.get(1, &scan(*bucket)).is_some()).count();
    assert!(kept > 1_000 && (kept * body.len()) as u64 <= MAX_BYTES, "{kept}");
}

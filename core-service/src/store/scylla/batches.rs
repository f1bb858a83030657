//! Divides versioned changes into batches. One batch is one request.
//!
//! The changes of one table and partition are in one batch, up to [`MAX_ATOMIC_BYTES`]: a replica applies them as one.
//! A larger batch would hold a replica up for longer than it saves. Small partitions share a batch, since a request
//! costs more than a small row. The node that gets it sends each partition to its replicas, which apply it as one too.
//! So the replicas' work is that of a write for each partition, and the bound of concurrent requests counts partitions.

use std::{collections::BTreeMap, mem::take};

use crate::store::{Change, MAX_ATOMIC_BYTES, Value};

/// Maximum size in bytes of a batch of several partitions. Cassandra warns of 5 KiB and refuses 50 KiB.
const MAX_SHARED_BYTES: usize = 4 * 1024;
/// Maximum number of partitions in a batch. Cassandra warns of more than 10.
const MAX_PARTITIONS: usize = 10;
/// Approximate size of a row without the texts of its key and without its body.
const ROW_BYTES: usize = 64;

/// The size that counts for [`MAX_ATOMIC_BYTES`].
fn atomic_size(change: &Change) -> usize {
    ROW_BYTES + change.body.as_ref().map_or(0, bytes::Bytes::len)
}

fn size(change: &Change) -> usize {
    let texts: usize = change.key.iter().map(|value| value.text().len()).sum();
    atomic_size(change) + texts
}

/// Divides changes into batches.
pub(crate) fn batches(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut full = Vec::new();
    let (mut shared, mut bytes, mut partitions) = (Vec::new(), 0, 0);
    for mut group in by_partition(changes) {
        let size = group.iter().map(size).sum::<usize>();
        if size > MAX_SHARED_BYTES {
            full.push(group);
            continue;
        }
        if partitions == MAX_PARTITIONS || bytes + size > MAX_SHARED_BYTES {
            full.push(take(&mut shared));
            (bytes, partitions) = (0, 0);
        }
        shared.append(&mut group);
        (bytes, partitions) = (bytes + size, partitions + 1);
    }
    full.push(shared);
    full.retain(|batch| !batch.is_empty());
    full
}

fn partition(change: &Change) -> (&str, &[Value]) {
    (change.table.name, &change.key[..change.table.partition.len()])
}

/// The number of partitions in a batch of [`batches`].
pub(super) fn partition_count(batch: &[Change]) -> usize {
    batch.chunk_by(|change, next| partition(change) == partition(next)).count()
}

/// Groups changes by table and partition, up to [`MAX_ATOMIC_BYTES`].
fn by_partition(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut full = Vec::new();
    let mut open = BTreeMap::<_, (usize, Vec<Change>)>::new();
    for change in changes {
        let partition: Vec<Value> = change.key.iter().take(change.table.partition.len()).cloned().collect();
        let size = atomic_size(&change);
        let (bytes, group) = open.entry((change.table.name, partition)).or_default();
        if !group.is_empty() && *bytes + size > MAX_ATOMIC_BYTES {
            full.push(take(group));
            *bytes = 0;
        }
        *bytes += size;
        group.push(change);
    }
    full.extend(open.into_values().map(|(_, group)| group));
    full
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key, store::schema};

    fn change(token: usize, author: usize, body: usize) -> Change {
        Change {
            table: &schema::TOKEN_TOTALS,
            key: key!["live", format!("tk_{token}"), format!("fp_{author}")],
            version: 1,
            body: Some(vec![0_u8; body].into()),
            ttl: None,
        }
    }

    fn sizes(changes: impl Iterator<Item = Change>) -> Vec<usize> {
        batches(changes.collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn small_partitions_share_a_batch() {
        assert_eq!(sizes((0..7).map(|token| change(token, 0, 100))), [7]);
        assert_eq!(sizes((0..11).map(|token| change(token, 0, 1))), [10, 1]);
        assert_eq!(sizes((0..4).map(|token| change(token, 0, 1_500))), [2, 2]);
        // Two partitions, each with rows of two authors.
        let shared = batches((0..4).map(|number| change(number % 2, number / 2, 1)).collect());
        assert_eq!((shared.len(), shared[0].len(), partition_count(&shared[0])), (1, 4, 2));
        assert!(batches(Vec::new()).is_empty());
    }

    #[test]
    fn a_large_partition_has_its_own_batches_and_its_rows_stay_together() {
        let changes = || (0..40).map(|author| change(0, author, 200)).chain([change(1, 0, 1), change(2, 0, 1)]);
        assert_eq!(sizes(changes()), [40, 2]);
        let large = batches((0..30).map(|author| change(0, author, 4_000)).collect());
        let sizes_of = |batch: &Vec<Change>| batch.iter().map(atomic_size).sum::<usize>();
        assert!(large.len() == 3 && large.iter().all(|batch| sizes_of(batch) <= MAX_ATOMIC_BYTES));
        assert_eq!(sizes([change(0, 0, 2 * MAX_ATOMIC_BYTES), change(1, 0, 1)].into_iter()), [1, 1]);
    }

    #[test]
    fn atomic_changes_are_one_batch_however_long_their_keys_are() {
        let body = MAX_ATOMIC_BYTES / 2 - ROW_BYTES;
        assert_eq!(sizes((0..2).map(|author| change(0, author, body))), [2]);
        assert_eq!(sizes((0..2).map(|author| change(0, author, body + 1))), [1, 1]);
    }
}

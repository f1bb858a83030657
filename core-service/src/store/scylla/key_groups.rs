//! Divides the keys of a read into groups. One group is one request.
//!
//! A request costs more than a small row, so keys that differ in one column alone share a request. If that column is in
//! the partition key, the node that gets the request reads each partition from its replicas. So the replicas' work is
//! that of a read for each partition, and the bound of concurrent requests counts partitions.

use std::collections::BTreeSet;

use crate::store::{Table, Value};

/// Maximum number of partitions of a group, which one node reads at once.
const MAX_PARTITIONS: usize = 10;
/// Maximum number of rows of a group in one partition. It bounds the size of an answer.
const MAX_ROWS: usize = 32;

/// Different keys that are the same in all columns but one.
pub(crate) struct KeyGroup<'a> {
    /// The index of that column among the columns of the key.
    pub(super) column: usize,
    pub(crate) keys: Vec<&'a [Value]>,
}

impl KeyGroup<'_> {
    pub(super) fn partition_count(&self, table: &Table) -> usize {
        if self.column < table.partition.len() { self.keys.len() } else { 1 }
    }
}

/// Divides the whole keys of rows into groups. They differ in the last column of the partition key or of the whole key,
/// whichever gives fewer groups.
pub(crate) fn key_groups<'a>(table: &Table, keys: &'a [Vec<Value>]) -> Vec<KeyGroup<'a>> {
    let partition = table.partition.len();
    let columns = BTreeSet::from([partition - 1, partition + table.clustering.len() - 1]);
    let groups = columns.into_iter().map(|column| {
        let max_keys = if column < partition { MAX_PARTITIONS } else { MAX_ROWS };
        groups_by(column, keys, max_keys)
    });
    groups.min_by_key(Vec::len).unwrap_or_default()
}

fn groups_by(column: usize, keys: &[Vec<Value>], max_keys: usize) -> Vec<KeyGroup<'_>> {
    let mut distinct: Vec<&[Value]> = keys.iter().map(Vec::as_slice).collect();
    distinct.sort_unstable_by(|a, b| others(a, column).cmp(&others(b, column)).then_with(|| a.cmp(b)));
    distinct.dedup();
    let alike = distinct.chunk_by(|a, b| others(a, column) == others(b, column));
    let groups = alike.flat_map(|keys| keys.chunks(max_keys));
    groups.map(|keys| KeyGroup { column, keys: keys.to_vec() }).collect()
}

/// The columns of a key without this one.
fn others(key: &[Value], column: usize) -> (&[Value], &[Value]) {
    (&key[..column], &key[column + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        key,
        store::schema::{DELIVERY, EVENT_LOG, THESIS, TOKEN_TOTALS},
    };

    /// Column, keys and partitions of each group.
    fn sizes(table: &Table, keys: &[Vec<Value>]) -> Vec<(usize, usize, usize)> {
        let groups = key_groups(table, keys);
        groups.iter().map(|group| (group.column, group.keys.len(), group.partition_count(table))).collect()
    }

    #[test]
    fn keys_that_differ_in_the_last_column_share_a_request() {
        let theses: Vec<_> = (0..25).map(|number| key!["live", format!("th_{number}")]).collect();
        assert_eq!(sizes(&THESIS, &theses), [(1, 10, 10), (1, 10, 10), (1, 5, 5)]);
        let datasets = ["live", "sandbox", "live"].map(|dataset| key![dataset, "th_1"]);
        assert_eq!(sizes(&THESIS, &datasets), [(1, 1, 1), (1, 1, 1)]);
        let entry = |(bucket, seq): (i64, i64)| key!["live", bucket, seq];
        let entries = [(0, 7), (0, 9), (1, 10_007), (0, 7)].map(entry);
        assert_eq!(sizes(&EVENT_LOG, &entries), [(2, 2, 1), (2, 1, 1)]);
        assert!(key_groups(&THESIS, &[]).is_empty());
    }

    #[test]
    fn either_the_partition_or_the_row_differs() {
        let tokens: Vec<_> = (0..12).map(|token| key!["live", format!("tk_{token}"), ""]).collect();
        assert_eq!(sizes(&TOKEN_TOTALS, &tokens), [(1, 10, 10), (1, 2, 2)]);
        let authors: Vec<_> = (0..40).map(|author| key!["live", "tk_1", format!("fp_{author}")]).collect();
        assert_eq!(sizes(&TOKEN_TOTALS, &authors), [(2, 32, 1), (2, 8, 1)]);
    }

    #[test]
    fn keys_that_differ_in_more_columns_are_read_alone() {
        let deliveries: Vec<_> = (0..3_i64).map(|at| key!["wh_1", 0, 1, at, format!("dl_{at}")]).collect();
        assert_eq!(sizes(&DELIVERY, &deliveries).len(), 3);
    }
}

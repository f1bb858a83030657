//! Divides the keys of a read into groups. One group is one request.
//!
//! A request costs more than a small row, so keys that differ in one column alone share a request. If that column is in
//! the partition key, the node that gets the request reads each partition from its replicas. So the replicas' work is
//! that of a read for each partition, and the bound of concurrent requests counts partitions.
//!
//! Keys that differ in the last column of the partition key and in that of the row share a request too. It has a list
//! of values for each of the two columns, so it also reads the rows of other pairs of these values. Such groups are
//! small. Logs have none: their partitions are large, and each value is looked up in each of them.

use std::collections::BTreeSet;

use crate::store::{Table, Value, Writes};

/// Maximum number of partitions of a group, which one node reads at once.
const MAX_PARTITIONS: usize = 10;
/// Maximum number of rows of a group in one partition. It bounds the size of an answer.
const MAX_ROWS: usize = 32;
/// Maximum number of keys of a group that differ in two columns. Some clusters refuse more than 25 pairs of values.
const MAX_PAIRS: usize = 5;

/// Different keys that are the same in all columns but one or two.
pub(crate) struct KeyGroup<'a> {
    /// The indexes of these columns among the columns of the key; twice the same for one column.
    pub(super) columns: [usize; 2],
    pub(crate) keys: Vec<&'a [Value]>,
}

impl KeyGroup<'_> {
    /// The different values in a column.
    pub(super) fn values(&self, column: usize) -> BTreeSet<&Value> {
        self.keys.iter().map(|key| &key[column]).collect()
    }

    pub(super) fn partition_count(&self, table: &Table) -> usize {
        let [first, _] = self.columns;
        if first < table.partition.len() { self.values(first).len() } else { 1 }
    }
}

/// Divides the whole keys of rows into groups. They differ in the last column of the partition key or of the whole key,
/// or in both, whichever gives the fewest groups.
pub(crate) fn key_groups<'a>(table: &Table, keys: &'a [Vec<Value>]) -> Vec<KeyGroup<'a>> {
    let partition = table.partition.len() - 1;
    let row = partition + table.clustering.len();
    let mut groups = vec![groups_by([partition; 2], keys, MAX_PARTITIONS)];
    if row > partition {
        groups.push(groups_by([row; 2], keys, MAX_ROWS));
        if table.writes == Writes::Versioned {
            groups.push(groups_by([partition, row], keys, MAX_PAIRS));
        }
    }
    groups.into_iter().min_by_key(Vec::len).unwrap_or_default()
}

fn groups_by(columns: [usize; 2], keys: &[Vec<Value>], max_keys: usize) -> Vec<KeyGroup<'_>> {
    let mut distinct: Vec<&[Value]> = keys.iter().map(Vec::as_slice).collect();
    distinct.sort_unstable_by(|a, b| others(a, columns).cmp(others(b, columns)).then_with(|| a.cmp(b)));
    distinct.dedup();
    let alike = distinct.chunk_by(|a, b| others(a, columns).eq(others(b, columns)));
    let groups = alike.flat_map(|keys| keys.chunks(max_keys));
    groups.map(|keys| KeyGroup { columns, keys: keys.to_vec() }).collect()
}

/// The columns of a key without these.
fn others(key: &[Value], columns: [usize; 2]) -> impl Iterator<Item = &Value> {
    key.iter().enumerate().filter(move |(index, _)| !columns.contains(index)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        key,
        store::schema::{DELIVERY, EVENT_LOG, THESIS, TOKEN_TOTALS},
    };

    /// Columns, keys and partitions of each group.
    fn sizes(table: &Table, keys: &[Vec<Value>]) -> Vec<([usize; 2], usize, usize)> {
        let groups = key_groups(table, keys);
        groups.iter().map(|group| (group.columns, group.keys.len(), group.partition_count(table))).collect()
    }

    #[test]
    fn keys_that_differ_in_the_last_column_share_a_request() {
        let theses: Vec<_> = (0..25).map(|number| key!["live", format!("th_{number}")]).collect();
        assert_eq!(sizes(&THESIS, &theses), [([1; 2], 10, 10), ([1; 2], 10, 10), ([1; 2], 5, 5)]);
        let datasets = ["live", "sandbox", "live"].map(|dataset| key![dataset, "th_1"]);
        assert_eq!(sizes(&THESIS, &datasets), [([1; 2], 1, 1), ([1; 2], 1, 1)]);
        let entry = |(bucket, seq): (i64, i64)| key!["live", bucket, seq];
        let entries = [(0, 7), (0, 9), (1, 10_007), (0, 7)].map(entry);
        assert_eq!(sizes(&EVENT_LOG, &entries), [([2; 2], 2, 1), ([2; 2], 1, 1)]);
        assert!(key_groups(&THESIS, &[]).is_empty());
    }

    #[test]
    fn either_the_partition_or_the_row_differs() {
        let tokens: Vec<_> = (0..12).map(|token| key!["live", format!("tk_{token}"), ""]).collect();
        assert_eq!(sizes(&TOKEN_TOTALS, &tokens), [([1; 2], 10, 10), ([1; 2], 2, 2)]);
        let authors: Vec<_> = (0..40).map(|author| key!["live", "tk_1", format!("fp_{author}")]).collect();
        assert_eq!(sizes(&TOKEN_TOTALS, &authors), [([2; 2], 32, 1), ([2; 2], 8, 1)]);
    }

    #[test]
    fn few_pairs_of_partition_and_row_share_a_request() {
        let pair = |(token, author): (usize, usize)| key!["live", format!("tk_{token}"), format!("fp_{author}")];
        let pairs: Vec<_> = (0..12).map(|number| pair((number, number))).collect();
        assert_eq!(sizes(&TOKEN_TOTALS, &pairs), [([1, 2], 5, 5), ([1, 2], 5, 5), ([1, 2], 2, 2)]);
        let pairs = [(1, 1), (2, 2), (1, 3), (1, 1)].map(pair);
        assert_eq!(sizes(&TOKEN_TOTALS, &pairs), [([1, 2], 3, 2)]);
        let datasets = ["live", "sandbox"].map(|dataset| key![dataset, "tk_1", "fp_1"]);
        assert_eq!(sizes(&TOKEN_TOTALS, &datasets).len(), 2);
    }

    #[test]
    fn keys_that_differ_in_more_columns_are_read_alone() {
        let deliveries: Vec<_> = (0..3_i64).map(|at| key!["wh_1", 0, 1, at, format!("dl_{at}")]).collect();
        assert_eq!(sizes(&DELIVERY, &deliveries).len(), 3);
    }
}

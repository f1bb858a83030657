//! Reads of one moment.

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction, TableDefinition, TableError};

use super::{dataset_numbers::DatasetNumbers, key, row::StoredRow};
use crate::store::{Row, Scan, Table, Value};

/// The rows of one file at one moment.
pub(super) struct Snapshot<'s> {
    pub(super) tx: ReadTransaction,
    /// They may hold later datasets too, which have no rows in the snapshot.
    pub(super) numbers: &'s DatasetNumbers,
}

type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Opens a table; `None` if it never had a row.
fn open(snapshot: &Snapshot<'_>, table: &Table) -> Result<Option<Rows>, redb::Error> {
    match snapshot.tx.open_table(TableDefinition::new(table.name)) {
        Ok(rows) => Ok(Some(rows)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn row(clustering: Vec<Value>, value: &[u8]) -> Result<Row, redb::Error> {
    let stored = StoredRow::decode(value)?;
    Ok(Row { clustering, body: Bytes::copy_from_slice(stored.body), version: stored.version })
}

/// Reads rows by their whole keys, in the order of the keys.
pub(super) fn rows<'k>(
    snapshot: &Snapshot<'_>,
    table: &Table,
    keys: impl Iterator<Item = &'k [Value]>,
) -> Result<Vec<Option<Row>>, redb::Error> {
    let Some(rows) = open(snapshot, table)? else {
        return Ok(keys.map(|_| None).collect());
    };
    keys.map(|columns| {
        let Some(key) = snapshot.numbers.key(table, columns) else { return Ok(None) };
        match rows.get(key.as_slice())? {
            Some(value) => row(columns[table.partition.len()..].to_vec(), value.value()).map(Some),
            None => Ok(None),
        }
    })
    .collect()
}

pub(super) fn slice(snapshot: &Snapshot<'_>, scan: &Scan) -> Result<Vec<Row>, redb::Error> {
    let Some(partition) = snapshot.numbers.key(scan.table, &scan.partition) else { return Ok(Vec::new()) };
    let (Some(rows), Some((from, to))) = (open(snapshot, scan.table)?, key::range(scan, &partition)) else {
        return Ok(Vec::new());
    };
    let bounds = (std::ops::Bound::Included(from.as_slice()), to.as_ref().map(Vec::as_slice));
    let mut range = rows.range::<&[u8]>(bounds)?;
    let mut found = Vec::new();
    while found.len() < scan.limit {
        let Some(entry) = (if scan.reverse { range.next_back() } else { range.next() }) else {
            break;
        };
        let (key, value) = entry?;
        let clustering = key::decode(&key.value()[partition.len()..], scan.table.clustering)
            .ok_or_else(|| redb::Error::Corrupted(format!("a key of table {}", scan.table.name)))?;
        found.push(row(clustering, value.value())?);
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn all(snapshot: &Snapshot<'_>, table: &Table) -> Result<Vec<(Vec<Value>, Row)>, redb::Error> {
    use redb::ReadableTable as _;

    use crate::store::{Column, ColumnKind};

    static NUMBER: Column = Column { name: "dataset", kind: ColumnKind::Int };
    let Some(rows) = open(snapshot, table)? else { return Ok(Vec::new()) };
    let is_numbered = table.partition[0].name == NUMBER.name;
    let first = if is_numbered { &NUMBER } else { &table.partition[0] };
    let mut all = Vec::new();
    for entry in rows.iter()? {
        let (key, value) = entry?;
        let columns = std::iter::once(first).chain(&table.partition[1..]).chain(table.clustering);
        let mut key = key::decode(key.value(), columns).expect("a key of this table");
        if is_numbered {
            key[0] = snapshot.numbers.name(key[0].int()).expect("a dataset with a number").into();
        }
        let clustering = key[table.partition.len()..].to_vec();
        all.push((key, row(clustering, value.value())?));
    }
    Ok(all)
}

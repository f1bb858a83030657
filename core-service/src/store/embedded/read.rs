//! Reads inside one read transaction.

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction, TableDefinition, TableError};

use super::{key, row::StoredRow};
use crate::store::{Row, Scan, Table, Value};

type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Opens a table; `None` if it never had a row.
fn open(tx: &ReadTransaction, table: &Table) -> Result<Option<Rows>, redb::Error> {
    match tx.open_table(TableDefinition::new(table.name)) {
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
    tx: &ReadTransaction,
    table: &Table,
    keys: impl Iterator<Item = &'k [Value]>,
) -> Result<Vec<Option<Row>>, redb::Error> {
    let Some(rows) = open(tx, table)? else {
        return Ok(keys.map(|_| None).collect());
    };
    keys.map(|columns| match rows.get(key::encode(columns).as_slice())? {
        Some(value) => row(columns[table.partition.len()..].to_vec(), value.value()).map(Some),
        None => Ok(None),
    })
    .collect()
}

pub(super) fn slice(tx: &ReadTransaction, scan: &Scan) -> Result<Vec<Row>, redb::Error> {
    let (Some(rows), Some((from, to))) = (open(tx, scan.table)?, key::range(scan)) else {
        return Ok(Vec::new());
    };
    let partition = key::encode(&scan.partition).len();
    let bounds = (std::ops::Bound::Included(from.as_slice()), to.as_ref().map(Vec::as_slice));
    let mut range = rows.range::<&[u8]>(bounds)?;
    let mut found = Vec::new();
    while found.len() < scan.limit {
        let Some(entry) = (if scan.reverse { range.next_back() } else { range.next() }) else {
            break;
        };
        let (key, value) = entry?;
        let clustering = key::decode(&key.value()[partition..], scan.table.clustering)
            .ok_or_else(|| redb::Error::Corrupted(format!("a key of table {}", scan.table.name)))?;
        found.push(row(clustering, value.value())?);
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn all(tx: &ReadTransaction, table: &Table) -> Result<Vec<(Vec<Value>, Row)>, redb::Error> {
    use redb::ReadableTable as _;

    let Some(rows) = open(tx, table)? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for entry in rows.iter()? {
        let (key, value) = entry?;
        let key =
            key::decode(key.value(), table.partition.iter().chain(table.clustering)).expect("a key of this table");
        let clustering = key[table.partition.len()..].to_vec();
        all.push((key, row(clustering, value.value())?));
    }
    Ok(all)
}

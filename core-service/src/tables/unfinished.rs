//! Logs that cores append to: a row for each log and core. The core writes it before its first append after a rest, and
//! removes it once everything that the log asks for is done. What a dead core left undone is found by it.

use std::ops::Bound;

use bytes::Bytes;

use super::spread;
use crate::{
    domain::dataset::Dataset,
    key,
    store::{Change, Row, Scan, SharedBackend, StoreResult, schema},
};

/// Logs are spread over this number of partitions.
const SHARDS: i64 = 8;
/// Most rows read at once.
const PAGE: usize = 1_000;

/// A log that may have work left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The log.
    pub dataset: String,
    /// The core that appends to it.
    pub replica: String,
    /// When the core last said so, in unix milliseconds.
    pub at: i64,
}

fn change(row: &Unfinished, version: i64, body: Option<Bytes>) -> Change {
    let key = key![spread(&row.dataset, SHARDS), &row.dataset, &row.replica];
    Change { table: &schema::UNFINISHED, key, version, body, ttl: None }
}

fn read(row: &Row) -> Option<Unfinished> {
    let (dataset, replica) = (row.clustering.first()?.text().to_owned(), row.clustering.get(1)?.text().to_owned());
    Some(Unfinished { dataset, replica, at: row.version })
}

/// Notes that a core appends to a log.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn note(backend: &SharedBackend, row: &Unfinished) -> StoreResult<()> {
    backend.apply(vec![change(row, row.at, Some(Bytes::new()))]).await
}

/// Removes rows, unless they were written again.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn remove(backend: &SharedBackend, rows: &[Unfinished]) -> StoreResult<()> {
    backend.apply(rows.iter().map(|row| change(row, row.at + 1, None)).collect()).await
}

/// The rows of one log.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn of(backend: &SharedBackend, dataset: &Dataset) -> StoreResult<Vec<Unfinished>> {
    let name = dataset.to_string();
    let mut scan = Scan::all(&schema::UNFINISHED, key![spread(&name, SHARDS)], PAGE);
    scan.from = Bound::Included(key![&name]);
    scan.to = Bound::Included(key![&name]);
    Ok(backend.scan(&scan).await?.iter().filter_map(read).collect())
}

/// The rows of all logs.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn all(backend: &SharedBackend) -> StoreResult<Vec<Unfinished>> {
    let mut found = Vec::new();
    for shard in 0..SHARDS {
        let mut scan = Scan::all(&schema::UNFINISHED, key![shard], PAGE);
        loop {
            let rows = backend.scan(&scan).await?;
            found.extend(rows.iter().filter_map(read));
            match rows.last() {
                Some(last) if rows.len() == PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => break,
            }
        }
    }
    Ok(found)
}

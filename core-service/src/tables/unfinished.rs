//! Logs that cores append to: a row for each log and core, or for each log and writer on the embedded store. It is
//! written before the first append after a rest, and removed once all work for the own entries is done. Another core,
//! or the next start, finds the work of a dead core by its rows.

use std::ops::Bound;

use bytes::Bytes;

use super::shard_of_name;
use crate::{
    domain::dataset::Dataset,
    key,
    store::{Change, Row, Scan, SharedBackend, StoreResult, schema},
};

/// Logs are spread over this number of partitions.
const SHARDS: i64 = 8;
/// Maximum number of rows in one read.
const PAGE: usize = 1_000;

/// A log that may have work left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedLog {
    pub dataset: String,
    /// The core that appends to it; on the embedded store, the writer.
    pub replica: String,
    /// Time of the core's last write of the row, in unix milliseconds.
    pub at: i64,
}

fn change(row: &UnfinishedLog, version: i64, body: Option<Bytes>) -> Change {
    let key = key![shard_of_name(&row.dataset, SHARDS), &row.dataset, &row.replica];
    Change { table: &schema::UNFINISHED, key, version, body, ttl: None }
}

fn decode(row: &Row) -> Option<UnfinishedLog> {
    let (dataset, replica) = (row.clustering.first()?.text().to_owned(), row.clustering.get(1)?.text().to_owned());
    Some(UnfinishedLog { dataset, replica, at: row.version })
}

/// Writes that a core appends to a log.
pub async fn write(backend: &SharedBackend, row: &UnfinishedLog) -> StoreResult<()> {
    backend.apply(vec![change(row, row.at, Some(Bytes::new()))]).await
}

/// Removes rows, unless they were written again.
pub async fn remove(backend: &SharedBackend, rows: &[UnfinishedLog]) -> StoreResult<()> {
    backend.apply(rows.iter().map(|row| change(row, row.at + 1, None)).collect()).await
}

pub async fn list_of(backend: &SharedBackend, dataset: &Dataset) -> StoreResult<Vec<UnfinishedLog>> {
    let name = dataset.to_string();
    let mut scan = Scan::all(&schema::UNFINISHED, key![shard_of_name(&name, SHARDS)], PAGE);
    scan.from = Bound::Included(key![&name]);
    scan.to = Bound::Included(key![&name]);
    Ok(backend.scan(&scan).await?.iter().filter_map(decode).collect())
}

pub async fn list_all(backend: &SharedBackend) -> StoreResult<Vec<UnfinishedLog>> {
    let mut found = Vec::new();
    for shard in 0..SHARDS {
        let mut scan = Scan::all(&schema::UNFINISHED, key![shard], PAGE);
        loop {
            let rows = backend.scan(&scan).await?;
            found.extend(rows.iter().filter_map(decode));
            match rows.last() {
                Some(last) if rows.len() == PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => break,
            }
        }
    }
    Ok(found)
}

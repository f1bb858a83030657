//! The number of requests of keys by hour and class, and the time of each key's last use.

use std::{collections::HashMap, ops::Bound};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;

use crate::{
    domain::{
        account::KeyUsageRow,
        operation::RateClass,
        window::{DAY_MS, HOUR_MS},
    },
    key,
    store::{Change, Row, Scan, SharedBackend, StoreError, StoreResult, Value, schema},
};

/// Retention time of counts, in milliseconds.
pub const RETENTION_MS: i64 = 90 * DAY_MS;
/// Maximum number of rows in one read.
const PAGE: usize = 5_000;
/// Number of days that are read concurrently.
const CONCURRENT_DAYS: usize = 8;

/// Number of requests, and of requests that were refused or failed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Requests {
    #[prost(uint64, tag = "1")]
    pub requests: u64,
    #[prost(uint64, tag = "2")]
    pub errors: u64,
}

impl Requests {
    pub const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            errors: self.errors.saturating_add(other.errors),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageKey {
    pub project: String,
    pub key: String,
    /// Start of the hour, in Unix milliseconds.
    pub hour: i64,
    pub class: RateClass,
}

impl UsageKey {
    fn row(&self, replica: &str) -> Vec<Value> {
        let day = self.hour.div_euclid(DAY_MS);
        key![&self.project, day, self.hour, &self.key, self.class.as_str(), replica]
    }
}

fn decode(row: &Row) -> StoreResult<Requests> {
    Requests::decode(row.body.clone()).map_err(|error| StoreError::Damaged(format!("key usage: {error}")))
}

/// The change that stores a replica's count; `version` is the time of the write in Unix milliseconds, and grows.
pub fn change(of: &UsageKey, replica: &str, count: Requests, version: i64) -> Change {
    Change {
        table: &schema::KEY_USAGE,
        key: of.row(replica),
        version,
        body: Some(count.encode_to_vec().into()),
        ttl: u32::try_from(RETENTION_MS / 1_000).ok(),
    }
}

/// The change that stores the time of a key's last use, in Unix milliseconds. An earlier time changes nothing.
pub fn use_change(project: &str, key: &str, at: i64) -> Change {
    Change { table: &schema::KEY_USE, key: key![project, key], version: at, body: Some(Bytes::new()), ttl: None }
}

/// Reads a replica's own counts with their versions, in the same order. A missing count is zero.
pub async fn own(backend: &SharedBackend, of: &[UsageKey], replica: &str) -> StoreResult<Vec<(Requests, i64)>> {
    let keys: Vec<_> = of.iter().map(|of| of.row(replica)).collect();
    let rows = backend.get_many(&schema::KEY_USAGE, &keys).await?;
    let count = |row: Option<Row>| match row {
        Some(row) => Ok((decode(&row)?, row.version)),
        None => Ok((Requests::default(), 0)),
    };
    rows.into_iter().map(count).collect()
}

/// Reads a project's requests by hour, key and class, oldest first. The range goes from the hour of `from_ms` to the
/// hour of `to_ms`, both in Unix milliseconds, and covers at most 90 days.
pub async fn list(backend: &SharedBackend, project: &str, from_ms: i64, to_ms: i64) -> StoreResult<Vec<KeyUsageRow>> {
    let hour = |ms: i64| ms - ms.rem_euclid(HOUR_MS);
    let (from, to) = (hour(from_ms.max(to_ms.saturating_sub(RETENTION_MS))), hour(to_ms));
    let days = from.div_euclid(DAY_MS)..=to.div_euclid(DAY_MS);
    let reads: Vec<_> = days.map(|day| list_day(backend, project, day, from, to)).collect();
    let days: Vec<Vec<KeyUsageRow>> = stream::iter(reads).buffered(CONCURRENT_DAYS).try_collect().await?;
    Ok(days.into_iter().flatten().collect())
}

async fn list_day(
    backend: &SharedBackend,
    project: &str,
    day: i64,
    from: i64,
    to: i64,
) -> StoreResult<Vec<KeyUsageRow>> {
    let mut scan = Scan {
        from: Bound::Included(key![from]),
        to: Bound::Included(key![to]),
        ..Scan::all(&schema::KEY_USAGE, key![project, day], PAGE)
    };
    let mut found: Vec<KeyUsageRow> = Vec::new();
    loop {
        let rows = backend.scan(&scan).await?;
        for row in &rows {
            let Requests { requests, errors } = decode(row)?;
            let [hour, key, class, ..] = &*row.clustering else { continue };
            match found.last_mut() {
                // This is another replica's row of the same key, hour and class.
                Some(last) if (last.hour, &*last.key, &*last.class) == (hour.int(), key.text(), class.text()) => {
                    last.requests = last.requests.saturating_add(requests);
                    last.errors = last.errors.saturating_add(errors);
                }
                _ => found.push(KeyUsageRow {
                    hour: hour.int(),
                    key: key.text().to_owned(),
                    class: class.text().to_owned(),
                    requests,
                    errors,
                }),
            }
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
            _ => return Ok(found),
        }
    }
}

/// Reads the times of the last use of a project's keys in Unix milliseconds, by the key's id. The result omits unused
/// keys.
pub async fn last_uses(backend: &SharedBackend, project: &str) -> StoreResult<HashMap<String, i64>> {
    let mut scan = Scan::all(&schema::KEY_USE, key![project], PAGE);
    let mut found = HashMap::new();
    loop {
        let rows = backend.scan(&scan).await?;
        let uses = rows.iter().filter_map(|row| Some((row.clustering.first()?.text().to_owned(), row.version)));
        found.extend(uses);
        match rows.last() {
            Some(last) if rows.len() == PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
            _ => return Ok(found),
        }
    }
}

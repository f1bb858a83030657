//! Counts that replicas keep together: each writes its own row, and reads the others'.

use bytes::Bytes;

use crate::{
    key,
    store::{Change, Scan, SharedBackend, StoreResult, Table, Value, schema},
};

/// Maximum number of replicas with a row of one count.
const MAX_REPLICAS: usize = 100_000;

/// A table of counts. The replica is its clustering key, the version is the time of the write.
#[derive(Clone, Copy, Debug)]
pub struct CountTable {
    table: &'static Table,
    /// Retention time of a count in seconds; none keeps it forever.
    retention: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct CountKey(Vec<Value>);

impl CountKey {
    pub fn of_minute(subject: String, minute: i64) -> Self {
        Self(key![subject, minute])
    }

    pub fn of_month(organization: &str, month: &str) -> Self {
        Self(key![organization, month])
    }
}

#[derive(Debug)]
pub struct CountRow {
    pub replica: String,
    /// Time of the write in Unix milliseconds. It grows with each write, whatever the clock says.
    pub version: i64,
    pub count: u64,
}

impl CountTable {
    /// Counts of minutes, each kept for `seconds`.
    pub fn minutes(seconds: u32) -> Self {
        Self { table: &schema::MINUTE_COUNT, retention: Some(seconds) }
    }

    /// Counts of months, kept forever, even if no other replica reads them.
    pub fn months() -> Self {
        Self { table: &schema::USAGE, retention: None }
    }

    pub const fn is_permanent(&self) -> bool {
        self.retention.is_none()
    }

    pub const fn name(&self) -> &'static str {
        self.table.name
    }

    pub async fn write(&self, backend: &SharedBackend, key: CountKey, row: CountRow) -> StoreResult<()> {
        let mut key = key.0;
        key.push(row.replica.into());
        let body = Some(Bytes::copy_from_slice(&row.count.to_be_bytes()));
        backend.apply(vec![Change { table: self.table, key, version: row.version, body, ttl: self.retention }]).await
    }

    pub async fn read(&self, backend: &SharedBackend, key: CountKey) -> StoreResult<Vec<CountRow>> {
        let rows = backend.scan(&Scan::all(self.table, key.0, MAX_REPLICAS)).await?;
        let rows = rows.iter().filter_map(|row| {
            let replica = row.clustering.first()?.text().to_owned();
            let count = row.body.as_ref().try_into().map_or(0, u64::from_be_bytes);
            Some(CountRow { replica, version: row.version, count })
        });
        Ok(rows.collect())
    }
}

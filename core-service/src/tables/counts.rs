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

/// The partition of a count.
#[derive(Clone, Debug)]
pub struct CountKey(Vec<Value>);

impl CountKey {
    /// The count of a subject in a minute.
    #[must_use]
    pub fn of_minute(subject: String, minute: i64) -> Self {
        Self(key![subject, minute])
    }

    /// The count of an organization in a month.
    #[must_use]
    pub fn of_month(organization: &str, month: &str) -> Self {
        Self(key![organization, month])
    }
}

/// A replica's count.
#[derive(Debug)]
pub struct CountRow {
    /// The replica.
    pub replica: String,
    /// Time of the write in Unix milliseconds. It grows with each write, whatever the clock says.
    pub version: i64,
    /// The replica's count.
    pub count: u64,
}

impl CountTable {
    /// Counts of minutes, each kept for `seconds`.
    #[must_use]
    pub fn minutes(seconds: u32) -> Self {
        Self { table: &schema::MINUTE_COUNT, retention: Some(seconds) }
    }

    /// Counts of months, kept forever, even if no other replica reads them.
    #[must_use]
    pub fn months() -> Self {
        Self { table: &schema::USAGE, retention: None }
    }

    /// True when its rows are kept forever.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.retention.is_none()
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.table.name
    }

    /// Writes a replica's count.
    pub async fn write(&self, backend: &SharedBackend, key: CountKey, row: CountRow) -> StoreResult<()> {
        let mut key = key.0;
        key.push(row.replica.into());
        let body = Some(Bytes::copy_from_slice(&row.count.to_be_bytes()));
        backend.apply(vec![Change { table: self.table, key, version: row.version, body, ttl: self.retention }]).await
    }

    /// Reads the counts of all replicas.
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

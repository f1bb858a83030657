//! The storage layer: wide-column tables, two kinds of write, two implementations.
//!
//! A table is a descriptor. Its key columns stay readable in CQL, and its body is protobuf bytes beside a version. The
//! repositories above give the tables their meaning; they are written once for both backends.

pub mod embedded;
pub(crate) mod observed;
pub mod schema;
pub mod scylla;

use std::{ops::Bound, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use tokio::sync::{mpsc, watch};

/// A column of a key.
#[derive(Debug)]
pub struct Column {
    /// The name in CQL.
    pub name: &'static str,
    /// The type.
    pub kind: ColumnKind,
}

/// Types of key columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// `text`, ordered by its UTF-8 bytes.
    Text,
    /// `bigint`.
    Int,
}

/// The kind of writes to a table. The two kinds never mix on one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// By [`Backend::apply`]: the highest version wins, in any order of arrival.
    Versioned,
    /// By [`Backend::transact`]: a condition decides.
    Conditional,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// The name in CQL.
    pub name: &'static str,
    /// The columns of the partition key.
    pub partition: &'static [Column],
    /// The clustering columns; none for tables of one row a partition.
    pub clustering: &'static [Column],
    /// True if reads mostly go from the highest key down. This is a hint for the layout and changes no result.
    pub descending: bool,
    /// The kind of writes to the table.
    pub writes: Writes,
}

/// A value of a key column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// `text`
    Text(String),
    /// `bigint`
    Int(i64),
}

impl Value {
    /// The text; empty for an integer.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Int(_) => "",
        }
    }

    /// The integer; 0 for a text.
    #[must_use]
    pub fn int(&self) -> i64 {
        match self {
            Self::Text(_) => 0,
            Self::Int(int) => *int,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

/// Creates a `Vec<Value>` of a key's columns.
#[macro_export]
macro_rules! key {
    ($($value:expr),* $(,)?) => { $crate::store::columns([$($crate::store::Value::from($value)),*]) };
}

/// The columns of a key.
#[must_use]
pub fn columns<const N: usize>(values: [Value; N]) -> Vec<Value> {
    values.into()
}

/// A row as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The clustering columns.
    pub clustering: Vec<Value>,
    /// The body.
    pub body: Bytes,
    /// The version of the last write.
    pub version: i64,
}

/// The writes that a read must see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// All acknowledged writes (CQL: LOCAL_QUORUM).
    #[default]
    Quorum,
    /// Also completes or refutes conditional writes in doubt (CQL: LOCAL_SERIAL).
    Serial,
}

/// A slice of one partition.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table.
    pub table: &'static Table,
    /// All columns of the partition key.
    pub partition: Vec<Value>,
    /// Lower bound: a prefix of the clustering columns, compared as a tuple of as many columns.
    pub from: Bound<Vec<Value>>,
    /// Upper bound, likewise.
    pub to: Bound<Vec<Value>>,
    /// True to read from the highest key down.
    pub reverse: bool,
    /// Maximum number of rows.
    pub limit: usize,
    /// The writes that the read must see.
    pub consistency: Consistency,
}

impl Scan {
    /// A scan of a whole partition from the lowest key up, of at most `limit` rows.
    #[must_use]
    pub fn all(table: &'static Table, partition: Vec<Value>, limit: usize) -> Self {
        Self {
            table,
            partition,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            reverse: false,
            limit,
            consistency: Consistency::Quorum,
        }
    }
}

/// An unconditional change of one row of a [`Writes::Versioned`] table.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table.
    pub table: &'static Table,
    /// Partition and clustering columns.
    pub key: Vec<Value>,
    /// The version. A change with a lower version than the row's does nothing; one with the same version may be
    /// repeated. If a deletion and a put have the same version, the deletion wins on CQL; callers do not rely on it.
    pub version: i64,
    /// The new body, or a deletion.
    pub body: Option<Bytes>,
    /// Seconds after which the store may remove the row. Readers check times themselves.
    pub ttl: Option<u32>,
}

/// The condition of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The row has no condition.
    Any,
    /// The row does not exist.
    Absent,
    /// The row has this version.
    Version(i64),
}

/// One row of a conditional write.
#[derive(Clone, Debug)]
pub struct ConditionalWrite {
    /// The clustering columns.
    pub clustering: Vec<Value>,
    /// The condition on the row.
    pub expect: Expect,
    /// The row's new version.
    pub version: i64,
    /// The new body, or a deletion.
    pub body: Option<Bytes>,
}

/// Rows of one partition of a [`Writes::Conditional`] table, written together if every condition holds.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The table.
    pub table: &'static Table,
    /// All columns of the partition key.
    pub partition: Vec<Value>,
    /// The rows; each at most once, at least one with a condition.
    pub writes: Vec<ConditionalWrite>,
    /// Seconds after which the store may remove the rows.
    pub ttl: Option<u32>,
}

/// The error of a store operation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or has no room. Nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A write may or may not have happened.
    #[error("a write is in doubt: {0}")]
    InDoubt(String),
    /// The stored data cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A newer version wrote the data. A caller that skips it loses it.
    #[error("the store holds what this version does not know: {0}")]
    Unknown(String),
}

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// A piece of a backup's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPiece {
    /// The bytes of the piece.
    pub bytes: Vec<u8>,
    /// Number of rows in the file up to the end of the piece.
    pub rows: u64,
    /// Number of rows of the whole file.
    pub of: u64,
}

/// The response to a request for a backup.
#[derive(Debug)]
pub enum Backup {
    /// The backup runs. The channel has its pieces in order; it ends when the receiver is dropped.
    Begun(mpsc::Receiver<StoreResult<BackupPiece>>),
    /// Another backup runs.
    Busy,
    /// The store has its own backup tools.
    Elsewhere,
}

/// Maximum size of the changes of one partition that [`Backend::apply`] makes together.
pub const MAX_ATOMIC_BYTES: usize = 50 * 1024;

/// A store of wide-column tables.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Reads one row by its whole key (partition, then clustering columns).
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>>;

    /// Reads several rows of one table by their whole keys, in the order of the keys.
    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>>;

    /// Reads a slice of one partition.
    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>>;

    /// Reads slices as [`Backend::scan`] does, in their order. None is of a log. The embedded store reads them from one
    /// snapshot.
    async fn scan_many(&self, scans: &[Scan]) -> StoreResult<Vec<Vec<Row>>> {
        try_join_all(scans.iter().map(|scan| self.scan(scan))).await
    }

    /// Applies changes to versioned tables. Each row is atomic, and so are the changes of one partition together if
    /// their bodies and 64 bytes for each are at most [`MAX_ATOMIC_BYTES`]. The order is not promised. The embedded
    /// store applies all of them in one transaction. It does not wait for the disk: a crash may undo the changes, but
    /// then it also undoes every later [`Backend::apply`] and [`Backend::transact`]. Only writes of logs and of
    /// [`schema::UNFINISHED`] stay: they are durable at once, and no crash undoes them.
    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()>;

    /// Writes rows of one partition if every condition holds. Returns whether it did. The write is durable on return.
    async fn transact(&self, transaction: Transaction) -> StoreResult<bool>;

    /// Writes as [`Backend::transact`] does, but not to a log, and then, if every condition held, applies changes as
    /// [`Backend::apply`] does. The embedded store does both in one durable transaction. After an error the changes may
    /// be missing.
    async fn transact_with(&self, transaction: Transaction, beside: Vec<Change>) -> StoreResult<bool> {
        let holds = self.transact(transaction).await?;
        if holds && !beside.is_empty() {
            self.apply(beside).await?;
        }
        Ok(holds)
    }

    /// True if no other process can write to the store.
    fn is_exclusive(&self) -> bool;

    /// A channel that is true while the store counts as away, because it was silent for too long; none for a store that
    /// is never away.
    fn away(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Makes the changes of earlier [`Backend::apply`] calls durable. On CQL every acknowledged change is durable
    /// already.
    async fn sync(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Checks that the store answers.
    async fn check(&self) -> StoreResult<()>;

    /// Writes `records`, which note a backup, then begins a backup of the whole store, these records included. The
    /// backup has the time of its begin. If no backup begins, no record is written.
    async fn backup(&self, _created_at_ms: i64, _records: Vec<Change>) -> StoreResult<Backup> {
        Ok(Backup::Elsewhere)
    }

    /// Removes expired rows, if the store does not do so itself.
    async fn sweep(&self, now_ms: i64) -> StoreResult<()>;

    /// Makes all changes durable before the process ends.
    async fn close(&self) -> StoreResult<()>;
}

/// A shared backend.
pub type SharedBackend = Arc<dyn Backend>;

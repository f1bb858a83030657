//! The narrow storage layer: wide-column tables, two kinds of write, two implementations.
//!
//! A table is a descriptor; its key columns stay readable in CQL, its body is protobuf bytes beside a version. What the
//! tables mean is the business of the repositories above, which are written once for both backends.

#[cfg(test)]
mod conformance;
pub mod embedded;
#[cfg(test)]
pub(crate) mod faulty;
pub mod observed;
pub mod schema;
pub mod scylla;

use std::{ops::Bound, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

/// A column of a key.
#[derive(Debug)]
pub struct Column {
    /// Its name in CQL.
    pub name: &'static str,
    /// Its type.
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

/// How a table is written; the two never mix on one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// By [`Backend::apply`]: the highest version wins, whatever the order of arrival.
    Versioned,
    /// By [`Backend::transact`]: a condition decides.
    Conditional,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name in CQL.
    pub name: &'static str,
    /// The columns of the partition key.
    pub partition: &'static [Column],
    /// The clustering columns; none for tables of one row a partition.
    pub clustering: &'static [Column],
    /// Rows are mostly read from the highest key down; a hint for the layout, not for the meaning.
    pub descending: bool,
    /// How it is written.
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

/// Makes a `Vec<Value>` of a key's columns.
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
    /// The version it was written with.
    pub version: i64,
}

/// What a read must see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Everything acknowledged (CQL: LOCAL_QUORUM).
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
    /// From the highest key down.
    pub reverse: bool,
    /// Rows at most.
    pub limit: usize,
    /// What it must see.
    pub consistency: Consistency,
}

impl Scan {
    /// A whole partition, upward, up to `limit` rows.
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
    /// The version; a change with a lower version than the row's does nothing, one with the same version may be repeated.
    /// Where a deletion and a put have the same version, the deletion wins on CQL; callers do not rely on it.
    pub version: i64,
    /// The new body, or a deletion.
    pub body: Option<Bytes>,
    /// Seconds after which the row may be cleaned away. Readers check times themselves.
    pub ttl: Option<u32>,
}

/// What must hold for a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No condition on this row.
    Any,
    /// There is no such row.
    Absent,
    /// The row has this version.
    Version(i64),
}

/// One row of a conditional write.
#[derive(Clone, Debug)]
pub struct ConditionalWrite {
    /// The clustering columns.
    pub clustering: Vec<Value>,
    /// What must hold.
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
    /// Seconds after which the rows may be cleaned away.
    pub ttl: Option<u32>,
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or is out of room. Nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A write may or may not have happened.
    #[error("a write is in doubt: {0}")]
    InDoubt(String),
    /// What is stored cannot be read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// What is stored was written by a newer version. Who passes it over loses it.
    #[error("the store holds what this version does not know: {0}")]
    Unknown(String),
}

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// A piece of a backup's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPiece {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Rows in the file up to its end.
    pub rows: u64,
    /// Rows that the whole file will have.
    pub of: u64,
}

/// What became of the wish for a backup.
#[derive(Debug)]
pub enum Backup {
    /// It is made: its pieces in order, as fast as they are taken. It ends when they are no longer wanted.
    Begun(mpsc::Receiver<StoreResult<BackupPiece>>),
    /// Another one is being made.
    Busy,
    /// The store has tools of its own.
    Elsewhere,
}

/// A store of wide-column tables.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Reads one row by its whole key (partition, then clustering columns).
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>>;

    /// Reads several rows of one table by their whole keys; answers in the order asked.
    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>>;

    /// Reads a slice of one partition.
    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>>;

    /// Makes changes to versioned tables, each row atomic, in no promised order; embedded makes them one transaction.
    /// Does not wait for the disk on embedded: after a crash it may be undone, but never while something that
    /// [`Backend::apply`] or [`Backend::transact`] did later remains.
    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()>;

    /// Writes rows of one partition if every condition holds; tells whether it did. Durable when it returns.
    async fn transact(&self, transaction: Transaction) -> StoreResult<bool>;

    /// Writes as [`Backend::transact`] does and then, if every condition held, makes changes as [`Backend::apply`] does;
    /// embedded makes it one transaction, durable as a whole. When it fails, the changes may be missing.
    async fn transact_with(&self, transaction: Transaction, beside: Vec<Change>) -> StoreResult<bool> {
        let holds = self.transact(transaction).await?;
        if holds && !beside.is_empty() {
            self.apply(beside).await?;
        }
        Ok(holds)
    }

    /// True where this process is the only writer there can be.
    fn is_exclusive(&self) -> bool;

    /// Tells whether the store has been silent for so long that it must count as away; none where it cannot be.
    fn away(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Makes the changes of earlier calls of [`Backend::apply`] durable. On CQL every acknowledged change is durable already.
    async fn sync(&self) -> StoreResult<()> {
        Ok(())
    }

    /// True if the store answers.
    async fn check(&self) -> StoreResult<()>;

    /// Makes changes that tell of a backup, then begins one of everything as it is now, these changes too. It tells the
    /// time that it is of. If none begins, no change is made.
    ///
    /// # Errors
    /// Fails when the store cannot be read or written.
    async fn backup(&self, _created_at_ms: i64, _records: Vec<Change>) -> StoreResult<Backup> {
        Ok(Backup::Elsewhere)
    }

    /// Cleans away expired rows, where the store does not do it itself.
    async fn sweep(&self, now_ms: i64) -> StoreResult<()>;

    /// Makes everything durable before the process ends.
    async fn close(&self) -> StoreResult<()>;
}

/// A backend that is handed around.
pub type SharedBackend = Arc<dyn Backend>;

//! Opens redb, checks its format version and maps its errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Database, ReadableDatabase, TableDefinition, TableError, WriteTransaction};
use thesis_net::panics;

use super::{
    dataset_numbers::DatasetNumbers,
    disk::{Disk, Fence},
    read::Snapshot,
    store_files::Files,
    summed::is_damage,
};
use crate::store::{StoreError, Table};

/// Version of keys, rows and tables in the files.
pub(super) const FORMAT: u64 = 8;
const FORMAT_TABLE: TableDefinition<'static, &str, u64> = TableDefinition::new("_format");
const VERSION: &str = "version";

/// Runs a call to redb; a panic, as a damaged file may cause, becomes an error.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        Err(redb::Error::Corrupted(format!("the engine panicked: {}", panics::text(panic.as_ref()))))
    })
}

/// The error for the caller of a read, or of a write that surely did not happen.
pub(super) fn store_error(file: &str, error: &redb::Error) -> StoreError {
    match error {
        redb::Error::Corrupted(reason) => StoreError::Damaged(format!("{file}: {reason}")),
        other if is_damage(other) => StoreError::Damaged(format!("{file}: {other}")),
        other => StoreError::Unavailable(format!("{file}: {other}")),
    }
}

/// The open files, with the numbers of datasets.
pub(super) struct OpenStore {
    pub(super) databases: Files<Database>,
    pub(super) numbers: DatasetNumbers,
}

impl OpenStore {
    /// Loads the numbers from files whose formats were checked.
    pub(super) fn load(databases: Files<Database>) -> Result<Self, redb::Error> {
        let numbers = guarded(|| DatasetNumbers::load(&databases.log.begin_read()?))?;
        Ok(Self { databases, numbers })
    }

    /// The rows of the file with a table, as they are now.
    pub(super) fn snapshot(&self, table: &Table) -> Result<Snapshot<'_>, redb::Error> {
        Ok(Snapshot { tx: self.databases.of(table.name).begin_read()?, numbers: &self.numbers })
    }
}

/// Begins a transaction in each file.
pub(super) fn begin_write(databases: &Files<Database>) -> Result<Files<WriteTransaction>, redb::Error> {
    databases.as_ref().try_map(|database| Ok::<_, redb::Error>(database.begin_write()?))
}

/// The target of an opened database's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Disk,
    Memory,
}

/// Divides the memory for pages. A flush of the rows' file has many changed pages, and an append has few.
pub(super) const fn caches(bytes: usize) -> Files<usize> {
    Files { log: bytes / 5, rows: bytes - bytes / 5 }
}

/// Opens a file. The fence can end all access to it.
pub(super) fn open(
    disk: &Disk,
    target: Target,
    fence: &Fence,
    cache_bytes: usize,
    verify: bool,
) -> Result<Database, redb::Error> {
    guarded(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes).set_check_integrity_on_open(verify);
        Ok(match target {
            Target::Disk => builder.create_with_backend(disk.direct(fence.clone()))?,
            Target::Memory => builder.create_with_backend(disk.overlay(fence.clone())?)?,
        })
    })
}

/// The format version in the file; `None` in an empty database.
pub(super) fn format(database: &Database) -> Result<Option<u64>, redb::Error> {
    guarded(|| {
        let tx = database.begin_read()?;
        let version = match tx.open_table(FORMAT_TABLE) {
            Ok(table) => table.get(VERSION)?.map(|version| version.value()),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if version.is_none() && tx.list_tables()?.next().is_some() {
            return Err(redb::Error::Corrupted("it has no format version".to_owned()));
        }
        Ok(version)
    })
}

pub(super) fn set_format(database: &Database, version: u64) -> Result<(), redb::Error> {
    guarded(|| {
        let mut tx = database.begin_write()?;
        tx.set_quick_repair(true);
        tx.open_table(FORMAT_TABLE)?.insert(VERSION, version)?;
        Ok(tx.commit()?)
    })
}

/// Commits; a durable commit also stores data to open quickly after a crash.
pub(super) fn commit(mut tx: WriteTransaction, durable: bool) -> Result<(), redb::Error> {
    if durable {
        tx.set_quick_repair(true);
    } else {
        tx.set_durability(redb::Durability::None)?;
    }
    Ok(tx.commit()?)
}

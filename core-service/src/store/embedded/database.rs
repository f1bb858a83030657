//! Opens redb, checks format versions and stamps, commits, and maps errors.
//!
//! Each file has a stamp: the id of its store, the number of its durable commits, and the number of the other file at
//! the last of them. Only durable commits of the other file are noted, so no crash undoes them. A file that lacks a
//! commit which the other one has noted is an older copy. With an older log, rows would follow from entries that it
//! does not have. With older rows, some would be missing, without the mark that makes a start write them again. A clean
//! close makes each file note the last commit of the other one. After a kill, a file has not noted the other one's
//! commits since its own last commit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;
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
pub(super) const FORMAT: u64 = 10;
const FORMAT_TABLE: TableDefinition<'static, &str, u64> = TableDefinition::new("_format");
const VERSION: &str = "version";
const STORE: &str = "store";
const COMMITS: &str = "commits";
const OTHER_COMMITS: &str = "other_commits";

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
    /// Number of durable commits of each file.
    commits: Mutex<Files<u64>>,
}

impl OpenStore {
    /// Loads the numbers from files whose formats were checked. After an error the fence is closed: a database that is
    /// dropped would write again.
    pub(super) fn load(databases: Files<Database>, fence: &Fence) -> Result<Self, redb::Error> {
        let loaded = guarded(|| {
            let numbers = DatasetNumbers::load(&databases.log.begin_read()?)?;
            let commits = databases.as_ref().try_map(|database| Ok::<_, redb::Error>(Stamp::load(database)?.commits));
            Ok((numbers, Mutex::new(commits?)))
        });
        let (numbers, commits) = loaded.inspect_err(|_| fence.close())?;
        Ok(Self { databases, numbers, commits })
    }

    /// Commits to the log's file. Only the writer commits.
    pub(super) fn commit_log(&self, tx: WriteTransaction, durable: bool) -> Result<(), redb::Error> {
        let mut commits = self.commits.lock();
        let (own, other) = (commits.log + u64::from(durable), commits.rows);
        commit(tx, durable.then_some((own, other)))?;
        commits.log = own;
        Ok(())
    }

    /// Commits to the rows' file.
    pub(super) fn commit_rows(&self, tx: WriteTransaction, durable: bool) -> Result<(), redb::Error> {
        let mut commits = self.commits.lock();
        let (own, other) = (commits.rows + u64::from(durable), commits.log);
        commit(tx, durable.then_some((own, other)))?;
        commits.rows = own;
        Ok(())
    }

    /// Makes each file note the last commit of the other one, where it has not yet. The commit that notes it in the
    /// log's file changes nothing else, so it does not count.
    pub(super) fn note_commits(&self) -> Result<(), redb::Error> {
        guarded(|| {
            let Files { log, rows } = &self.databases;
            let of_log = self.commits.lock().log;
            if Stamp::load(rows)?.other_commits != of_log {
                self.commit_rows(rows.begin_write()?, true)?;
            }
            let of_rows = self.commits.lock().rows;
            if Stamp::load(log)?.other_commits != of_rows {
                commit(log.begin_write()?, Some((of_log, of_rows)))?;
            }
            Ok(())
        })
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

/// Writes the format version, and the id of the store that the file is of.
pub(super) fn set_format(database: &Database, version: u64, store: u64) -> Result<(), redb::Error> {
    guarded(|| {
        let mut tx = database.begin_write()?;
        tx.set_quick_repair(true);
        let mut table = tx.open_table(FORMAT_TABLE)?;
        table.insert(VERSION, version)?;
        table.insert(STORE, store)?;
        drop(table);
        Ok(tx.commit()?)
    })
}

/// The stamp of a file whose format was checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// The id of its store.
    pub(super) store: u64,
    /// Number of its durable commits.
    pub(super) commits: u64,
    /// The other file's number at the last of them.
    pub(super) other_commits: u64,
}

impl Stamp {
    pub(super) fn load(database: &Database) -> Result<Self, redb::Error> {
        guarded(|| {
            let table = database.begin_read()?.open_table(FORMAT_TABLE)?;
            let number = |name: &str| Ok::<_, redb::Error>(table.get(name)?.map_or(0, |number| number.value()));
            Ok(Self { store: number(STORE)?, commits: number(COMMITS)?, other_commits: number(OTHER_COMMITS)? })
        })
    }
}

/// Commits, durably with the numbers of a stamp. A durable commit also stores data to open quickly after a crash.
fn commit(mut tx: WriteTransaction, stamp: Option<(u64, u64)>) -> Result<(), redb::Error> {
    match stamp {
        Some((commits, other_commits)) => {
            tx.set_quick_repair(true);
            let mut table = tx.open_table(FORMAT_TABLE)?;
            table.insert(COMMITS, commits)?;
            table.insert(OTHER_COMMITS, other_commits)?;
        }
        None => tx.set_durability(redb::Durability::None)?,
    }
    Ok(tx.commit()?)
}

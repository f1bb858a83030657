//! The engine's bare rate: the loaded rows, written again in the order of the log, in commits of the same size.

use std::{collections::HashMap, path::Path};

use core_service::store::{
    embedded::{engine_view, files_in, version_of},
    schema,
};
use redb::{Builder, Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use tokio::time::Instant;

use crate::{Failure, report::bytes_written};

/// The memory for pages with which the service opens its files.
const CACHE_BYTES: usize = 160 << 20;
/// Most log entries held in memory at once.
const LOG_ENTRIES: u64 = 250_000;

type Rows<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

/// The cost of writing them again.
pub(crate) struct Replayed {
    pub(crate) theses: u64,
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) bytes_written: Option<u64>,
    pub(crate) file_bytes: u64,
}

struct Stored {
    /// A row begins with its version: the sequence number of its log entry.
    version: u64,
    table: &'static str,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Writes the rows of a store into a new file, durably after `theses_per_commit` theses.
pub(crate) fn replay(dir: &Path, theses_per_commit: f64) -> Result<Replayed, Failure> {
    let rows = read(dir)?;
    let theses = rows.iter().filter(|row| row.table == schema::THESIS.name).count();
    let rows_per_commit = (rows.len() as f64 / theses.max(1) as f64 * theses_per_commit) as usize;
    let file = tempfile::NamedTempFile::new_in(dir)?;
    let database = Builder::new().set_cache_size(CACHE_BYTES).create(file.path())?;
    let (started, before) = (Instant::now(), bytes_written());
    for chunk in rows.chunks(rows_per_commit.max(1)) {
        let mut tx = database.begin_write()?;
        tx.set_quick_repair(true);
        let mut open = HashMap::new();
        for row in chunk {
            let table = match open.entry(row.table) {
                std::collections::hash_map::Entry::Occupied(table) => table.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => entry.insert(tx.open_table(Rows::new(row.table))?),
            };
            table.insert(row.key.as_slice(), row.value.as_slice())?;
        }
        drop(open);
        tx.commit()?;
    }
    let (seconds, after) = (started.elapsed().as_secs_f64(), bytes_written());
    drop(database);
    Ok(Replayed {
        theses: theses as u64,
        rows: rows.len() as u64,
        seconds,
        bytes_written: after.zip(before).map(|(after, before)| after - before),
        file_bytes: file.as_file().metadata()?.len(),
    })
}

fn read(dir: &Path) -> Result<Vec<Stored>, Failure> {
    let mut rows = Vec::new();
    for database in databases(dir)? {
        let tx = database.begin_read()?;
        for table in schema::ALL {
            let stored = match tx.open_table(Rows::new(table.name)) {
                Err(TableError::TableDoesNotExist(_)) => continue,
                opened => opened?,
            };
            for row in stored.iter()? {
                let (key, value) = row?;
                let value = value.value().to_vec();
                let version = version_of(&value).map_or(0, i64::unsigned_abs);
                if version <= LOG_ENTRIES {
                    rows.push(Stored { version, table: table.name, key: key.value().to_vec(), value });
                }
            }
        }
    }
    rows.sort_by_key(|row| row.version);
    Ok(rows)
}

/// The files of a store that no process uses.
fn databases(dir: &Path) -> Result<[Database; 2], Failure> {
    let files = files_in(dir);
    let open = |file: &Path| Ok::<_, Failure>(Builder::new().create_with_backend(engine_view(file)?)?);
    Ok([open(&files.log)?, open(&files.rows)?])
}

/// Bytes of the pages in use in a store that no process uses. The rest of its files is room for later pages.
pub(crate) fn live_bytes(dir: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for database in databases(dir)? {
        let tx = database.begin_write()?;
        let stats = tx.stats()?;
        bytes += stats.allocated_pages() * stats.page_size() as u64;
        tx.abort()?;
    }
    Ok(bytes)
}

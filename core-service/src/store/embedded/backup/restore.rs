//! Restores a backup as a store, in a folder that no process uses.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Seek as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use redb::{Database, ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition};
use thesis_net::clock::{IdSource, random};

use super::{
    super::{
        batch::EXPIRY,
        database::{self, FORMAT, Target, guarded, set_format},
        dataset_numbers::DatasetNumbers,
        disk::Fence,
        open::{FoundFiles, LOCK, OpenError, Options, at, lock, open_error, publish},
        row::StoredRow,
        store_files::{FOLDER, Files},
    },
    file::{BackupError, Contents, Reader, Verified, verify},
};
use crate::store::{Table, Value};

/// The name of the store's folder until its files are whole.
const UNFINISHED: &str = "store.restoring";
/// Names that may be in the folder: keys that the operator puts there, files of an unfinished restore, and the folder
/// that the system creates on a new disk.
const ALLOWED: [&str; 6] = ["secret_key", "service_token", "log_key", LOCK, UNFINISHED, "lost+found"];
/// Bytes of rows in one commit.
const BATCH_BYTES: usize = 32 << 20;

/// The reason why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file cannot be used.
    #[error("{}: {error}", .file.display())]
    Backup {
        /// The file.
        file: PathBuf,
        /// The fault.
        error: BackupError,
    },
    /// The folder is not empty.
    #[error("{} has {found:?} in it; name a folder that is empty or missing", .dir.display())]
    Occupied {
        /// The folder.
        dir: PathBuf,
        /// The name of an entry in the folder.
        found: String,
    },
    /// The folder or the new store cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// The folder of an unfinished restore, if there is one and no store.
#[must_use]
pub fn unfinished(dir: &Path) -> Option<PathBuf> {
    let folder = dir.join(UNFINISHED);
    (folder.exists() && !dir.join(FOLDER).exists()).then_some(folder)
}

/// Creates a store in an empty or missing folder. It changes nothing before the whole backup was read, and the store
/// gets its name only when it is whole. `open` reads the file from its present position, and decrypts it if necessary.
/// The row `left_out`, by its table and key, is not in the store: a copy must not have it. The new store has an id of
/// `ids`.
pub fn restore(
    backup: &Path,
    open: impl Fn(&File) -> Result<Box<dyn Read + '_>, BackupError>,
    dir: &Path,
    options: Options,
    left_out: (&Table, &[Value]),
    ids: &dyn IdSource,
) -> Result<Verified, RestoreError> {
    demand_empty(dir)?;
    let refused = |error| RestoreError::Backup { file: backup.to_owned(), error };
    let mut from = File::open(backup).map_err(|error| refused(error.into()))?;
    let verified = open(&from).and_then(verify).map_err(refused)?;
    from.rewind().map_err(|error| refused(error.into()))?;
    // Only the owner may read it, as after a first start.
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))?;
    let locked = lock(dir)?;
    demand_empty(dir)?;
    let unfinished = dir.join(UNFINISHED);
    let again = open(&from).map_err(refused)?;
    let store = u64::from_le_bytes(random(ids));
    let created = make(&unfinished, again, &verified.contents, options, store, left_out, refused);
    if created.is_err() {
        // The next restore would replace it anyway.
        let _ = fs::remove_dir_all(&unfinished);
    }
    created?;
    publish(dir, UNFINISHED)?;
    drop(locked);
    Ok(verified)
}

fn demand_empty(dir: &Path) -> Result<(), RestoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(at(dir))?,
    };
    for entry in entries {
        let found = entry.map_err(at(dir))?.file_name().to_string_lossy().into_owned();
        if !ALLOWED.contains(&found.as_str()) {
            return Err(RestoreError::Occupied { dir: dir.to_owned(), found });
        }
    }
    Ok(())
}

/// Creates the files of a store with an id, with the checksums of pages that every store has.
fn make(
    folder: &Path,
    from: impl Read,
    contents: &Contents,
    options: Options,
    store: u64,
    left_out: (&Table, &[Value]),
    refused: impl Fn(BackupError) -> RestoreError,
) -> Result<(), RestoreError> {
    let mut reader = Reader::open(from).map_err(&refused)?;
    let name = folder.display().to_string();
    let failed = |error| RestoreError::Open(open_error(&name, error));
    let new = FoundFiles::create(folder)?;
    let opened = new
        .disks
        .as_ref()
        .zip(database::caches(options.cache_bytes))
        .try_map(|(disk, cache_bytes)| database::open(disk, Target::Disk, &Fence::default(), cache_bytes, false));
    let databases = opened.map_err(failed)?;
    let changed = || refused(BackupError::Damaged("it was changed meanwhile"));
    if reader.contents() != contents {
        return Err(changed());
    }
    while let Some(rows) = fill(&databases, &mut reader).map_err(failed)? {
        rows.map_err(&refused)?;
    }
    guarded(|| is_whole(&databases, contents)).map_err(failed)?;
    guarded(|| leave_out(&databases, left_out)).map_err(failed)?;
    // Only files with their format are ever opened as a store.
    databases.as_ref().try_map(|database| set_format(database, FORMAT, store)).map_err(failed)?;
    Ok(())
}

/// Commits the next rows; none when no rows are left.
fn fill<R: Read>(
    databases: &Files<Database>,
    reader: &mut Reader<R>,
) -> Result<Option<Result<(), BackupError>>, redb::Error> {
    guarded(|| {
        let tx = database::begin_write(databases)?;
        let mut size = 0;
        while size < BATCH_BYTES {
            let rows = match reader.next() {
                Ok(Some(rows)) => rows,
                Ok(None) => break,
                Err(error) => return Ok(Some(Err(error))),
            };
            let place = usize::try_from(rows.table).unwrap_or(usize::MAX);
            let name = &reader.contents().tables[place].name;
            let mut table = tx.of(name).open_table(TableDefinition::<&[u8], &[u8]>::new(name))?;
            let mut expiry = tx.rows.open_table(EXPIRY)?;
            for (key, value) in rows.keys.iter().zip(&rows.values) {
                size += key.len() + value.len();
                table.insert(key.as_slice(), value.as_slice())?;
                let expires_ms = StoredRow::decode(value)?.expires_ms;
                if expires_ms > 0 {
                    expiry.insert((expires_ms, name.as_str(), key.as_slice()), ())?;
                }
            }
        }
        tx.log.commit()?;
        tx.rows.commit()?;
        Ok((size > 0).then_some(Ok(())))
    })
}

/// Removes a row, if it is there.
fn leave_out(databases: &Files<Database>, (table, row): (&Table, &[Value])) -> Result<(), redb::Error> {
    let numbers = DatasetNumbers::load(&databases.log.begin_read()?)?;
    let Some(key) = numbers.key(table, row) else { return Ok(()) };
    let tx = databases.of(table.name).begin_write()?;
    tx.open_table(TableDefinition::<&[u8], &[u8]>::new(table.name))?.remove(key.as_slice())?;
    tx.commit()?;
    Ok(())
}

/// Checks that no row is missing.
fn is_whole(databases: &Files<Database>, contents: &Contents) -> Result<(), redb::Error> {
    for table in contents.tables.iter().filter(|table| table.rows > 0) {
        let tx = databases.of(&table.name).begin_read()?;
        let rows = tx.open_table(TableDefinition::<&[u8], &[u8]>::new(&table.name))?.len()?;
        if rows != table.rows {
            return Err(redb::Error::Corrupted(format!("{} has {rows} rows of {}", table.name, table.rows)));
        }
    }
    Ok(())
}

//! The folder of an index on a disk. It belongs to one process at a time.
//!
//! Each shard of the index has its own folder in it, named after the shard. So has each copy of a shard that is being
//! received.

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use tantivy::Index;

use super::{
    SearchError,
    open_shard::{CommitNote, OpenShard},
    schema::{Fields, VERSION},
    shard::Shard,
};

/// The file whose lock says that a process uses the folder. The lock ends with the process.
const LOCK: &str = "lock";

/// The name of the folder of a copy that is being received begins so, and ends with the name of the shard.
const COPY_PREFIX: &str = "copy-";

/// A locked folder. The lock ends when this is dropped.
#[derive(Debug)]
pub struct SearchFolder {
    path: PathBuf,
    _lock: File,
    /// The shards whose files this process has written or verified by their checksums. A failed write damages no file
    /// that is committed, so the files are read only once.
    verified: Mutex<BTreeSet<Shard>>,
}

impl SearchFolder {
    /// Locks a folder for this process, and creates the folder if there is none.
    ///
    /// # Errors
    /// `WouldBlock` while another process uses the folder, else the error of the system.
    pub fn lock(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {
                let folder = Self { path: path.to_owned(), _lock: lock, verified: Mutex::default() };
                folder.delete_copies()?;
                Ok(folder)
            }
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::new(io::ErrorKind::WouldBlock, "another process uses the folder"))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns whether a process uses a folder. The folder need not exist, and nothing is created.
    ///
    /// # Errors
    /// The error of the system, when the lock cannot be read.
    pub fn is_in_use(path: &Path) -> io::Result<bool> {
        let lock = match File::open(path.join(LOCK)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn has_files(&self, shard: Shard) -> io::Result<bool> {
        let path = self.path_of(shard);
        fs::create_dir_all(&path)?;
        Ok(fs::read_dir(&path)?.next().is_some())
    }

    /// Creates an empty shard in place of the one that is there.
    pub(super) fn create(&self, shard: Shard) -> Result<Index, SearchError> {
        let path = self.path_of(shard);
        remove_folder(&path)?;
        fs::create_dir_all(&path)?;
        self.verified.lock().insert(shard);
        Ok(Index::create_in_dir(&path, Fields::new().1)?)
    }

    /// Opens a shard, if it can be used for the logs of a generation.
    pub(super) fn open(&self, shard: Shard, generation: &str) -> Result<(Index, CommitNote), SearchError> {
        if !self.has_files(shard)? {
            return Err(SearchError::Damaged);
        }
        let (index, note) = open_at(&self.path_of(shard), generation)?;
        let is_verified = self.verified.lock().contains(&shard);
        if !is_verified {
            verify_checksums(&index)?;
            self.verified.lock().insert(shard);
        }
        Ok((index, note))
    }

    /// Opens a month that holds the log of `live` up to a sequence number, or whole.
    pub(super) fn open_month(
        &self,
        month: Shard,
        generation: &str,
        rebuilt_to: Option<u64>,
    ) -> Result<OpenShard, SearchError> {
        let (index, note) = self.open(month, generation)?;
        let rebuilt_to = rebuilt_to.into_iter().chain(note.rebuilt_to).min();
        OpenShard::new(month, index, rebuilt_to)
    }

    /// Opens an empty month in place of the one that is there. It must be rebuilt.
    pub(super) fn replace_month(&self, month: Shard) -> Result<OpenShard, SearchError> {
        OpenShard::new(month, self.create(month)?, Some(0))
    }

    /// Creates an empty folder for a copy of a shard.
    pub(super) fn create_copy(&self, shard: Shard) -> io::Result<PathBuf> {
        let path = self.path.join(format!("{COPY_PREFIX}{shard}"));
        remove_folder(&path)?;
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Puts a verified copy in place of a shard.
    pub(super) fn install(&self, shard: Shard, copy: &Path) -> io::Result<()> {
        let path = self.path_of(shard);
        remove_folder(&path)?;
        fs::rename(copy, path)?;
        self.verified.lock().insert(shard);
        Ok(())
    }

    /// Deletes a month.
    pub(super) fn delete(&self, month: Shard) -> io::Result<()> {
        self.verified.lock().remove(&month);
        remove_folder(&self.path_of(month))
    }

    /// Deletes the copies that an earlier process has not ended.
    fn delete_copies(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(COPY_PREFIX)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Deletes all months but some.
    pub(super) fn retain_months(&self, is_kept: impl Fn(Shard) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let shard = entry.file_name().to_str().and_then(Shard::parse);
            if shard.is_some_and(|shard| shard != Shard::Common && !is_kept(shard)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    pub(super) fn path_of(&self, shard: Shard) -> PathBuf {
        self.path.join(shard.to_string())
    }
}

/// Opens the files of a shard, if they can be used for the logs of a generation.
pub(super) fn open_at(path: &Path, generation: &str) -> Result<(Index, CommitNote), SearchError> {
    let index = Index::open_in_dir(path)?;
    let note: CommitNote = serde_json::from_str(&index.load_metas()?.payload.ok_or(SearchError::Version)?)?;
    if note.version != VERSION || index.schema() != Fields::new().1 {
        return Err(SearchError::Version);
    }
    if note.generation != generation {
        return Err(SearchError::Generation);
    }
    Ok((index, note))
}

/// Reads all files of a shard to verify their checksums.
pub(super) fn verify_checksums(index: &Index) -> Result<(), SearchError> {
    if index.validate_checksum()?.is_empty() { Ok(()) } else { Err(SearchError::Damaged) }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    if path.exists() { fs::remove_dir_all(path) } else { Ok(()) }
}

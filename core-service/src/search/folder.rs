//! The folder of an index on a disk. It belongs to one process at a time.
//!
//! Each shard of the index has its own folder in it, named after the shard. So far one shard, `all`, holds every
//! dataset. Projects share a shard for good: a tantivy index has its own writer with two threads and a memory budget,
//! and its own open files, and a core cannot have these for 10,000 small projects each.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// The file whose lock says that a process uses the folder. The lock ends with the process.
const LOCK: &str = "lock";
/// The shard of all datasets.
const SHARD: &str = "all";

/// A locked folder. The lock ends when this is dropped.
#[derive(Debug)]
pub struct SearchFolder {
    path: PathBuf,
    _lock: File,
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
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
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

    pub(super) fn shard(&self) -> PathBuf {
        self.path.join(SHARD)
    }
}

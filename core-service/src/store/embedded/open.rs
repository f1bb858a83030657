//! Opens the store: the folder, its lock, the file, its format.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use parking_lot::{Mutex, RwLock};
use redb::{StorageBackend, backends::FileBackend};
use thesis_net::clock::SharedClock;
use tokio::sync::Semaphore;

use super::{
    EmbeddedStore,
    database::{self, FORMAT, OpenStore, Target},
    disk::Disk,
    summed::Summed,
    writer::{CurrentDatabase, Writer},
};

pub(super) const FILE: &str = "store.redb";
pub(super) const LOCK: &str = "store.lock";
/// The first bytes of a file in an older format, whose pages have no sums.
const WITHOUT_SUMS: &[u8] = b"redb";
/// Maximum number of writes that wait for the thread. Further ones wait for room.
const MAX_WAITING: usize = 1024;

/// Options for opening the store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of memory for pages of the file.
    pub cache_bytes: usize,
    /// Size up to which a file is verified as a whole when it is opened. Pages of a larger file are verified when read.
    pub verify_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache_bytes: 160 << 20, verify_bytes: 256 << 20 }
    }
}

/// The reason why the store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the folder.
    #[error("the data folder {} is in use by another process, which holds its {LOCK}", .0.display())]
    InUse(PathBuf),
    /// A newer version of this program wrote the file.
    #[error("{file} has format {found}; this version reads up to format {FORMAT}")]
    Newer {
        /// The file.
        file: String,
        /// The format of the file.
        found: u64,
    },
    /// The file has a format that is too old for this program.
    #[error("{file} has a format before {FORMAT}, which this version does not read")]
    Older {
        /// The file.
        file: String,
    },
    /// The file is damaged.
    #[error("{file} is damaged: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// The fault.
        reason: String,
    },
    /// A file or the folder cannot be used.
    #[error("{file}: {source}")]
    Io {
        /// The file or folder.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl EmbeddedStore {
    /// Opens the store in a folder. It creates a missing folder.
    pub fn open(dir: &Path, options: Options, clock: SharedClock) -> Result<Self, OpenError> {
        fs::create_dir_all(dir).map_err(at(dir))?;
        let lock = lock(dir)?;
        let path = dir.join(FILE);
        if !path.try_exists().map_err(at(&path))? {
            create(dir, &path, options)?;
        }
        let (disk, len) = disk(&path, File::options().read(true).write(true))?;
        let file = path.display().to_string();
        if len == 0 {
            return Err(OpenError::Damaged { file, reason: "it is empty".to_owned() });
        }
        Self::start(disk, file, Some(lock), len <= options.verify_bytes, options, clock)
    }

    /// Opens the store on the caller's disk; an empty disk becomes a new store.
    pub fn open_with_backend(
        backend: impl StorageBackend,
        options: Options,
        clock: SharedClock,
    ) -> Result<Self, OpenError> {
        let file = "the given disk".to_owned();
        let disk = Disk::new(Summed::new(backend));
        format_new(&disk, &file, options)?;
        let len = disk.len().map_err(|error| open_error(&file, error.into()))?;
        Self::start(disk, file, None, len <= options.verify_bytes, options, clock)
    }

    /// Creates a store in memory, which ends with the process.
    #[cfg(test)]
    pub(crate) fn in_memory(clock: SharedClock) -> Self {
        Self::open_with_backend(redb::backends::InMemoryBackend::new(), Options::default(), clock)
            .expect("memory is always there")
    }

    fn start(
        disk: Disk,
        file: String,
        lock: Option<File>,
        verify: bool,
        options: Options,
        clock: SharedClock,
    ) -> Result<Self, OpenError> {
        let failed = |error| open_error(&file, error);
        let (database, fence) = database::open(&disk, Target::Disk, options.cache_bytes, verify).map_err(failed)?;
        judge_format(database::format(&database).map_err(failed)?, file.clone())?;
        let store = OpenStore::load(database).map_err(failed)?;
        let current = CurrentDatabase { store: Some(Arc::new(store)), ..CurrentDatabase::default() };
        let current = Arc::new(RwLock::new(current));
        let (messages, received) = mpsc::channel();
        let writer = Writer {
            messages: received,
            current: current.clone(),
            disk,
            fence,
            file: file.clone(),
            cache_bytes: options.cache_bytes,
            clock,
            lock,
            unsynced: Vec::new(),
            unsynced_since: None,
        };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(|| writer.run())
            .map_err(|source| OpenError::Io { file: file.clone(), source })?;
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        let backups = Arc::new(Semaphore::new(1));
        Ok(Self { current, messages, room, backups, file, thread: Mutex::new(Some(thread)) })
    }
}

/// Refuses a format that this version does not read.
pub(super) fn judge_format(found: Option<u64>, file: String) -> Result<(), OpenError> {
    match found {
        Some(FORMAT) => Ok(()),
        Some(found) if found < FORMAT => Err(OpenError::Older { file }),
        Some(found) => Err(OpenError::Newer { file, found }),
        None => Err(OpenError::Damaged { file, reason: "it has no format version".to_owned() }),
    }
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let file = path.display().to_string();
    move |source| OpenError::Io { file, source }
}

pub(super) fn open_error(file: &str, error: redb::Error) -> OpenError {
    let file = file.to_owned();
    match error {
        redb::Error::Io(source)
            if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            OpenError::Io { file, source }
        }
        redb::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::Damaged { file, reason: "it ends too early".to_owned() }
        }
        redb::Error::Corrupted(reason) => OpenError::Damaged { file, reason },
        redb::Error::Io(source) => OpenError::Damaged { file, reason: source.to_string() },
        other => OpenError::Damaged { file, reason: other.to_string() },
    }
}

/// Locks the folder; the system unlocks it when the process ends, however it ends.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(at(&path)(source)),
    }
}

pub(super) fn disk(path: &Path, options: &fs::OpenOptions) -> Result<(Disk, u64), OpenError> {
    let mut file = options.open(path).map_err(at(path))?;
    let len = file.metadata().map_err(at(path))?.len();
    let mut beginning = Vec::new();
    file.by_ref().take(WITHOUT_SUMS.len() as u64).read_to_end(&mut beginning).map_err(at(path))?;
    let name = path.display().to_string();
    if beginning == WITHOUT_SUMS {
        return Err(OpenError::Older { file: name });
    }
    let backend = FileBackend::new(file).map_err(|error| open_error(&name, error.into()))?;
    Ok((Disk::new(Summed::new(backend)), len))
}

/// Opens the file of a store as its engine sees it, to examine it while no service uses it.
pub fn engine_view(file: &Path) -> io::Result<impl StorageBackend> {
    let file = File::options().read(true).write(true).open(file)?;
    FileBackend::new(file).map(Summed::new).map_err(io::Error::other)
}

/// Creates a store's file, readable only by its owner, in place of an unfinished one.
pub(super) fn new_file(path: &Path) -> Result<Disk, OpenError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(path)(error)),
        _ => {}
    }
    let (disk, _) = disk(path, File::options().read(true).write(true).create_new(true).mode(0o600))?;
    Ok(disk)
}

/// Creates a new file. It gets its name only when it is whole, so an unfinished file never counts as a store.
fn create(dir: &Path, path: &Path, options: Options) -> Result<(), OpenError> {
    let unfinished = path.with_extension("new");
    let new = new_file(&unfinished)?;
    format_new(&new, &unfinished.display().to_string(), options)?;
    drop(new);
    fs::rename(&unfinished, path).map_err(at(path))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}

/// Turns an empty disk into a store.
fn format_new(disk: &Disk, file: &str, options: Options) -> Result<(), OpenError> {
    if disk.len().map_err(|error| open_error(file, error.into()))? > 0 {
        return Ok(());
    }
    let (database, _fence) =
        database::open(disk, Target::Disk, options.cache_bytes, false).map_err(|error| open_error(file, error))?;
    database::set_format(&database, FORMAT).map_err(|error| open_error(file, error))
}

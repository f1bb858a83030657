//! Opens the store: the folder, its lock, the files, their format.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use parking_lot::{Mutex, RwLock};
use redb::{StorageBackend, backends::FileBackend};
use thesis_net::clock::{IdSource, SharedClock, random};
use tokio::sync::Semaphore;

use super::{
    EmbeddedStore,
    database::{self, FORMAT, OpenStore, Stamp, Target},
    disk::{Disk, Fence},
    store_files::{FOLDER, Files},
    summed::Summed,
    unsynced::Unsynced,
    writer::{CurrentDatabase, Writer},
};

pub(super) const LOCK: &str = "store.lock";
/// The folder's name until the files of a new store are whole.
const NEW_FOLDER: &str = "store.new";
/// The only file of a store of an earlier version, in the data folder.
const OLDER_FILE: &str = "store.redb";
/// Maximum number of writes that wait for the thread. Further ones wait for room.
const MAX_WAITING: usize = 1024;

/// Options for opening the store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of memory for pages of the files.
    pub cache_bytes: usize,
    /// Size up to which a store is verified as a whole when it is opened. Pages of a larger one are verified when read.
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
    /// Opens the store in a folder. It creates a missing folder. A new store has an id of `ids`.
    pub fn open(dir: &Path, options: Options, clock: SharedClock, ids: &dyn IdSource) -> Result<Self, OpenError> {
        fs::create_dir_all(dir).map_err(at(dir))?;
        let lock = lock(dir)?;
        if !exists(dir)? {
            create(dir, options, ids)?;
        }
        let folder = dir.join(FOLDER);
        let found = FoundFiles::find(&folder, File::options().read(true).write(true))?;
        Self::start(found, folder.display().to_string(), Some(lock), options, clock)
    }

    /// Opens the store on the caller's disks; empty disks become a new store.
    pub fn open_with_backends(
        backends: Files<impl StorageBackend>,
        options: Options,
        clock: SharedClock,
        ids: &dyn IdSource,
    ) -> Result<Self, OpenError> {
        let name = "the given disk".to_owned();
        let disks = backends.map(|backend| Disk::new(Summed::new(backend)));
        let mut found = FoundFiles { disks, names: Files { log: name.clone(), rows: name.clone() }, bytes: 0 };
        found.format_new(options, ids)?;
        let lengths = found.disks.as_ref().try_map(Disk::len).map_err(|error| open_error(&name, error.into()))?;
        found.bytes = lengths.log + lengths.rows;
        Self::start(found, name, None, options, clock)
    }

    /// Creates a store in memory, which ends with the process.
    #[cfg(test)]
    pub(crate) fn in_memory(clock: SharedClock) -> Self {
        let [log, rows] = std::array::from_fn(|_| redb::backends::InMemoryBackend::new());
        let ids = &thesis_net::clock::SystemIdSource;
        Self::open_with_backends(Files { log, rows }, Options::default(), clock, ids).expect("memory is always there")
    }

    fn start(
        found: FoundFiles,
        folder: String,
        lock: Option<File>,
        options: Options,
        clock: SharedClock,
    ) -> Result<Self, OpenError> {
        let fence = Fence::default();
        let store = found.open(Target::Disk, &fence, options)?;
        let current = CurrentDatabase { store: Some(Arc::new(store)), ..CurrentDatabase::default() };
        let current = Arc::new(RwLock::new(current));
        let (messages, received) = mpsc::channel();
        let writer = Writer {
            messages: received,
            current: current.clone(),
            disks: found.disks,
            fence,
            folder: folder.clone(),
            cache_bytes: options.cache_bytes,
            clock,
            lock,
            unsynced: Unsynced::default(),
            opened_again_at: None,
        };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(|| writer.run())
            .map_err(|source| OpenError::Io { file: folder.clone(), source })?;
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        let backups = Arc::new(Semaphore::new(1));
        let (names, thread) = (found.names, Mutex::new(Some(thread)));
        Ok(Self { current, messages, room, backups, names, folder, thread })
    }
}

/// The files of a store before the engine opens them.
pub(super) struct FoundFiles {
    pub(super) disks: Files<Disk>,
    /// Their names in errors.
    pub(super) names: Files<String>,
    /// Their size together.
    pub(super) bytes: u64,
}

impl FoundFiles {
    /// The files of a store that exists. Both must have something in them.
    pub(super) fn find(folder: &Path, options: &fs::OpenOptions) -> Result<Self, OpenError> {
        let found = Files::paths(folder).try_map(|path| {
            let damaged =
                |reason: &str| OpenError::Damaged { file: path.display().to_string(), reason: reason.to_owned() };
            match disk(&path, options) {
                Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    Err(damaged("it is missing"))
                }
                Ok((_, 0)) => Err(damaged("it is empty")),
                found => found,
            }
        })?;
        let bytes = found.log.1 + found.rows.1;
        let names = Files::paths(folder).map(|path| path.display().to_string());
        Ok(Self { disks: found.map(|(disk, _)| disk), names, bytes })
    }

    /// Creates the folder of a new store and empty files, accessible only to their owner, in place of unfinished ones.
    pub(super) fn create(folder: &Path) -> Result<Self, OpenError> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(folder)(error)),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(folder).map_err(at(folder))?;
        let paths = Files::paths(folder);
        let disks = paths.as_ref().try_map(|path| {
            let (disk, _) = disk(path, File::options().read(true).write(true).create_new(true).mode(0o600))?;
            Ok::<_, OpenError>(disk)
        })?;
        Ok(Self { disks, names: paths.map(|path| path.display().to_string()), bytes: 0 })
    }

    /// True if every page is verified when these files are opened.
    pub(super) const fn are_verified(&self, options: Options) -> bool {
        self.bytes <= options.verify_bytes
    }

    /// Opens both files, if this version reads their format and they belong together.
    pub(super) fn open(&self, target: Target, fence: &Fence, options: Options) -> Result<OpenStore, OpenError> {
        let (caches, verify) = (database::caches(options.cache_bytes), self.are_verified(options));
        let files = self.disks.as_ref().zip(self.names.as_ref()).zip(caches);
        let databases = files.try_map(|((disk, name), cache_bytes)| {
            let failed = |error| open_error(name, error);
            let database = database::open(disk, target, fence, cache_bytes, verify).map_err(failed)?;
            judge_format(database::format(&database).map_err(failed)?, name.clone())?;
            Ok::<_, OpenError>(database)
        })?;
        let stamps = databases.as_ref().zip(self.names.as_ref());
        let stamps =
            stamps.try_map(|(database, name)| Stamp::load(database).map_err(|error| open_error(name, error)))?;
        judge_stamps(stamps, &self.names)?;
        OpenStore::load(databases, fence).map_err(|error| open_error(&self.names.log, error))
    }

    /// Turns empty disks into a store.
    fn format_new(&self, options: Options, ids: &dyn IdSource) -> Result<(), OpenError> {
        let store = u64::from_le_bytes(random(ids));
        let formatted = self.disks.as_ref().zip(self.names.as_ref()).try_map(|(disk, name)| {
            let failed = |error| open_error(name, error);
            if disk.len().map_err(|error| failed(error.into()))? > 0 {
                return Ok(());
            }
            let fence = Fence::default();
            let database = database::open(disk, Target::Disk, &fence, options.cache_bytes, false).map_err(failed)?;
            database::set_format(&database, FORMAT, store).map_err(failed)
        });
        formatted.map(drop)
    }
}

/// Returns whether a data folder has a store. One of an earlier version is an error.
pub fn exists(dir: &Path) -> Result<bool, OpenError> {
    let (folder, older) = (dir.join(FOLDER), dir.join(OLDER_FILE));
    if folder.try_exists().map_err(at(&folder))? {
        return Ok(true);
    }
    if older.try_exists().map_err(at(&older))? {
        return Err(OpenError::Older { file: older.display().to_string() });
    }
    Ok(false)
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

/// Refuses files that are of two stores, or of two times.
fn judge_stamps(stamps: Files<Stamp>, names: &Files<String>) -> Result<(), OpenError> {
    let Files { log, rows } = stamps;
    let (file, reason) = if log.store != rows.store {
        (&names.rows, format!("it belongs to another store than {}", names.log))
    } else if log.commits < rows.other_commits {
        (&names.log, format!("it is older than {}", names.rows))
    } else if rows.commits < log.other_commits {
        (&names.rows, format!("it is older than {}", names.log))
    } else {
        return Ok(());
    };
    Err(OpenError::Damaged { file: file.clone(), reason })
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

fn disk(path: &Path, options: &fs::OpenOptions) -> Result<(Disk, u64), OpenError> {
    let file = options.open(path).map_err(at(path))?;
    let len = file.metadata().map_err(at(path))?.len();
    let backend = FileBackend::new(file).map_err(|error| open_error(&path.display().to_string(), error.into()))?;
    Ok((Disk::new(Summed::new(backend)), len))
}

/// Opens a file of a store as its engine sees it, to examine it while no service uses it.
pub fn engine_view(file: &Path) -> io::Result<impl StorageBackend> {
    let file = File::options().read(true).write(true).open(file)?;
    FileBackend::new(file).map(Summed::new).map_err(io::Error::other)
}

/// Creates a new store. Its folder gets its name only when both files are whole, so an unfinished one never counts.
fn create(dir: &Path, options: Options, ids: &dyn IdSource) -> Result<(), OpenError> {
    let new = FoundFiles::create(&dir.join(NEW_FOLDER))?;
    new.format_new(options, ids)?;
    drop(new);
    publish(dir, NEW_FOLDER)
}

/// Gives the folder of a whole store its name.
pub(super) fn publish(dir: &Path, unfinished: &str) -> Result<(), OpenError> {
    let (unfinished, folder) = (dir.join(unfinished), dir.join(FOLDER));
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(at(path));
    Files::paths(&unfinished).try_map(|path| sync(&path))?;
    sync(&unfinished)?;
    fs::rename(&unfinished, &folder).map_err(at(&folder))?;
    sync(dir)
}

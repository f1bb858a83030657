//! A disk in memory with the files of a store. It can be full, fail, and lose unsynced writes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use redb::StorageBackend;

use crate::store::embedded::Files;

/// A disk in memory.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Inside>);

/// A file on it.
#[derive(Clone, Debug)]
pub(crate) struct DiskFile {
    disk: Disk,
    is_log: bool,
}

#[derive(Debug)]
struct Inside {
    /// Both files under one lock, so that a copy of the disk is of one moment.
    files: Mutex<Files<Bytes>>,
    /// Number of writes that still work.
    writes_left: AtomicI64,
    /// The next read fails.
    fail_read: AtomicBool,
    /// Number of flushes of either file.
    syncs: AtomicUsize,
}

#[derive(Debug)]
struct Bytes {
    /// The bytes that programs see.
    seen: Vec<u8>,
    /// The bytes that surely survive a loss of power.
    synced: Vec<u8>,
    /// Changes that may survive it too, in order.
    unsynced: Vec<Unsynced>,
}

#[derive(Debug)]
enum Unsynced {
    Length(usize),
    Write(usize, Vec<u8>),
}

impl Unsynced {
    fn reach(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(len) => bytes.resize(*len, 0),
            Self::Write(at, data) => {
                // A write beyond the end of a file that was not made longer is lost.
                let end = (at + data.len()).min(bytes.len());
                if *at < end {
                    bytes[*at..end].copy_from_slice(&data[..end - at]);
                }
            }
        }
    }
}

impl Disk {
    /// A disk with empty files.
    pub(crate) fn empty() -> Self {
        Self::new(Files::default())
    }

    pub(crate) fn new(bytes: Files<Vec<u8>>) -> Self {
        let files = bytes.map(|seen| Bytes { synced: seen.clone(), seen, unsynced: Vec::new() });
        Self(Arc::new(Inside {
            files: files.into(),
            writes_left: i64::MAX.into(),
            fail_read: false.into(),
            syncs: 0.into(),
        }))
    }

    /// Its files, for a store.
    pub(crate) fn files(&self) -> Files<DiskFile> {
        Files { log: true, rows: false }.map(|is_log| DiskFile { disk: self.clone(), is_log })
    }

    /// The bytes of its files as seen now.
    pub(crate) fn bytes(&self) -> Files<Vec<u8>> {
        self.0.files.lock().as_ref().map(|file| file.seen.clone())
    }

    /// The number of flushes of its files so far.
    pub(crate) fn syncs(&self) -> usize {
        self.0.syncs.load(Ordering::SeqCst)
    }

    /// Sets how many writes still work.
    pub(crate) fn room(&self, writes: i64) {
        self.0.writes_left.store(writes, Ordering::SeqCst);
    }

    /// Replaces its bytes without telling anybody.
    pub(crate) fn spoil(&self, bytes: Files<Vec<u8>>) {
        let mut files = self.0.files.lock();
        (files.log.seen, files.rows.seen) = (bytes.log, bytes.rows);
    }

    /// Makes the next read fail.
    pub(crate) fn fail_read(&self) {
        self.0.fail_read.store(true, Ordering::SeqCst);
    }

    /// True if the next read still fails.
    pub(crate) fn fails_read(&self) -> bool {
        self.0.fail_read.load(Ordering::SeqCst)
    }

    /// A copy of the disk as seen now.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.bytes())
    }

    /// The disk after a loss of power, without any unsynced write.
    pub(crate) fn after_power_loss(&self) -> Self {
        self.after_power_loss_but(|| false)
    }

    /// The disk after a power loss that keeps the unsynced writes which `stays` chooses.
    pub(crate) fn after_power_loss_but(&self, mut stays: impl FnMut() -> bool) -> Self {
        let files = self.0.files.lock();
        Self::new(files.as_ref().map(|file| {
            let mut left = file.synced.clone();
            file.unsynced.iter().filter(|_| stays()).for_each(|unsynced| unsynced.reach(&mut left));
            left
        }))
    }

    fn write_one(&self) -> io::Result<()> {
        let left = self.0.writes_left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 {
            return Ok(());
        }
        self.room(0);
        Err(io::ErrorKind::StorageFull.into())
    }
}

impl DiskFile {
    fn bytes(&self) -> MappedMutexGuard<'_, Bytes> {
        MutexGuard::map(self.disk.0.files.lock(), |files| if self.is_log { &mut files.log } else { &mut files.rows })
    }
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.disk.0.fail_read.swap(false, Ordering::SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
        let offset = usize::try_from(offset).unwrap();
        let bytes = self.bytes();
        let read = bytes.seen.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(read);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.write_one()?;
        let len = usize::try_from(len).unwrap();
        let mut bytes = self.bytes();
        bytes.seen.resize(len, 0);
        bytes.unsynced.push(Unsynced::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.write_one()?;
        self.disk.0.syncs.fetch_add(1, Ordering::SeqCst);
        let mut bytes = self.bytes();
        let Bytes { synced, unsynced, .. } = &mut *bytes;
        unsynced.drain(..).for_each(|unsynced| unsynced.reach(synced));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write_one()?;
        let offset = usize::try_from(offset).unwrap();
        let mut bytes = self.bytes();
        bytes.seen[offset..offset + data.len()].copy_from_slice(data);
        bytes.unsynced.push(Unsynced::Write(offset, data.to_vec()));
        Ok(())
    }
}

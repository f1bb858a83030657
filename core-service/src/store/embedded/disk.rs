//! The disk as redb sees it.
//!
//! After a failed access to its disk, redb refuses all access, reads too, and must be opened again. The real
//! backend therefore stays here, and each opening gets its own handle. A replaced handle is fenced off.
//! It can keep its writes in memory, so that reads go on while the disk cannot be written.

use std::{collections::BTreeMap, io, sync::Arc};

use parking_lot::{Mutex, RwLock};
use redb::StorageBackend;

const BLOCK: u64 = 4096;

/// The real backend.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<dyn StorageBackend>);

/// Ends all access by one handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence(Arc<RwLock<bool>>);

impl Fence {
    /// Waits for accesses under way, and refuses all later ones.
    pub(super) fn close(&self) {
        *self.0.write() = true;
    }

    fn pass<T>(&self, access: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let closed = self.0.read();
        if *closed { Err(io::Error::other("this handle was replaced")) } else { access() }
    }
}

impl Disk {
    pub(super) fn new(backend: impl StorageBackend) -> Self {
        Self(Arc::new(backend))
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    /// Reads and writes the disk.
    pub(super) fn direct(&self, fence: Fence) -> impl StorageBackend {
        Direct { disk: self.clone(), fence }
    }

    /// Reads the disk and keeps all writes in memory.
    pub(super) fn overlay(&self, fence: Fence) -> io::Result<impl StorageBackend> {
        let len = self.0.len()?;
        Ok(Overlay {
            disk: self.clone(),
            fence,
            written: Mutex::new(Written { len, base: len, blocks: BTreeMap::new() }),
        })
    }
}

// Neither handle closes or locks the disk: the disk outlives them, and the folder's lock guards it.

#[derive(Debug)]
struct Direct {
    disk: Disk,
    fence: Fence,
}

impl StorageBackend for Direct {
    fn len(&self) -> io::Result<u64> {
        self.fence.pass(|| self.disk.0.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.fence.pass(|| self.disk.0.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fence.pass(|| self.disk.0.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fence.pass(|| self.disk.0.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fence.pass(|| self.disk.0.write(offset, data))
    }
}

#[derive(Debug)]
struct Overlay {
    disk: Disk,
    fence: Fence,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// Offset from which bytes are not read from the disk.
    base: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    fn read_base(&self, base: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let below = usize::try_from(base.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (from_disk, zeros) = out.split_at_mut(below);
        zeros.fill(0);
        if from_disk.is_empty() { Ok(()) } else { self.disk.0.read(offset, from_disk) }
    }
}

/// The pieces of an access: block, range in the block, range in the access.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let inside = usize::try_from(at % BLOCK).ok()?;
        let size = (BLOCK as usize - inside).min(len - done);
        done += size;
        (size > 0).then(|| (at / BLOCK, inside..inside + size, done - size..done))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        self.fence.pass(|| Ok(self.written.lock().len))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.fence.pass(|| {
            let written = self.written.lock();
            if offset + out.len() as u64 > written.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.read_base(written.base, offset, out)?;
            for (block, inside, outside) in pieces(offset, out.len()) {
                if let Some(bytes) = written.blocks.get(&block) {
                    out[outside].copy_from_slice(&bytes[inside]);
                }
            }
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fence.pass(|| {
            let mut written = self.written.lock();
            written.len = len;
            written.base = written.base.min(len);
            drop(written.blocks.split_off(&len.div_ceil(BLOCK)));
            let (last, kept) = (len / BLOCK, usize::try_from(len % BLOCK).unwrap_or(0));
            if let Some(bytes) = written.blocks.get_mut(&last) {
                bytes[kept..].fill(0);
            }
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fence.pass(|| Ok(()))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fence.pass(|| {
            let mut written = self.written.lock();
            for (block, inside, outside) in pieces(offset, data.len()) {
                if !written.blocks.contains_key(&block) {
                    let mut bytes = vec![0; BLOCK as usize].into_boxed_slice();
                    self.read_base(written.base, block * BLOCK, &mut bytes)?;
                    written.blocks.insert(block, bytes);
                }
                let bytes = written.blocks.get_mut(&block).expect("just inserted");
                bytes[inside].copy_from_slice(&data[outside]);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;

    use super::*;

    proptest! {
        /// The overlay reads as a plain disk does, and leaves the disk below unchanged.
        #[test]
        fn overlay_reads_as_a_disk(steps in prop::collection::vec((0..3u8, 0..20_000u64, 1..9_000usize), 1..20)) {
            let below = Disk::new(InMemoryBackend::new());
            below.0.set_len(10_000).unwrap();
            below.0.write(0, &[7; 10_000]).unwrap();
            let overlay = below.overlay(Fence::default()).unwrap();
            let mut model = vec![7; 10_000];
            for (step, (kind, offset, len)) in steps.into_iter().enumerate() {
                let at = usize::try_from(offset).unwrap();
                if kind == 0 {
                    overlay.set_len(offset).unwrap();
                    model.resize(at, 0);
                } else if at + len <= model.len() {
                    if kind == 1 {
                        let data = vec![u8::try_from(step).unwrap() + 10; len];
                        overlay.write(offset, &data).unwrap();
                        model[at..at + len].copy_from_slice(&data);
                    }
                    let mut out = vec![0; len];
                    overlay.read(offset, &mut out).unwrap();
                    prop_assert_eq!(&out, &model[at..at + len]);
                }
                prop_assert_eq!(overlay.len().unwrap(), model.len() as u64);
            }
            let mut out = vec![0; 10_000];
            below.0.read(0, &mut out).unwrap();
            prop_assert_eq!(out, vec![7; 10_000]);
        }
    }

    #[test]
    fn fenced_handle_touches_nothing() {
        let disk = Disk::new(InMemoryBackend::new());
        let fence = Fence::default();
        let handle = disk.direct(fence.clone());
        handle.set_len(10).unwrap();
        fence.close();
        assert!(handle.write(0, &[1]).is_err());
        assert!(handle.read(0, &mut [0]).is_err());
    }
}

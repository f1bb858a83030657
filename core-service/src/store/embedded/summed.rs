//! A file whose every page is checked when it is read.
//!
//! redb has checksums of its pages, but checks them only when it verifies a whole file. So each page has another sum
//! here, over its offset and its bytes: the read of a damaged or misplaced page is an error, in a file of any size. In
//! the file a page of sums precedes each group of pages. New sums go to the disk before every sync and every header, so
//! that each page of a commit has its sum there.

use std::io;

use parking_lot::RwLock;
use redb::StorageBackend;

const PAGE: u64 = 4096;
/// Pages of a group, one sum each.
const GROUP: u64 = PAGE / 4;
/// The header and its sum share one sector of the disk, since a header must never be half written.
const SECTOR: usize = 512;
const HEADER: usize = SECTOR - 4;

/// The sums of one group; 0 for a page that was never written.
#[derive(Debug)]
struct Sums {
    of: Box<[u32]>,
    changed: bool,
}

/// A backend with checked pages, over one without.
#[derive(Debug)]
pub(super) struct Summed<B> {
    below: B,
    /// The sums of each group; `None` until the group is needed.
    groups: RwLock<Vec<Option<Sums>>>,
}

/// Offset of a page in the backend below.
fn place(page: u64) -> u64 {
    (page / GROUP * (GROUP + 1) + 1 + page % GROUP) * PAGE
}

/// Offset of a group's sums in the backend below.
fn sums_place(group: u64) -> u64 {
    group * (GROUP + 1) * PAGE
}

fn len_below(len: u64) -> u64 {
    let pages = len.div_ceil(PAGE);
    (pages + pages.div_ceil(GROUP)) * PAGE
}

fn sum(page: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&page.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize().max(1)
}

fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// True if an access covers whole pages only.
fn is_whole(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(PAGE) && (len as u64).is_multiple_of(PAGE)
}

/// Pages of an access, each with the range of its bytes.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let size = index(PAGE);
    (offset / PAGE..).zip((0..len / size).map(move |number| number * size..(number + 1) * size))
}

impl<B: StorageBackend> Summed<B> {
    pub(super) fn new(below: B) -> Self {
        Self { below, groups: RwLock::default() }
    }

    /// Calls `work` with the sums of a group. The first call reads them from below.
    fn with_sums<T>(&self, group: u64, work: impl FnOnce(&mut Sums) -> T) -> io::Result<T> {
        let mut groups = self.groups.write();
        let at = index(group);
        if groups.len() <= at {
            groups.resize_with(at + 1, || None);
        }
        if groups[at].is_none() {
            let mut bytes = vec![0; index(PAGE)];
            self.below.read(sums_place(group), &mut bytes)?;
            let (chunks, _) = bytes.as_chunks();
            let of = chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect();
            groups[at] = Some(Sums { of, changed: false });
        }
        Ok(work(groups[at].as_mut().expect("just put there")))
    }

    fn expected(&self, page: u64) -> io::Result<u32> {
        let at = index(page % GROUP);
        if let Some(Some(sums)) = self.groups.read().get(index(page / GROUP)) {
            return Ok(sums.of[at]);
        }
        self.with_sums(page / GROUP, |sums| sums.of[at])
    }

    fn flush_sums(&self) -> io::Result<()> {
        let mut groups = self.groups.write();
        for (group, sums) in (0..).zip(groups.iter_mut()) {
            let Some(sums) = sums.as_mut().filter(|sums| sums.changed) else { continue };
            let bytes: Vec<u8> = sums.of.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            self.below.write(sums_place(group), &bytes)?;
            sums.changed = false;
        }
        Ok(())
    }

    fn read_header(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut sector = [0; SECTOR];
        self.below.read(place(0), &mut sector)?;
        let (header, sum_of) = sector.split_at(HEADER);
        let is_new = sector.iter().all(|byte| *byte == 0);
        if !is_new && sum(0, header).to_le_bytes() != sum_of {
            return Err(damaged("its header is not what was written".to_owned()));
        }
        out.fill(0);
        let wanted = header.get(index(offset)..).unwrap_or_default();
        let len = wanted.len().min(out.len());
        out[..len].copy_from_slice(&wanted[..len]);
        Ok(())
    }

    fn write_header(&self, data: &[u8]) -> io::Result<()> {
        let mut sector = [0; SECTOR];
        sector
            .get_mut(..data.len())
            .filter(|_| data.len() <= HEADER)
            .ok_or(io::ErrorKind::Unsupported)?
            .copy_from_slice(data);
        let sum = sum(0, &sector[..HEADER]);
        sector[HEADER..].copy_from_slice(&sum.to_le_bytes());
        self.flush_sums()?;
        self.below.write(place(0), &sector)
    }
}

impl<B: StorageBackend> StorageBackend for Summed<B> {
    fn len(&self) -> io::Result<u64> {
        let below = self.below.len()?;
        if !below.is_multiple_of(PAGE) {
            return Err(damaged("it ends in the middle of a page".to_owned()));
        }
        let pages = below / PAGE;
        Ok((pages - pages.div_ceil(GROUP + 1)) * PAGE)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset < PAGE {
            let (header, rest) = out.split_at_mut(index(PAGE - offset).min(out.len()));
            self.read_header(offset, header)?;
            return if rest.is_empty() { Ok(()) } else { self.read(PAGE, rest) };
        }
        if !is_whole(offset, out.len()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Neighbouring pages of one group are neighbours below.
        let mut rest = &mut *out;
        let mut page = offset / PAGE;
        while !rest.is_empty() {
            let together = index((GROUP - page % GROUP) * PAGE).min(rest.len());
            let (now, later) = rest.split_at_mut(together);
            self.below.read(place(page), now)?;
            page += now.len() as u64 / PAGE;
            rest = later;
        }
        for (page, range) in pages(offset, out.len()) {
            let (bytes, expected) = (&out[range], self.expected(page)?);
            let fits = if expected == 0 { bytes.iter().all(|byte| *byte == 0) } else { sum(page, bytes) == expected };
            if !fits {
                return Err(damaged(format!("page {page} is not what was written")));
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (before, pages) = (self.len()? / PAGE, len.div_ceil(PAGE));
        if pages < before {
            // Pages cut off are empty if the file grows again.
            if !pages.is_multiple_of(GROUP) {
                self.with_sums(pages / GROUP, |sums| {
                    sums.of[index(pages % GROUP)..].fill(0);
                    sums.changed = true;
                })?;
            }
            self.groups.write().truncate(index(pages.div_ceil(GROUP)));
        }
        self.below.set_len(len_below(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.flush_sums()?;
        self.below.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 {
            return self.write_header(data);
        }
        if !is_whole(offset, data.len()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (mut rest, mut page) = (data, offset / PAGE);
        while !rest.is_empty() {
            let together = index((GROUP - page % GROUP) * PAGE).min(rest.len());
            let (now, later) = rest.split_at(together);
            self.below.write(place(page), now)?;
            page += now.len() as u64 / PAGE;
            rest = later;
        }
        for (page, range) in pages(offset, data.len()) {
            let sum = sum(page, &data[range]);
            self.with_sums(page / GROUP, |sums| {
                sums.of[index(page % GROUP)] = sum;
                sums.changed = true;
            })?;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.below.close()
    }
}

pub(super) fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_) => true,
        redb::Error::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}

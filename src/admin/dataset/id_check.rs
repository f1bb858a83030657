//! Finds an id that an export has twice. Ids wait in temporary files until the end, and are then compared one part after
//! the other. This takes 64 MiB of memory, or one part of the ids of a very long export.

use std::io::{self, BufWriter, IntoInnerError, Read as _, Seek as _, Write as _};

use sha2::{Digest as _, Sha256};
use tempfile::SpooledTempFile;

/// Number of parts that ids are spread over by their sums, so that equal ids are in one part.
const PARTS: usize = 128;
/// Bytes of a part that stay in memory, before it becomes a file; all parts together take 64 MiB.
const PART_IN_MEMORY: usize = 512 * 1024;
/// Bytes of an id's SHA-256 that are kept, since ids may be long.
const SUM: usize = 16;
/// Bytes of a record: the beginning of the id's sum, and the sequence number of its entry.
const RECORD: usize = SUM + size_of::<u64>();

pub(super) struct IdCheck {
    parts: Vec<BufWriter<SpooledTempFile>>,
}

/// An entry with the id of an earlier one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Repeated {
    pub(super) seq: u64,
    pub(super) earlier: u64,
}

fn seq_of(record: &[u8; RECORD]) -> u64 {
    u64::from_be_bytes(*record.last_chunk().expect("a record is longer than a number"))
}

impl IdCheck {
    pub(super) fn new() -> Self {
        Self::with_parts_of(PART_IN_MEMORY)
    }

    fn with_parts_of(in_memory: usize) -> Self {
        Self { parts: (0..PARTS).map(|_| BufWriter::new(SpooledTempFile::new(in_memory))).collect() }
    }

    pub(super) fn add(&mut self, id: &str, seq: u64) -> io::Result<()> {
        let sum: [u8; 32] = Sha256::digest(id).into();
        let part = &mut self.parts[usize::from(sum[0]) % PARTS];
        part.write_all(&sum[..SUM])?;
        part.write_all(&seq.to_be_bytes())
    }

    /// The first entry of the export that repeats an id.
    pub(super) fn first_repeated(self) -> io::Result<Option<Repeated>> {
        let mut first: Option<Repeated> = None;
        let mut bytes = Vec::new();
        for part in self.parts {
            let mut part = part.into_inner().map_err(IntoInnerError::into_error)?;
            part.rewind()?;
            bytes.clear();
            part.read_to_end(&mut bytes)?;
            let (records, _) = bytes.as_chunks_mut::<RECORD>();
            records.sort_unstable();
            let equal = records.windows(2).filter(|pair| pair[0][..SUM] == pair[1][..SUM]);
            let repeated = equal.map(|pair| Repeated { seq: seq_of(&pair[1]), earlier: seq_of(&pair[0]) });
            first = first.into_iter().chain(repeated).min();
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: impl IntoIterator<Item = u64>) -> IdCheck {
        let mut check = IdCheck::with_parts_of(1_000);
        for (seq, id) in (1..).zip(ids) {
            check.add(&format!("evt_{id}"), seq).unwrap();
        }
        check
    }

    #[test]
    fn ids_of_a_long_export_are_compared_in_files() {
        let ids = 1..=100_000_u64;
        let different = check(ids.clone());
        assert!(different.parts.iter().all(|part| part.get_ref().is_rolled()));
        assert_eq!(different.first_repeated().unwrap(), None);
        let repeated = Some(Repeated { seq: 100_001, earlier: 500 });
        assert_eq!(check(ids.chain([500, 7, 500])).first_repeated().unwrap(), repeated);
    }

    #[test]
    fn ids_of_a_short_export_stay_in_memory() {
        let short = check([3, 1, 2, 1]);
        assert!(!short.parts.iter().any(|part| part.get_ref().is_rolled()));
        assert_eq!(short.first_repeated().unwrap(), Some(Repeated { seq: 4, earlier: 2 }));
    }
}

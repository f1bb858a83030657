//! The size of one append. The same bounds hold for commands and for imports.

use prost::Message as _;

use super::Writer;
use crate::{domain::entry::Entry, tables::log::room};

/// Maximum number of entries in one append, besides derived events. The callers of a batch wait for the rows of all its
/// entries.
pub(super) const MAX_ENTRIES: usize = 256;
/// Maximum size of one append on a cluster. An append is one conditional batch, and each replica writes such a batch
/// twice: as a proposal and as rows. Cassandra and ScyllaDB do not limit batches of one partition themselves until a
/// mutation has several MiB, but a large one delays all other requests of its replicas.
const MAX_CLUSTER_BYTES: usize = 90 * 1024;
/// The same on the embedded store, where an append is one transaction: its sync to the disk takes as long for a few
/// bytes.
const MAX_EMBEDDED_BYTES: usize = 16 * MAX_CLUSTER_BYTES;
/// Approximate size of a log row without its entry, but with its salt: the key and the version.
const ROW_BYTES: usize = 103;

/// The space that one append still has.
pub(super) struct Space {
    entries: usize,
    bytes: usize,
}

impl Space {
    /// Takes space for a number of entries that have this size together. Returns whether there was enough.
    pub(super) fn take(&mut self, entries: usize, bytes: usize) -> bool {
        let bytes = bytes + entries * ROW_BYTES;
        let is_enough = entries <= self.entries && bytes <= self.bytes;
        self.entries = self.entries.saturating_sub(entries);
        self.bytes = self.bytes.saturating_sub(bytes);
        is_enough
    }

    pub(super) fn take_for(&mut self, entries: &[Entry]) -> bool {
        self.take(entries.len(), entries.iter().map(|entry| entry.encoded_len()).sum())
    }
}

impl Writer {
    /// The space of the next append, which begins with this number of derived events.
    pub(super) fn space(&self, derived: usize) -> Space {
        let bytes = if self.shared.backend.is_exclusive() { MAX_EMBEDDED_BYTES } else { MAX_CLUSTER_BYTES };
        Space { entries: MAX_ENTRIES.min(room(self.head).saturating_sub(derived)), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_has_space_for_a_number_of_entries_and_of_bytes() {
        let space = |entries, bytes| Space { entries, bytes };
        let whole = 10 + 2 * ROW_BYTES;
        for (entries, bytes, is_enough) in [(2, 10, true), (2, 11, false), (1, 10 + ROW_BYTES, true), (0, 0, true)] {
            assert_eq!(space(2, whole).take(entries, bytes), is_enough, "{entries} entries of {bytes} bytes");
        }
        assert!(!space(2, 10 * whole).take(3, 0), "a third entry");
        let mut rest = space(3, whole);
        assert!(rest.take(1, 4) && rest.take(1, 6) && rest.take(0, 0) && !rest.take(0, 1));
        assert!(!rest.take(1, 0), "an entry without bytes has a row");
        let mut rest = space(1, whole);
        assert!(rest.take(1, 0) && !rest.take(1, 0));
    }
}

//! The months that are rebuilt from the log of `live`, while all others follow its newest entries.

use super::{SearchError, SearchIndex, schema::Terms};
use crate::domain::{dataset::Dataset, entry::SequencedEntry};

impl SearchIndex {
    /// The part of the log of `live` that rebuilt months still lack: after the first number, up to the second. None if
    /// all months are complete.
    pub fn rebuild_range(&self) -> Result<Option<(u64, u64)>, SearchError> {
        self.write(|writer| Ok(writer.rebuild_range()))
    }

    /// Applies the next entries of `live` to the months that are being rebuilt. Searches read a month again after the
    /// commit that completes it.
    pub fn rebuild(&self, entries: &[SequencedEntry]) -> Result<(), SearchError> {
        let terms = Terms::new(self.fields, &Dataset::Live);
        self.write(|writer| {
            writer.rebuild(&terms, entries);
            Ok(())
        })
    }
}

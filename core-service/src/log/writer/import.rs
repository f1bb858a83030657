//! Copies the entries of another log unchanged into an empty one. Until the last one is copied, the log accepts no
//! other entry, so all sequence numbers stay the same.
//!
//! The first append writes a mark beside the head, in one step: the number of entries and the checksum of the file. The
//! mark exists exactly if entry 1 was imported, and never changes. So each writer, also after a restart or at another
//! core, knows whether an import is unfinished, and an import continues only with the same mark. Fan-out begins after
//! it.

use std::slice;

use super::{CommandOutcome, Writer, command::Import};
use crate::{
    domain::entry::Entry,
    store::{Consistency, StoreError, StoreResult},
};

/// Reason to refuse an import into a log that has other entries.
const HAS_ENTRIES: &str = "must have no entries; an import never adds to a dataset that has some, unless it is the rest \
                           of the same file";
/// Reason to refuse a part of an import whose predecessors are missing.
const HAS_GAP: &str = "lacks the entries before these; run the whole import again";
/// Reason to refuse a part of an import that differs from the log.
const DIFFERS: &str = "has other entries at these places; this is not the file that was imported";

impl Writer {
    /// True while the log is a copy whose end is still missing.
    pub(super) fn is_importing(&self) -> bool {
        self.import.flatten().is_some_and(|mark| self.head < mark.entries)
    }

    /// Returns whether another core has completed the import. Only then does this writer follow its entries.
    pub(super) async fn import_has_ended(&mut self) -> StoreResult<bool> {
        if self.shared.backend.is_exclusive() {
            return Ok(false);
        }
        let head = self.shared.log.head(&self.name, self.head, Consistency::Quorum).await?;
        if self.import.flatten().is_none_or(|mark| head >= mark.entries) {
            self.follow_others(false).await?;
        }
        Ok(!self.is_importing())
    }

    /// Reads whether the log began with an import, once it has entries.
    pub(super) async fn load_import_mark(&mut self) -> StoreResult<()> {
        if self.import.is_none() && self.head > 0 {
            self.import = Some(self.shared.log.import(&self.name).await?);
        }
        Ok(())
    }

    /// Appends the entries of an import that the log does not hold yet.
    pub(super) async fn import(&mut self, import: &Import) -> StoreResult<CommandOutcome> {
        self.follow_others(false).await?;
        let mut checked = 0;
        loop {
            if self.head > 0 && self.import.flatten() != Some(import.mark) {
                return Ok(import_result(Some(HAS_ENTRIES)));
            }
            let Some(present) = self.head.checked_sub(import.after) else { return Ok(import_result(Some(HAS_GAP))) };
            let present = usize::try_from(present).unwrap_or(usize::MAX).min(import.entries.len());
            if !self.has(import, checked, present).await? {
                return Ok(import_result(Some(DIFFERS)));
            }
            let batch = self.import_batch(&import.entries[present..]);
            checked = present + batch.len();
            if batch.is_empty() {
                return Ok(import_result(None));
            }
            if self.append_marked(batch, Some(import.mark)).await?.is_none() {
                // Another core has appended at these places, perhaps the same entries.
                checked = present;
            }
        }
    }

    /// Takes the first entries, as many as fit into one append.
    fn import_batch(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut space = self.space(0);
        let fit = entries.iter().map(slice::from_ref).take_while(|entry| space.take_for(entry)).count();
        // A single entry is appended whatever its size.
        entries[..fit.max(entries.len().min(1))].to_vec()
    }

    /// Returns whether the log holds the import's entries from one index up to another.
    async fn has(&self, import: &Import, from: usize, to: usize) -> StoreResult<bool> {
        let (Some(wanted), after) = (import.entries.get(from..to), import.after + from as u64) else { return Ok(true) };
        if wanted.is_empty() {
            return Ok(true);
        }
        let rows = self.shared.log.read(&self.name, after, import.after + to as u64, wanted.len()).await?;
        if rows.len() < wanted.len() {
            return Err(StoreError::Unavailable(format!("log {} could not be read up to its head", self.name)));
        }
        Ok(rows.iter().zip(wanted).all(|((seq, body), entry)| *body == entry.stored(*seq)))
    }
}

fn import_result(refused: Option<&'static str>) -> CommandOutcome {
    CommandOutcome {
        id: String::new(),
        entry: None,
        applied: refused.is_none(),
        event_id: None,
        refused,
        was_known: false,
    }
}

//! Copies the entries of another log into an empty one, as they are. Until the last of them is there, nothing else may
//! enter the log, so that all sequence numbers stay the same.

use std::slice;

use prost::Message as _;

use super::{Writer, Written, command::Import};
use crate::{
    domain::entry::Entry,
    store::{Consistency, StoreError, StoreResult},
};

/// Why an import is refused that would come upon other entries.
const HAS_ENTRIES: &str = "must have no entries; an import never adds to a dataset that has some, unless it is the rest \
                           of the same file";
/// Why a part of an import is refused whose predecessors are missing.
const HAS_GAP: &str = "lacks the entries before these; run the whole import again";
/// Why a part of an import is refused that says something else than the log.
const DIFFERS: &str = "has other entries at these places; this is not the file that was imported";

impl Writer {
    /// Whether the log is a copy whose end is still missing.
    pub(super) fn is_importing(&self) -> bool {
        self.import.flatten().is_some_and(|mark| self.head < mark.entries)
    }

    /// Whether another core has brought the import to its end. Its entries are followed then, and not before.
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

    /// Learns whether the log began with an import, once it has entries.
    pub(super) async fn learn_import(&mut self) -> StoreResult<()> {
        if self.import.is_none() && self.head > 0 {
            self.import = Some(self.shared.log.import(&self.name).await?);
        }
        Ok(())
    }

    /// Appends those of an import's entries that are not there yet.
    pub(super) async fn import(&mut self, import: &Import) -> StoreResult<Written> {
        self.follow_others(false).await?;
        let mut checked = 0;
        loop {
            if self.head > 0 && self.import.flatten() != Some(import.mark) {
                return Ok(answer(Some(HAS_ENTRIES)));
            }
            let Some(there) = self.head.checked_sub(import.after) else { return Ok(answer(Some(HAS_GAP))) };
            let there = usize::try_from(there).unwrap_or(usize::MAX).min(import.entries.len());
            if !self.has(import, checked, there).await? {
                return Ok(answer(Some(DIFFERS)));
            }
            let batch = self.import_batch(&import.entries[there..]);
            checked = there + batch.len();
            if batch.is_empty() {
                return Ok(answer(None));
            }
            if self.append_marked(batch, Some(import.mark)).await?.is_none() {
                // Another core has written there: perhaps the same.
                checked = there;
            }
        }
    }

    /// The first of these entries, as many as one append takes.
    fn import_batch(&self, entries: &[Entry]) -> Vec<Entry> {
        let mut space = self.space(0);
        let fit = entries.iter().map(slice::from_ref).take_while(|entry| space.take_for(entry)).count();
        // One entry is appended whatever its size.
        entries[..fit.max(entries.len().min(1))].to_vec()
    }

    /// Whether the log has these of the import's entries, from one index up to another.
    async fn has(&self, import: &Import, from: usize, to: usize) -> StoreResult<bool> {
        let (Some(wanted), after) = (import.entries.get(from..to), import.after + from as u64) else { return Ok(true) };
        if wanted.is_empty() {
            return Ok(true);
        }
        let rows = self.shared.log.read(&self.name, after, import.after + to as u64, wanted.len()).await?;
        if rows.len() < wanted.len() {
            return Err(StoreError::Unavailable(format!("log {} could not be read up to its head", self.name)));
        }
        Ok(rows.iter().zip(wanted).all(|((_, body), entry)| *body == entry.encode_to_vec()))
    }
}

fn answer(refused: Option<&'static str>) -> Written {
    Written { id: String::new(), entry: None, applied: refused.is_none(), event_id: None, refused }
}

//! Follows the entries of other writers.

use tokio::time::Instant;

use super::{
    CATCH_UP_PAGE, FOLLOWER_DERIVE_DELAY_MS, OTHER_PROJECTION_TIMEOUT, PROJECTION_POLL_INTERVAL, Writer,
    under_way::BatchesUnderWay,
};
use crate::{
    domain::entry::SequencedEntry,
    log::projection::ROWS,
    store::{Consistency, StoreError, StoreResult},
    tables::log::decode,
};

impl Writer {
    /// Follows the log to its head: from the checkpoint at the start, from `self.head` after a failure. Writes the rows
    /// before `self.head` that are missing after a failure.
    pub(super) async fn catch_up(&mut self) -> StoreResult<()> {
        if let Err(error) = self.under_way.finish().await {
            tracing::warn!(dataset = self.name, %error, "writing rows failed, writing them again from the log");
            self.under_way = BatchesUnderWay::default();
            self.projector.forget_prepared();
            self.pending.note_not_stored(self.head);
        }
        let log = &self.shared.log;
        let projected = log.checkpoint(&self.name, ROWS).await?;
        if self.head == 0 {
            // The head is set last: a writer with a head never loads the pending derivations below it again.
            let newest = log.get(&self.name, projected).await?.map(|body| decode(projected, body)).transpose()?;
            self.pending.load(projected).await?;
            self.last_created_at = newest.map_or(0, |entry| entry.created_at);
            self.head = projected;
        }
        self.project_missing(projected).await?;
        let log = &self.shared.log;
        let head = log.head(&self.name, self.head, Consistency::Serial).await?;
        // Appends before a restart of the writer, and failed ones, may be among these entries.
        self.own_head = head;
        self.follow(head, projected, Vec::new()).await
    }

    /// Writes the rows beyond `projected` of the entries up to `self.head`.
    async fn project_missing(&self, mut projected: u64) -> StoreResult<()> {
        while projected < self.head {
            let entries = self.entries_after(projected, self.head).await?;
            projected = entries.last().ok_or_else(|| self.ends_before(self.head))?.seq;
            self.projector.project(&entries).await?;
        }
        Ok(())
    }

    fn ends_before(&self, head: u64) -> StoreError {
        StoreError::Unavailable(format!("log {} ends before its head {head}", self.name))
    }

    /// Follows another writer's entries. Returns whether there were any. `lost` means that the log certainly has some.
    pub(super) async fn follow_others(&mut self, lost: bool) -> StoreResult<bool> {
        if !lost && self.shared.backend.is_exclusive() {
            return Ok(false);
        }
        // Only a serial read sees an append that was begun and abandoned, but it slows down running appends.
        let mut head = self.shared.log.head(&self.name, self.head, Consistency::Quorum).await?;
        if lost && head <= self.head {
            head = self.shared.log.head(&self.name, self.head, Consistency::Serial).await?;
        }
        if head <= self.head {
            return Ok(false);
        }
        self.under_way.finish().await?;
        let (projected, first) =
            tokio::try_join!(self.wait_until_projected(head), self.entries_after(self.head, head))?;
        self.current = false;
        self.follow(head, projected, first).await?;
        Ok(true)
    }

    pub(super) async fn entries_after(&self, after: u64, head: u64) -> StoreResult<Vec<SequencedEntry>> {
        let rows = self.shared.log.read(&self.name, after, head, CATCH_UP_PAGE).await?;
        rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(seq, body)? })).collect()
    }

    /// Applies the log's entries up to `head`, and writes the rows beyond `projected`. `entries` holds the first of
    /// them if they were read before.
    pub(super) async fn follow(
        &mut self,
        head: u64,
        projected: u64,
        mut entries: Vec<SequencedEntry>,
    ) -> StoreResult<()> {
        while self.head < head {
            if entries.is_empty() {
                entries = self.entries_after(self.head, head).await?;
            }
            if entries.is_empty() {
                return Err(self.ends_before(head));
            }
            let missing = entries.partition_point(|entry| entry.seq <= projected);
            self.projector.skip_entries(&entries[..missing]);
            self.projector.project(&entries[missing..]).await?;
            self.apply_entries(&entries, FOLLOWER_DERIVE_DELAY_MS);
            entries.clear();
        }
        self.load_import_mark().await?;
        self.current = true;
        self.position.note_followed(self.head);
        Ok(())
    }

    /// Waits until the rows reach `head`, at most for the timeout. Returns the checkpoint of the rows.
    pub(super) async fn wait_until_projected(&self, head: u64) -> StoreResult<u64> {
        let until = Instant::now() + OTHER_PROJECTION_TIMEOUT;
        loop {
            let projected = self.shared.log.checkpoint(&self.name, ROWS).await?;
            if projected >= head || Instant::now() >= until {
                return Ok(projected);
            }
            tokio::time::sleep(PROJECTION_POLL_INTERVAL).await;
        }
    }

    /// Moves the head past entries that are projected or under way, and updates the state in memory. Their derived
    /// events are due `derive_delay_ms` later than for the writer that appended them.
    pub(super) fn apply_entries(&mut self, entries: &[SequencedEntry], derive_delay_ms: i64) {
        let Some(last) = entries.last() else { return };
        self.pending.apply_entries(entries, derive_delay_ms);
        self.head = last.seq;
        self.pending.note_head(self.head);
        self.last_created_at = self.last_created_at.max(last.entry.created_at);
        for sequenced in entries {
            self.known.apply_entry(&sequenced.entry);
        }
    }

    pub(super) async fn entry_at(&self, seq: u64) -> StoreResult<SequencedEntry> {
        let body = self.shared.log.get(&self.name, seq).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {} has no entry {seq}", self.name)))?;
        Ok(SequencedEntry { seq, entry: decode(seq, body)? })
    }
}

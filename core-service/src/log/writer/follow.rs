//! Follows the entries of other writers.

use tokio::time::Instant;

use super::{CATCH_UP, OTHERS_FIRST_MS, PATIENCE, POLL_INTERVAL, Writer, advance};
use crate::{
    domain::entry::SequencedEntry,
    log::projection::ROWS,
    store::{Consistency, StoreError, StoreResult},
    tables::log::decode,
};

impl Writer {
    /// Follows the log to its head: from the checkpoint at the start, from `self.head` after a failure.
    pub(super) async fn catch_up(&mut self) -> StoreResult<()> {
        let log = &self.shared.log;
        let projected = log.checkpoint(&self.name, ROWS).await?;
        if self.head == 0 {
            // The head comes last: who has one passes over what is owed below it.
            let newest = log.get(&self.name, projected).await?.map(decode).transpose()?;
            self.due.load(projected).await?;
            self.last_created_at = newest.map_or(0, |entry| entry.created_at);
            self.head = projected;
        }
        let head = log.head(&self.name, self.head, Consistency::Serial).await?;
        // Appends before a restart of the writer, and failed ones, may be among these entries.
        self.own_head = head;
        self.follow(head, projected, Vec::new()).await
    }

    /// Follows another writer's entries; tells whether there were any. `lost` says that there certainly are.
    pub(super) async fn follow_others(&mut self, lost: bool) -> StoreResult<bool> {
        if !lost && self.shared.backend.is_exclusive() {
            return Ok(false);
        }
        // Only a serial read sees an append that was begun and abandoned, but it disturbs appends under way.
        let mut head = self.shared.log.head(&self.name, self.head, Consistency::Quorum).await?;
        if lost && head <= self.head {
            head = self.shared.log.head(&self.name, self.head, Consistency::Serial).await?;
        }
        if head <= self.head {
            return Ok(false);
        }
        let (projected, first) = tokio::try_join!(self.projected(head), self.entries_after(self.head, head))?;
        self.current = false;
        self.follow(head, projected, first).await?;
        Ok(true)
    }

    pub(super) async fn entries_after(&self, after: u64, head: u64) -> StoreResult<Vec<SequencedEntry>> {
        let rows = self.shared.log.read(&self.name, after, head, CATCH_UP).await?;
        rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(body)? })).collect()
    }

    /// Takes over the log's entries up to `head`, and makes the rows beyond `projected`. `entries` holds the first ones
    /// if they have been read.
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
                return Err(StoreError::Unavailable(format!("log {} ends before its head {head}", self.name)));
            }
            let missing = entries.partition_point(|entry| entry.seq <= projected);
            self.projector.pass(&entries[..missing]);
            self.projector.project(&entries[missing..]).await?;
            self.learn(&entries, OTHERS_FIRST_MS).await?;
            entries.clear();
        }
        self.learn_import().await?;
        self.current = true;
        self.followed.send_replace(self.head);
        if self.position.send_if_modified(|position| advance(position, self.head)) {
            self.shared.news.log(&self.name, self.head);
        }
        Ok(())
    }

    /// How far the rows are made. Waits until they reach `head` or the writer of `head` has had its time.
    pub(super) async fn projected(&self, head: u64) -> StoreResult<u64> {
        let until = Instant::now() + PATIENCE;
        loop {
            let projected = self.shared.log.checkpoint(&self.name, ROWS).await?;
            if projected >= head || Instant::now() >= until {
                return Ok(projected);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Learns from projected entries; events they owe are due `later_ms` later than for the writer that appended them.
    pub(super) async fn learn(&mut self, entries: &[SequencedEntry], later_ms: i64) -> StoreResult<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        self.due.take(entries, later_ms).await;
        self.head = last.seq;
        self.due.note(self.head);
        self.last_created_at = self.last_created_at.max(last.entry.created_at);
        for sequenced in entries {
            self.known.learn(&sequenced.entry);
        }
        Ok(())
    }

    pub(super) async fn entry_at(&self, seq: u64) -> StoreResult<SequencedEntry> {
        let body = self.shared.log.get(&self.name, seq).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {} has no entry {seq}", self.name)))?;
        Ok(SequencedEntry { seq, entry: decode(body)? })
    }
}

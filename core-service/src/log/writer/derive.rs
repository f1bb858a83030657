//! Makes the derived events that are due. It counts from memory alone: what is not there is read beside the writer.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;

use super::{Writer, look::Look};
use crate::{
    domain::{derivation::DERIVE_EVERY_MS, entry::Entry},
    log::derive::entries,
    store::{StoreError, StoreResult},
    tables::{log::room, recent_theses::TokenDay},
};

/// Most tokens whose derived events go into one batch.
const DERIVE_BATCH: usize = 32;

/// What was read of a token: the number of the look, the token, its last day, and its newest thesis if that is older.
pub(super) type Looked = (u64, String, StoreResult<(TokenDay, Option<(i64, String)>)>);

impl Writer {
    /// Appends one batch of the derived events that are due; what waits meanwhile comes before the next.
    pub(super) async fn derive(&mut self) -> StoreResult<()> {
        // Within an import, what is owed may come with it.
        if self.is_importing() || self.due.ready(self.shared.clock.now_ms(), 1).is_empty() {
            return Ok(());
        }
        // Another writer may have made them.
        self.follow_others(false).await?;
        if self.is_importing() {
            return Ok(());
        }
        if room(self.head) < 2 {
            // A pair must not be split over two buckets.
            self.fill().await?;
        }
        let batch = self.derived_entries(room(self.head) / 2);
        self.append(batch).await.map(|_| ())
    }

    /// The derived events that are due, two for a token, of at most `pairs` tokens and at most one batch. Begins to read
    /// the theses of tokens that it cannot count.
    pub(super) fn derived_entries(&mut self, pairs: usize) -> Vec<Entry> {
        let now = self.shared.clock.now_ms();
        let at = now.max(self.last_created_at);
        let ready = self.due.ready(now, DERIVE_BATCH.min(pairs));
        let mut made = Vec::with_capacity(ready.len() * 2);
        for token in ready {
            let Some(owed) = self.due.of(&token) else { continue };
            let in_memory = self.projector.theses().day_in_memory(&self.dataset, &token, at);
            let counted = in_memory.map(|day| day.counts(at)).filter(|counts| counts.latest.is_some());
            let counted = counted.map(|counts| (counts.newest(), counts)).or_else(|| owed.look.counts(at));
            if let Some((latest, counts)) = counted {
                made.extend(entries(&self.name, &owed.token, owed.newest, at, &counts, latest));
                continue;
            }
            self.looks += 1;
            let (number, looks, looked) = (self.looks, Arc::clone(&self.shared.token_reads), self.looked.0.clone());
            owed.look = Look::under_way(number);
            let (theses, dataset) = (self.projector.theses().clone(), self.dataset.clone());
            tokio::spawn(async move {
                let _permit = looks.acquire_owned().await;
                let day = AssertUnwindSafe(theses.day(&dataset, &token, at)).catch_unwind().await;
                let day = day.unwrap_or_else(|_| Err(StoreError::Damaged("reading them panicked".to_owned())));
                // The writer may have ended.
                let _ = looked.send((number, token, day));
            });
        }
        made
    }

    /// Takes in what was read of a token.
    pub(super) fn take_look(&mut self, (number, token, day): Looked) {
        let is_meant = self.due.of(&token).is_some_and(|owed| owed.look.is(number));
        if let Err(error) = &day
            && is_meant
        {
            // It waits alone: neither other tokens nor theses wait for it.
            tracing::warn!(dataset = self.name, token, %error, "reading a token's theses failed, trying again");
            self.due.put_off(&token, self.shared.clock.now_ms() + DERIVE_EVERY_MS);
        }
        if let Some(owed) = self.due.of(&token) {
            owed.look.end(number, day.ok());
        }
    }
}

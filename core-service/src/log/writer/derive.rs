//! Creates the derived events that are due. The writer counts theses from memory only. A task beside the writer loads
//! the theses that are not in memory.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;

use super::{Writer, batch::Space, token_counts::TokenCounts};
use crate::{
    domain::{
        derivation::{DERIVE_EVERY_MS, TokenTheses},
        entry::{Entry, Kind, ThesisCreated},
        row::Token,
    },
    log::derive::entries,
    store::{StoreError, StoreResult},
    tables::{log::room, recent_theses::TokenDay},
};

/// Maximum number of tokens whose derived events go into one batch.
const DERIVE_BATCH: usize = 32;

/// A finished load: its number, the token, its last day, and its newest thesis if that is older.
pub(super) type LoadedToken = (u64, String, StoreResult<(TokenDay, Option<(i64, String)>)>);

impl Writer {
    /// Appends one batch of the derived events that are due. Queued commands are carried out before the next batch.
    pub(super) async fn derive(&mut self) -> StoreResult<()> {
        // An import may contain the pending derived events itself.
        if self.is_importing() || self.pending.ready_tokens(self.shared.clock.now_ms(), 1).is_empty() {
            return Ok(());
        }
        // Another writer may have appended them. That is unlikely at the owner of the log while it knows of no entries
        // after those that this core may have appended. If it happens, the append fails.
        if self.own_head < self.head || !self.peers.owns(&self.name) {
            self.follow_others(false).await?;
            if self.is_importing() {
                return Ok(());
            }
        }
        if room(self.head) < 2 {
            // A pair must not be split over two buckets.
            self.fill().await?;
        }
        let batch = self.derived_entries(room(self.head) / 2);
        self.append(batch).await.map(|_| ())
    }

    /// The derived events that are due, two for a token, of at most `pairs` tokens and at most one batch. Their ids
    /// contain their sequence numbers, so the next append must begin with them. Starts a load for each token whose
    /// theses are not in memory.
    pub(super) fn derived_entries(&mut self, pairs: usize) -> Vec<Entry> {
        let now = self.shared.clock.now_ms();
        let at = now.max(self.last_created_at);
        let ready = self.pending.ready_tokens(now, DERIVE_BATCH.min(pairs));
        let mut derived = Vec::with_capacity(ready.len() * 2);
        for token in ready {
            let Some(pending) = self.pending.pending_for(&token) else { continue };
            let in_memory = self.projector.theses().day_in_memory(&self.dataset, &token, at);
            // The theses in memory are those whose rows are written.
            let under_way = self.under_way.theses_on(&token);
            let under_way: TokenTheses =
                under_way.map(|thesis| (thesis.created_at, thesis.id.clone(), thesis.profile_id.clone())).collect();
            let counted = in_memory.map(|day| day.counts_with(&under_way, at)).filter(|counts| counts.latest.is_some());
            let counted = counted.map(|counts| (counts.newest(), counts)).or_else(|| pending.counts.count_at(at));
            if let Some((latest, counts)) = counted {
                let first = self.head + 1 + derived.len() as u64;
                let event_ids = &self.shared.event_positions.ids;
                let ids = [first, first + 1].map(|seq| event_ids.encrypt(&self.name, seq));
                derived.extend(entries(ids, &pending.token, at, &counts, latest));
                continue;
            }
            self.loads_started += 1;
            let (number, permits, loaded) =
                (self.loads_started, Arc::clone(&self.shared.token_reads), self.loaded_tokens.0.clone());
            pending.counts = TokenCounts::loading(number);
            self.under_way.theses_on(&token).for_each(|thesis| pending.counts.add_thesis(thesis));
            let (theses, dataset) = (self.projector.theses().clone(), self.dataset.clone());
            tokio::spawn(async move {
                let _permit = permits.acquire_owned().await;
                let day = AssertUnwindSafe(theses.day(&dataset, &token, at)).catch_unwind().await;
                let day = day.unwrap_or_else(|_| Err(StoreError::Damaged("reading them panicked".to_owned())));
                // The writer may have ended.
                let _ = loaded.send((number, token, day));
            });
        }
        derived
    }

    /// Adds the derived events of new theses to the same append, as far as it has space. So a lone thesis takes no
    /// second append. The events must be due at once, and the other theses of their tokens' last day in memory.
    pub(super) fn add_derived(&self, drafted: &mut Vec<Entry>, space: &mut Space) {
        let now = self.shared.clock.now_ms();
        let mut theses: BTreeMap<&str, Option<(&Token, TokenTheses)>> = BTreeMap::new();
        for entry in drafted.iter() {
            // Deletions and changed tokens are rare, and change what the events show.
            let Some(Kind::ThesisCreated(created)) = &entry.kind else { return };
            let ThesisCreated { thesis, token, .. } = created;
            let of_token = theses.entry(&token.id).or_insert_with(|| Some((token, TokenTheses::default())));
            if !self.pending.is_due_at_once(&token.id, entry.created_at, now)
                || self.under_way.theses_on(&token.id).next().is_some()
            {
                // The events would settle a thesis without counting it.
                *of_token = None;
            } else if let Some((_, added)) = of_token {
                added.insert(thesis.created_at, thesis.id.clone(), thesis.profile_id.clone());
            }
        }
        let at = drafted.iter().map(|entry| entry.created_at).fold(now, i64::max);
        let theses = theses.into_iter().filter_map(|(id, of_token)| Some((id, of_token?)));
        let (mut derived, mut left) = (Vec::new(), room(self.head).saturating_sub(drafted.len()));
        for (id, (token, added)) in theses.take(DERIVE_BATCH) {
            let day = self.projector.theses().day_in_memory(&self.dataset, id, at);
            let Some(counts) = day.map(|day| day.counts_with(&added, at)).filter(|counts| counts.latest.is_some())
            else {
                continue;
            };
            let first = self.head + 1 + (drafted.len() + derived.len()) as u64;
            let event_ids = &self.shared.event_positions.ids;
            let ids = [first, first + 1].map(|seq| event_ids.encrypt(&self.name, seq));
            let pair = entries(ids, token, at, &counts, counts.newest());
            if left < pair.len() || !space.take_for(&pair) {
                break;
            }
            left -= pair.len();
            derived.extend(pair);
        }
        drafted.extend(derived);
    }

    pub(super) fn apply_loaded(&mut self, (number, token, day): LoadedToken) {
        let is_current = self.pending.pending_for(&token).is_some_and(|pending| pending.counts.is_load(number));
        if let Err(error) = &day
            && is_current
        {
            // Only this token waits; other tokens and theses do not.
            tracing::warn!(dataset = self.name, token, %error, "reading a token's theses failed, trying again");
            self.pending.postpone(&token, self.shared.clock.now_ms() + DERIVE_EVERY_MS);
        }
        if let Some(pending) = self.pending.pending_for(&token) {
            pending.counts.finish_load(number, day.ok());
        }
    }
}

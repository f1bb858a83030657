//! Pending derivations: the derived events that tokens still need. A token gets at most one pair in five seconds. The
//! pair after its last thesis is never lost.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{CATCH_UP_PAGE, token_counts::TokenCounts};
use crate::{
    domain::{
        derivation::DERIVE_EVERY_MS,
        entry::{Kind, SequencedEntry},
        row::Token,
    },
    shared::Shared,
    store::{StoreError, StoreResult},
    tables::log::{checkpoint_change, decode},
};

/// The writer stores a moved checkpoint within this time.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of tokens kept with the time of their last derived events. Beyond it, old times are forgotten.
const MAX_DERIVED_TIMES: usize = 4_096;
/// Entries of one read of the log's end, and the maximum number of these reads.
const TAIL_PAGE: usize = 100;
const MAX_TAIL_PAGES: usize = 40;
/// Earlier than the time of any derived event.
const NEVER: i64 = i64::MIN / 2;

/// Checkpoint: all derived events up to here are written.
pub const DERIVED: &str = "derived";

/// Derived events of one token that are not written yet.
pub(super) struct PendingToken {
    pub(super) token: Token,
    /// The sequence number of the oldest thesis that its events have to cover.
    oldest: u64,
    /// The events are due at this time, in unix milliseconds.
    due_at: i64,
    pub(super) counts: TokenCounts,
}

/// The theses of one token among new entries.
struct NewTheses<'a> {
    oldest: u64,
    /// The time of the newest one's entry.
    created_at: i64,
    token: &'a Token,
}

pub(super) struct PendingDerivations {
    shared: Arc<Shared>,
    name: String,
    tokens: BTreeMap<String, PendingToken>,
    /// By token: the time of its last derived events, from the log's recent entries.
    derived_at: HashMap<String, i64>,
    /// All other tokens got their last derived events at this time or before.
    others_derived_at: i64,
    stored: u64,
    /// The checkpoint must be stored by this time; none when it has not moved.
    store_by: Option<Instant>,
}

impl PendingDerivations {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        Self {
            shared,
            name,
            tokens: BTreeMap::new(),
            derived_at: HashMap::new(),
            others_derived_at: NEVER,
            stored: 0,
            store_by: None,
        }
    }

    /// Reads the pending derivations at `head` from the log, beyond the stored checkpoint. Call it before any entry is
    /// applied.
    pub(super) async fn load(&mut self, head: u64) -> StoreResult<()> {
        self.tokens.clear();
        self.load_derived_times(head).await?;
        self.stored = self.shared.log.checkpoint(&self.name, DERIVED).await?;
        let mut after = self.stored;
        while after < head {
            let entries = self.read(after, head, CATCH_UP_PAGE).await?;
            let Some(last) = entries.last() else {
                return Err(StoreError::Unavailable(format!("log {} ends before {head}", self.name)));
            };
            after = last.seq;
            // They are not due at once: their theses may begin a backlog, and its rest must come first.
            self.apply_entries(&entries, DERIVE_EVERY_MS);
        }
        Ok(())
    }

    /// Reads when tokens last got derived events, back from `head` to the entries that can delay no more. Times never
    /// go back in a log, so a token without derived events here got its last ones before the oldest of these entries.
    async fn load_derived_times(&mut self, head: u64) -> StoreResult<()> {
        let now = self.shared.clock.now_ms();
        self.derived_at.clear();
        let mut upto = head;
        for _ in 0..MAX_TAIL_PAGES {
            let after = upto.saturating_sub(TAIL_PAGE as u64);
            let entries = self.read(after, upto, TAIL_PAGE).await?;
            for SequencedEntry { entry, .. } in entries.iter().rev() {
                if let Some(Kind::TokenActivity(activity)) = &entry.kind {
                    self.derived_at.entry(activity.token.id.clone()).or_insert(entry.created_at);
                }
            }
            if after == 0 {
                self.others_derived_at = NEVER;
                break;
            }
            // A writer whose clock was ahead may have appended this entry. It must not delay other tokens' events.
            self.others_derived_at = entries.first().map_or(now, |oldest| oldest.entry.created_at).min(now);
            if entries.is_empty() || self.others_derived_at + DERIVE_EVERY_MS <= now {
                break;
            }
            upto = after;
        }
        Ok(())
    }

    async fn read(&self, after: u64, upto: u64, limit: usize) -> StoreResult<Vec<SequencedEntry>> {
        let rows = self.shared.log.read(&self.name, after, upto, limit).await?;
        rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(seq, body)? })).collect()
    }

    /// Schedules a store of the checkpoint if it moves with this head.
    pub(super) fn note_head(&mut self, head: u64) {
        if self.settled(head) > self.stored {
            self.store_by.get_or_insert(Instant::now() + CHECKPOINT_INTERVAL);
        }
    }

    /// The checkpoint at this head: the log holds all derived events of the entries up to here.
    pub(super) fn settled(&self, head: u64) -> u64 {
        self.tokens.values().map(|pending| pending.oldest - 1).min().unwrap_or(head)
    }

    /// The checkpoint once the log has these next entries. None if they have no derived events, or it does not move.
    pub(super) fn settled_with(&self, entries: &[SequencedEntry]) -> Option<u64> {
        let (mut derived, mut new) = (HashSet::new(), HashMap::new());
        for SequencedEntry { seq, entry } in entries {
            match &entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    new.entry(created.token.id.as_str()).or_insert(*seq);
                }
                Some(Kind::TokenActivity(activity)) => {
                    new.remove(activity.token.id.as_str());
                    derived.insert(activity.token.id.as_str());
                }
                _ => {}
            }
        }
        if derived.is_empty() {
            return None;
        }
        let pending = self.tokens.iter().filter(|(token, _)| !derived.contains(token.as_str()));
        let oldest = pending.map(|(_, pending)| pending.oldest).chain(new.into_values()).min();
        let settled = oldest.map_or(entries.last()?.seq, |oldest| oldest - 1);
        (settled > self.stored).then_some(settled)
    }

    /// Returns whether the derived events of a new thesis would be due at once; `created_at` is the time of its entry.
    pub(super) fn is_due_at_once(&self, token: &str, created_at: i64, now: i64) -> bool {
        let last = self.derived_at.get(token).copied();
        let is_old = created_at < now - DERIVE_EVERY_MS;
        !is_old && !self.tokens.contains_key(token) && last.unwrap_or(self.others_derived_at) + DERIVE_EVERY_MS <= now
    }

    /// Notes that the store gets this checkpoint with the rows of a batch.
    pub(super) fn note_stored(&mut self, settled: u64) {
        self.stored = settled;
        self.store_by = None;
    }

    /// Schedules a store of the checkpoint at this head, since the rows of a batch were not written.
    pub(super) fn note_not_stored(&mut self, head: u64) {
        self.stored = 0;
        self.note_head(head);
    }

    /// The time by which the checkpoint must be stored; none when it has not moved.
    pub(super) fn store_by(&self) -> Option<Instant> {
        self.store_by
    }

    pub(super) async fn store_checkpoint(&mut self, head: u64) -> StoreResult<()> {
        let settled = self.settled(head);
        if settled > self.stored {
            self.shared.backend.apply(vec![checkpoint_change(&self.name, DERIVED, settled)]).await?;
            self.stored = settled;
        }
        self.store_by = None;
        Ok(())
    }

    /// Adds the derived events that these entries need, due `delay_ms` later than possible, and drops the pending ones
    /// that these entries contain.
    pub(super) fn apply_entries(&mut self, entries: &[SequencedEntry], delay_ms: i64) {
        let mut theses: HashMap<&str, NewTheses<'_>> = HashMap::new();
        for sequenced in entries {
            match &sequenced.entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    let (created_at, token) = (sequenced.entry.created_at, &created.token);
                    let oldest = theses.get(&*token.id).map_or(sequenced.seq, |known| known.oldest);
                    theses.insert(&token.id, NewTheses { oldest, created_at, token });
                    if let Some(pending) = self.tokens.get_mut(&created.token.id) {
                        pending.counts.add_thesis(&created.thesis);
                    }
                }
                Some(Kind::ThesisDeleted(deleted)) => {
                    if let Some(pending) = self.tokens.get_mut(&deleted.thesis.token_id) {
                        pending.counts.remove_thesis(&deleted.thesis);
                    }
                }
                Some(Kind::TokenObserved(observed)) => {
                    if let Some(known) = theses.get_mut(observed.token.id.as_str()) {
                        known.token = &observed.token;
                    }
                    if let Some(pending) = self.tokens.get_mut(&observed.token.id) {
                        pending.token.clone_from(&observed.token);
                    }
                }
                Some(Kind::TokenActivity(activity)) => {
                    theses.remove(activity.token.id.as_str());
                    self.tokens.remove(&activity.token.id);
                    // The events of a later thesis among these entries are due five seconds after this.
                    self.derived_at.insert(activity.token.id.clone(), sequenced.entry.created_at);
                }
                _ => {}
            }
        }
        for (id, new) in theses {
            let last = self.derived_at.get(id).copied().unwrap_or(self.others_derived_at);
            self.add_theses(&new, last + DERIVE_EVERY_MS, delay_ms);
        }
        if self.derived_at.len() > MAX_DERIVED_TIMES {
            let old = self.shared.clock.now_ms() - 2 * DERIVE_EVERY_MS;
            self.derived_at.retain(|_, at| *at > old);
        }
    }

    /// Adds the events that cover new theses of a token. They are due `delay_ms` after they are possible, which is not
    /// before `earliest`.
    fn add_theses(&mut self, new: &NewTheses<'_>, earliest: i64, delay_ms: i64) {
        if let Some(pending) = self.tokens.get_mut(&new.token.id) {
            pending.token.clone_from(new.token);
            return;
        }
        let now = self.shared.clock.now_ms();
        // Old theses come in large numbers; the rest must not have to follow an event of now.
        let back = if new.created_at < now - DERIVE_EVERY_MS { DERIVE_EVERY_MS } else { 0 };
        let pending = PendingToken {
            token: new.token.clone(),
            oldest: new.oldest,
            due_at: (now + back).max(earliest) + delay_ms,
            counts: TokenCounts::default(),
        };
        self.tokens.insert(new.token.id.clone(), pending);
    }

    /// Time until the next event is due. None when no event is pending, or when the theses of all such tokens are still
    /// being read.
    pub(super) fn time_until_due(&self) -> Option<Duration> {
        let next =
            self.tokens.values().filter(|pending| !pending.counts.is_loading()).map(|pending| pending.due_at).min()?;
        Some(Duration::from_millis((next - self.shared.clock.now_ms()).max(0).unsigned_abs()))
    }

    /// True when an event has been due for longer than `by`.
    pub(super) fn is_overdue(&self, by: Duration) -> bool {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        !self.ready_tokens(self.shared.clock.now_ms() - by, 1).is_empty()
    }

    /// Tokens whose events are due, unless their theses are being read.
    pub(super) fn ready_tokens(&self, now: i64, limit: usize) -> Vec<String> {
        let ready = self.tokens.iter().filter(|(_, pending)| pending.due_at <= now && !pending.counts.is_loading());
        ready.take(limit).map(|(token, _)| token.clone()).collect()
    }

    pub(super) fn pending_for(&mut self, token: &str) -> Option<&mut PendingToken> {
        self.tokens.get_mut(token)
    }

    pub(super) fn postpone(&mut self, token: &str, at: i64) {
        if let Some(pending) = self.tokens.get_mut(token) {
            pending.due_at = pending.due_at.max(at);
        }
    }
}

#[cfg(test)]
mod tests;

//! Pending derivations: the derived events that tokens still need. A token gets at most one pair in five seconds. The
//! pair after its last thesis is never lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    tables::{
        derived,
        log::{checkpoint_change, decode},
    },
};

/// The writer stores a moved checkpoint within this time.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of tokens kept with the time of their last derived events. Beyond it, old times are forgotten.
const MAX_DERIVED_TIMES: usize = 4_096;

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
    /// From this time on, `derived_at` is complete. None before the log is read.
    complete_since: Option<i64>,
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
            complete_since: None,
            stored: 0,
            store_by: None,
        }
    }

    /// Reads the pending derivations at `head` from the log, beyond the stored checkpoint. Call it before any entry is
    /// applied.
    pub(super) async fn load(&mut self, head: u64) -> StoreResult<()> {
        self.tokens.clear();
        self.complete_since = None;
        let log = self.shared.log.clone();
        self.stored = log.checkpoint(&self.name, DERIVED).await?;
        let mut after = self.stored;
        while after < head {
            let rows = log.read(&self.name, after, head, CATCH_UP_PAGE).await?;
            let entries = rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(body)? }));
            let entries = entries.collect::<StoreResult<Vec<_>>>()?;
            let Some(last) = entries.last() else {
                return Err(StoreError::Unavailable(format!("log {} ends before {head}", self.name)));
            };
            after = last.seq;
            // They are not due at once: their theses may begin a backlog, and its rest must come first.
            self.apply_entries(&entries, DERIVE_EVERY_MS).await;
        }
        self.complete_since = Some(self.shared.clock.now_ms());
        Ok(())
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
    pub(super) async fn apply_entries(&mut self, entries: &[SequencedEntry], delay_ms: i64) {
        let on = entries.iter().filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => Some(created.token.id.as_str()),
            _ => None,
        });
        let is_added = |token: &&str| !self.tokens.contains_key(*token) && !self.derived_at.contains_key(*token);
        let added: BTreeSet<&str> = on.filter(is_added).collect();
        let mut derived_at = self.read_derived_at(added).await;
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
                    derived_at.insert(&activity.token.id, sequenced.entry.created_at);
                    self.derived_at.insert(activity.token.id.clone(), sequenced.entry.created_at);
                }
                _ => {}
            }
        }
        for (id, new) in theses {
            let last = derived_at.get(id).or_else(|| self.derived_at.get(id)).copied().unwrap_or(i64::MIN / 2);
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

    /// Reads when tokens last got derived events, if that can delay the next ones. A writer that has followed the log
    /// for ten seconds knows all these times. A younger one reads the store.
    async fn read_derived_at<'a>(&self, tokens: BTreeSet<&'a str>) -> HashMap<&'a str, i64> {
        let now = self.shared.clock.now_ms();
        if tokens.is_empty() || self.complete_since.is_some_and(|since| now - since > 2 * DERIVE_EVERY_MS) {
            return HashMap::new();
        }
        match derived::last_derived_at(&self.shared.backend, &self.name, tokens.iter().copied()).await {
            Ok(times) => times,
            Err(error) => {
                // An append must not fail for this.
                tracing::debug!(dataset = self.name, %error, "reading when events were derived failed");
                tokens.into_iter().map(|token| (token, now)).collect()
            }
        }
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

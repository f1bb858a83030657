//! The derived events that tokens owe: at most one pair for a token in five seconds, and the last is never lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::{CATCH_UP, Writer};
use crate::{
    domain::{
        derivation::DERIVE_EVERY_MS,
        entry::{Entry, Kind, Sequenced},
    },
    log::derive::{activity_id, entries},
    shared::Shared,
    store::{StoreError, StoreResult},
    tables::{
        derived,
        events::position_of,
        log::{checkpoint_change, decode, room},
    },
};

/// Most tokens whose derived events go into one batch.
const DERIVE_BATCH: usize = 32;
/// Most tokens counted at once.
const DERIVED_AT_ONCE: usize = 8;
/// Longest time that a moved checkpoint stays unstored.
const STORE_AFTER: Duration = Duration::from_secs(1);

/// Name of the checkpoint up to which nothing is owed.
pub const DERIVED: &str = "derived";

/// What a token owes.
struct Owed {
    /// The sequence numbers of the oldest and the newest thesis that its events have to cover.
    oldest: u64,
    newest: u64,
    /// When the events are due.
    at: i64,
}

/// The owed events.
pub(super) struct Due {
    shared: Arc<Shared>,
    name: String,
    tokens: BTreeMap<String, Owed>,
    /// The stored checkpoint.
    stored: u64,
    /// The latest time to store the checkpoint, if it moved.
    store_by: Option<Instant>,
}

impl Due {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        Self { shared, name, tokens: BTreeMap::new(), stored: 0, store_by: None }
    }

    /// Learns what is owed at `head`, before this writer takes entries: from the log, beyond what was settled.
    pub(super) async fn load(&mut self, head: u64) -> StoreResult<()> {
        self.tokens.clear();
        let log = self.shared.log.clone();
        self.stored = log.checkpoint(&self.name, DERIVED).await?;
        let mut after = self.stored;
        while after < head {
            let rows = log.read(&self.name, after, head, CATCH_UP).await?;
            let entries = rows.into_iter().map(|(seq, body)| Ok(Sequenced { seq, entry: decode(body)? }));
            let entries = entries.collect::<StoreResult<Vec<_>>>()?;
            let Some(last) = entries.last() else {
                return Err(StoreError::Unavailable(format!("log {} ends before {head}", self.name)));
            };
            after = last.seq;
            // Not due at once: their theses may begin a backlog, and its rest must come first.
            self.take(&entries, DERIVE_EVERY_MS).await?;
        }
        Ok(())
    }

    /// Notes the log's head: everything up to it and before the oldest thesis with owed events is settled.
    pub(super) fn note(&mut self, head: u64) {
        if self.settled(head) > self.stored {
            self.store_by.get_or_insert(Instant::now() + STORE_AFTER);
        }
    }

    fn settled(&self, head: u64) -> u64 {
        self.tokens.values().map(|owed| owed.oldest - 1).min().unwrap_or(head)
    }

    /// The latest time to store the checkpoint, if it moved.
    pub(super) fn store_by(&self) -> Option<Instant> {
        self.store_by
    }

    /// Stores the checkpoint.
    pub(super) async fn store(&mut self, head: u64) -> StoreResult<()> {
        let settled = self.settled(head);
        if settled > self.stored {
            self.shared.backend.apply(vec![checkpoint_change(&self.name, DERIVED, settled)]).await?;
            self.stored = settled;
        }
        self.store_by = None;
        Ok(())
    }

    /// Adds the events that entries owe, due `later_ms` later than possible, and drops those they settle.
    pub(super) async fn take(&mut self, entries: &[Sequenced], later_ms: i64) -> StoreResult<()> {
        let on = entries.iter().filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => Some(created.token.id.as_str()),
            _ => None,
        });
        let added: BTreeSet<&str> = on.filter(|token| !self.tokens.contains_key(*token)).collect();
        let mut derived_at = derived::last_made(&self.shared.backend, &self.name, added).await?;
        let mut owed: HashMap<&str, (u64, u64, i64)> = HashMap::new();
        for sequenced in entries {
            match &sequenced.entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    let (seq, created_at) = (sequenced.seq, sequenced.entry.created_at);
                    let known = owed.entry(&created.token.id).or_insert((seq, seq, created_at));
                    (known.1, known.2) = (seq, created_at);
                }
                Some(Kind::TokenActivity(activity)) => {
                    owed.remove(activity.token.id.as_str());
                    self.tokens.remove(&activity.token.id);
                    // A later thesis among these entries owes its events five seconds after this.
                    derived_at.insert(&activity.token.id, sequenced.entry.created_at);
                }
                _ => {}
            }
        }
        for (token, (oldest, newest, created_at)) in owed {
            match self.tokens.get_mut(token) {
                Some(owed) => owed.newest = newest,
                None => {
                    let last = derived_at.get(token).copied().unwrap_or(i64::MIN / 2);
                    let now = self.shared.clock.now_ms();
                    // Old theses come in large numbers; the rest must not have to follow an event of now.
                    let back = if created_at < now - DERIVE_EVERY_MS { DERIVE_EVERY_MS } else { 0 };
                    let at = (now + back).max(last + DERIVE_EVERY_MS);
                    self.tokens.insert(token.to_owned(), Owed { oldest, newest, at: at + later_ms });
                }
            }
        }
        Ok(())
    }

    /// Time until the next event is due; none while none is owed.
    pub(super) fn wait(&self) -> Option<Duration> {
        let next = self.tokens.values().map(|owed| owed.at).min()?;
        Some(Duration::from_millis((next - self.shared.clock.now_ms()).max(0).unsigned_abs()))
    }

    /// Whether an event has been due for longer than `by`.
    pub(super) fn is_overdue(&self, by: Duration) -> bool {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        !self.ready(self.shared.clock.now_ms() - by, 1).is_empty()
    }

    fn ready(&self, now: i64, limit: usize) -> Vec<(String, u64)> {
        let ready = self.tokens.iter().filter(|(_, owed)| owed.at <= now).take(limit);
        ready.map(|(token, owed)| (token.clone(), owed.newest)).collect()
    }

    fn put_off(&mut self, token: &str, at: i64) {
        if let Some(owed) = self.tokens.get_mut(token) {
            owed.at = at;
        }
    }

    fn remove(&mut self, token: &str) {
        self.tokens.remove(token);
    }
}

impl Writer {
    /// Appends the derived events of tokens that are due.
    pub(super) async fn derive(&mut self) -> StoreResult<()> {
        if !self.due.ready(self.shared.clock.now_ms(), 1).is_empty() {
            // Another writer may have made them.
            self.follow_others(false).await?;
        }
        while !self.due.ready(self.shared.clock.now_ms(), 1).is_empty() {
            if room(self.head) < 2 {
                // A pair must not be split over two buckets.
                self.fill().await?;
                continue;
            }
            let batch = self.derived_entries(room(self.head) / 2).await;
            self.append(batch).await?;
        }
        Ok(())
    }

    /// The derived events that are due, two for a token, of at most `pairs` tokens and at most one batch.
    pub(super) async fn derived_entries(&mut self, pairs: usize) -> Vec<Entry> {
        let now = self.shared.clock.now_ms();
        let ready = self.due.ready(now, DERIVE_BATCH.min(pairs));
        let at = now.max(self.last_created_at);
        let deriving: Vec<_> = ready.iter().map(|(token, seq)| self.derived(token, *seq, at)).collect();
        let derived: Vec<StoreResult<_>> = stream::iter(deriving).buffered(DERIVED_AT_ONCE).collect().await;
        let mut entries = Vec::with_capacity(ready.len() * 2);
        for ((token, _), pair) in ready.iter().zip(derived) {
            match pair {
                Ok(Some(pair)) => entries.extend(pair),
                Ok(None) => self.due.remove(token),
                Err(error) => {
                    // It waits alone: neither other tokens nor theses wait for it.
                    tracing::warn!(dataset = self.name, token, %error, "deriving a token's events failed, trying again");
                    self.due.put_off(token, now + DERIVE_EVERY_MS);
                }
            }
        }
        entries
    }

    /// A token's derived events, unless it is unknown or another writer was faster.
    async fn derived(&self, token: &str, seq: u64, at: i64) -> StoreResult<Option<[Entry; 2]>> {
        let id = activity_id(&self.name, token, seq);
        if position_of(&self.shared.backend, &self.name, &id).await?.is_some() {
            return Ok(None);
        }
        entries(self.projector.theses(), &self.dataset, token, seq, at).await
    }
}

//! The derived events that tokens owe: at most one pair for a token in five seconds, and the last is never lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::Writer;
use crate::{
    domain::{
        derivation::DERIVE_EVERY_MS,
        entry::{Entry, Kind, Sequenced},
    },
    log::derive::{activity_id, entries},
    shared::Shared,
    store::StoreResult,
    tables::{derived, events::position_of, log::room},
};

/// Most tokens whose derived events go into one batch.
const DERIVE_BATCH: usize = 32;
/// Most tokens counted at once.
const DERIVED_AT_ONCE: usize = 8;
/// Most tokens with owed events read at once.
const PAGE: usize = 10_000;

/// The owed events.
pub(super) struct Due {
    shared: Arc<Shared>,
    name: String,
    /// By token: the sequence number of its newest thesis, and when its events are due.
    tokens: BTreeMap<String, (u64, i64)>,
}

impl Due {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        Self { shared, name, tokens: BTreeMap::new() }
    }

    /// Reads the events owed before this writer started, or by another writer.
    pub(super) async fn load(&mut self) -> StoreResult<()> {
        for (token, seq) in derived::owing(&self.shared.backend, &self.name, PAGE).await? {
            // Not due at once: their theses may begin a backlog, and its rest must come first.
            let at = self.shared.clock.now_ms() + DERIVE_EVERY_MS;
            self.tokens.entry(token).or_insert((seq, at));
        }
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
        let mut owed: HashMap<&str, (u64, i64)> = HashMap::new();
        for sequenced in entries {
            match &sequenced.entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    owed.insert(&created.token.id, (sequenced.seq, sequenced.entry.created_at));
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
        for (token, (seq, created_at)) in owed {
            match self.tokens.get_mut(token) {
                Some((newest, _)) => *newest = seq,
                None => {
                    let last = derived_at.get(token).copied().unwrap_or(i64::MIN / 2);
                    let now = self.shared.clock.now_ms();
                    // Old theses come in large numbers; the rest must not have to follow an event of now.
                    let back = if created_at < now - DERIVE_EVERY_MS { DERIVE_EVERY_MS } else { 0 };
                    let at = (now + back).max(last + DERIVE_EVERY_MS);
                    self.tokens.insert(token.to_owned(), (seq, at + later_ms));
                }
            }
        }
        Ok(())
    }

    /// Time until the next event is due; none while none is owed.
    pub(super) fn wait(&self) -> Option<Duration> {
        let next = self.tokens.values().map(|(_, at)| *at).min()?;
        Some(Duration::from_millis((next - self.shared.clock.now_ms()).max(0).unsigned_abs()))
    }

    /// Whether an event has been due for longer than `by`.
    pub(super) fn is_overdue(&self, by: Duration) -> bool {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        !self.ready(self.shared.clock.now_ms() - by, 1).is_empty()
    }

    fn ready(&self, now: i64, limit: usize) -> Vec<(String, u64)> {
        let ready = self.tokens.iter().filter(|(_, (_, at))| *at <= now).take(limit);
        ready.map(|(token, (seq, _))| (token.clone(), *seq)).collect()
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
            let batch = self.derived_entries(room(self.head) / 2).await?;
            self.append(batch).await?;
        }
        self.turns.needs_none().await;
        Ok(())
    }

    /// The derived events that are due, two for a token, of at most `pairs` tokens and at most one batch.
    pub(super) async fn derived_entries(&mut self, pairs: usize) -> StoreResult<Vec<Entry>> {
        let now = self.shared.clock.now_ms();
        let ready = self.due.ready(now, DERIVE_BATCH.min(pairs));
        let at = now.max(self.last_created_at);
        let deriving: Vec<_> = ready.iter().map(|(token, seq)| self.derived(token, *seq, at)).collect();
        let derived: Vec<Option<_>> = stream::iter(deriving).buffered(DERIVED_AT_ONCE).try_collect().await?;
        let mut entries = Vec::with_capacity(ready.len() * 2);
        for ((token, _), pair) in ready.iter().zip(derived) {
            match pair {
                Some(pair) => entries.extend(pair),
                None => self.due.remove(token),
            }
        }
        Ok(entries)
    }

    /// A token's derived events, unless it is unknown or another writer was faster.
    async fn derived(&self, token: &str, seq: u64, at: i64) -> StoreResult<Option<[Entry; 2]>> {
        let id = activity_id(&self.name, token, seq);
        if position_of(&self.shared.backend, &self.name, &id).await?.is_some() {
            return Ok(None);
        }
        entries(&self.shared, &self.dataset, token, seq, at).await
    }
}

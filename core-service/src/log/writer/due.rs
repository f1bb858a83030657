//! The derived events that tokens owe: at most one pair for a token in five seconds, and the last is never lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{CATCH_UP, look::Look};
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

/// Longest time that a moved checkpoint stays unstored.
const STORE_AFTER: Duration = Duration::from_secs(1);

/// Most tokens kept with the time of their events; then old ones are forgotten.
const MAX_MADE: usize = 4_096;

/// Name of the checkpoint up to which nothing is owed.
pub const DERIVED: &str = "derived";

/// What a token owes.
pub(super) struct Owed {
    /// The token as it is now.
    pub(super) token: Token,
    /// The sequence numbers of the oldest and the newest thesis that its events have to cover.
    oldest: u64,
    pub(super) newest: u64,
    /// When the events are due.
    at: i64,
    /// The theses that they count.
    pub(super) look: Look,
}

/// The owed events.
pub(super) struct Due {
    shared: Arc<Shared>,
    name: String,
    tokens: BTreeMap<String, Owed>,
    /// When the events of tokens were made lately, by the log's entries.
    made: HashMap<String, i64>,
    /// Since when this writer knows all of these; none before it has read the log.
    since: Option<i64>,
    /// The stored checkpoint.
    stored: u64,
    /// The latest time to store the checkpoint, if it moved.
    store_by: Option<Instant>,
}

impl Due {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        Self { shared, name, tokens: BTreeMap::new(), made: HashMap::new(), since: None, stored: 0, store_by: None }
    }

    /// Learns what is owed at `head`, before this writer takes entries: from the log, beyond what was settled.
    pub(super) async fn load(&mut self, head: u64) -> StoreResult<()> {
        self.tokens.clear();
        self.since = None;
        let log = self.shared.log.clone();
        self.stored = log.checkpoint(&self.name, DERIVED).await?;
        let mut after = self.stored;
        while after < head {
            let rows = log.read(&self.name, after, head, CATCH_UP).await?;
            let entries = rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(body)? }));
            let entries = entries.collect::<StoreResult<Vec<_>>>()?;
            let Some(last) = entries.last() else {
                return Err(StoreError::Unavailable(format!("log {} ends before {head}", self.name)));
            };
            after = last.seq;
            // Not due at once: their theses may begin a backlog, and its rest must come first.
            self.take(&entries, DERIVE_EVERY_MS).await;
        }
        self.since = Some(self.shared.clock.now_ms());
        Ok(())
    }

    /// Notes the log's head: everything up to it and before the oldest thesis with owed events is settled.
    pub(super) fn note(&mut self, head: u64) {
        if self.settled(head) > self.stored {
            self.store_by.get_or_insert(Instant::now() + STORE_AFTER);
        }
    }

    /// All events that the entries up to here owe are in the log, if `head` is the newest entry.
    pub(super) fn settled(&self, head: u64) -> u64 {
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
    pub(super) async fn take(&mut self, entries: &[SequencedEntry], later_ms: i64) {
        let on = entries.iter().filter_map(|sequenced| match &sequenced.entry.kind {
            Some(Kind::ThesisCreated(created)) => Some(created.token.id.as_str()),
            _ => None,
        });
        let is_added = |token: &&str| !self.tokens.contains_key(*token) && !self.made.contains_key(*token);
        let added: BTreeSet<&str> = on.filter(is_added).collect();
        let mut derived_at = self.last_made(added).await;
        let mut owed: HashMap<&str, (u64, u64, i64, &Token)> = HashMap::new();
        for sequenced in entries {
            match &sequenced.entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    let (seq, created_at) = (sequenced.seq, sequenced.entry.created_at);
                    let known = owed.entry(&created.token.id).or_insert((seq, seq, created_at, &created.token));
                    (known.1, known.2, known.3) = (seq, created_at, &created.token);
                    if let Some(owed) = self.tokens.get_mut(&created.token.id) {
                        owed.look.came(&created.thesis);
                    }
                }
                Some(Kind::ThesisDeleted(deleted)) => {
                    if let Some(owed) = self.tokens.get_mut(&deleted.thesis.token_id) {
                        owed.look.went(&deleted.thesis);
                    }
                }
                Some(Kind::TokenObserved(observed)) => {
                    if let Some(known) = owed.get_mut(observed.token.id.as_str()) {
                        known.3 = &observed.token;
                    }
                    if let Some(owed) = self.tokens.get_mut(&observed.token.id) {
                        owed.token.clone_from(&observed.token);
                    }
                }
                Some(Kind::TokenActivity(activity)) => {
                    owed.remove(activity.token.id.as_str());
                    self.tokens.remove(&activity.token.id);
                    // A later thesis among these entries owes its events five seconds after this.
                    derived_at.insert(&activity.token.id, sequenced.entry.created_at);
                    self.made.insert(activity.token.id.clone(), sequenced.entry.created_at);
                }
                _ => {}
            }
        }
        for (id, (oldest, newest, created_at, token)) in owed {
            match self.tokens.get_mut(id) {
                Some(owed) => {
                    owed.newest = newest;
                    owed.token.clone_from(token);
                }
                None => {
                    let last = derived_at.get(id).or_else(|| self.made.get(id)).copied().unwrap_or(i64::MIN / 2);
                    let now = self.shared.clock.now_ms();
                    // Old theses come in large numbers; the rest must not have to follow an event of now.
                    let back = if created_at < now - DERIVE_EVERY_MS { DERIVE_EVERY_MS } else { 0 };
                    let at = (now + back).max(last + DERIVE_EVERY_MS);
                    let owed = Owed { token: token.clone(), oldest, newest, at: at + later_ms, look: Look::default() };
                    self.tokens.insert(id.to_owned(), owed);
                }
            }
        }
        if self.made.len() > MAX_MADE {
            let old = self.shared.clock.now_ms() - 2 * DERIVE_EVERY_MS;
            self.made.retain(|_, at| *at > old);
        }
    }

    /// When the events of tokens were last made, as far as that can put off the next ones. A writer that has followed the
    /// log for ten seconds has seen them all and asks nobody. A younger one reads the store.
    async fn last_made<'a>(&self, tokens: BTreeSet<&'a str>) -> HashMap<&'a str, i64> {
        let now = self.shared.clock.now_ms();
        if tokens.is_empty() || self.since.is_some_and(|since| now - since > 2 * DERIVE_EVERY_MS) {
            return HashMap::new();
        }
        match derived::last_made(&self.shared.backend, &self.name, tokens.iter().copied()).await {
            Ok(made) => made,
            Err(error) => {
                // An append must not fail for this.
                tracing::debug!(dataset = self.name, %error, "reading when events were derived failed");
                tokens.into_iter().map(|token| (token, now)).collect()
            }
        }
    }

    /// Time until the next event is due; none while none is, or while the theses of all that are due are being read.
    pub(super) fn wait(&self) -> Option<Duration> {
        let next = self.tokens.values().filter(|owed| !owed.look.is_under_way()).map(|owed| owed.at).min()?;
        Some(Duration::from_millis((next - self.shared.clock.now_ms()).max(0).unsigned_abs()))
    }

    /// Whether an event has been due for longer than `by`.
    pub(super) fn is_overdue(&self, by: Duration) -> bool {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        !self.ready(self.shared.clock.now_ms() - by, 1).is_empty()
    }

    /// Tokens whose events are due, unless their theses are being read.
    pub(super) fn ready(&self, now: i64, limit: usize) -> Vec<String> {
        let ready = self.tokens.iter().filter(|(_, owed)| owed.at <= now && !owed.look.is_under_way());
        ready.take(limit).map(|(token, _)| token.clone()).collect()
    }

    /// What a token owes.
    pub(super) fn of(&mut self, token: &str) -> Option<&mut Owed> {
        self.tokens.get_mut(token)
    }

    /// Puts off what a token owes.
    pub(super) fn put_off(&mut self, token: &str, at: i64) {
        if let Some(owed) = self.tokens.get_mut(token) {
            owed.at = owed.at.max(at);
        }
    }
}

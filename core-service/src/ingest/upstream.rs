//! The interface of the connector for the other parts of a core.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared as SharedFuture},
};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use thesis_proto::{
    reference::{address_form, handle_form},
    v1::{self, look_up_request::Thing},
};

use super::{
    client::UpstreamClient,
    intake::Intake,
    pace::Pace,
    settings::UpstreamSettings,
    status::{SILENCE_MS, Status},
};
use crate::{
    domain::{dataset::Dataset, window::MINUTE_MS},
    error::{Error, Result},
    log::datasets::Datasets,
    replicas::peers::Peers,
    shared::Shared,
    tables::upstream::{self, LookupRecord},
};

/// Time for which a "not found" of the upstream counts, in milliseconds (the contract's 10 minutes).
const MISSING_MS: i64 = 10 * MINUTE_MS;
/// Maximum number of lookup outcomes that are kept in memory.
const MAX_CACHED_OUTCOMES: usize = 65_536;
/// A found object is not looked up again for this time, in milliseconds. A caller takes less time from its read of the
/// store to the lookup.
const JUST_FOUND_MS: i64 = 1_000;
/// Seconds until a caller may try again when the upstream gave no time.
const DEFAULT_RETRY_S: u32 = 1;

#[derive(Clone, Debug, PartialEq)]
pub enum LookupOutcome {
    /// The response was applied. A page has its result.
    Found(Option<v1::PageResult>),
    Missing,
    /// The request was not sent, or the response was unusable.
    Unavailable {
        /// Seconds until the next try.
        after_s: u32,
    },
}

/// Changes that must be looked up, by the time of the earliest one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingChanges {
    /// The time from which the running catch-up reads.
    pub(super) running: Option<i64>,
    /// The time from which the next catch-up reads: the running one may have read earlier pages already.
    pub(super) waiting: Option<i64>,
}

impl PendingChanges {
    /// The earliest of these times.
    pub(super) fn since(self) -> Option<i64> {
        self.running.into_iter().chain(self.waiting).min()
    }
}

/// A running lookup, which all its callers share.
pub(super) struct RunningLookup {
    /// The time from which a re-sync reads.
    since_ms: i64,
    outcome: SharedFuture<BoxFuture<'static, LookupOutcome>>,
}

pub struct Upstream {
    pub(super) shared: Arc<Shared>,
    pub(super) peers: Arc<Peers>,
    pub(super) client: UpstreamClient,
    pub(super) settings: UpstreamSettings,
    pub(super) intake: Intake,
    pub(super) status: Arc<Status>,
    pub(super) pace: Mutex<Pace>,
    pub(super) pending: Mutex<PendingChanges>,
    pub(super) is_catching_up: AtomicBool,
    /// Number of recent theses of the feed, by chain and address of their tokens.
    pub(super) busy: Mutex<HashMap<(String, String), u32>>,
    running: Mutex<HashMap<Thing, RunningLookup>>,
    outcomes: Cache<Thing, LookupRecord>,
}

impl Upstream {
    pub fn new(
        shared: Arc<Shared>,
        datasets: Arc<Datasets>,
        peers: Arc<Peers>,
        settings: UpstreamSettings,
    ) -> Result<Arc<Self>> {
        let client = UpstreamClient::new(&settings).map_err(Error::internal)?;
        let status = Arc::new(Status::default());
        Ok(Arc::new(Self {
            client,
            pace: Mutex::new(Pace::new(settings.rps, shared.clock.now_ms())),
            intake: Intake { datasets, status: Arc::clone(&status) },
            shared,
            peers,
            settings,
            status,
            pending: Mutex::default(),
            is_catching_up: AtomicBool::new(false),
            busy: Mutex::default(),
            running: Mutex::default(),
            outcomes: Cache::new(MAX_CACHED_OUTCOMES),
        }))
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// True if this core follows the feed and makes the lookups.
    pub fn leads(&self) -> bool {
        self.peers.leads(&Dataset::Live.to_string())
    }

    /// Looks an object up, here or through the leading core. An object that was missing lately is not looked up again.
    pub async fn lookup(self: &Arc<Self>, thing: Thing) -> LookupOutcome {
        if self.leads() {
            return self.lookup_here(thing).await;
        }
        if self.is_missing(&thing).await {
            return LookupOutcome::Missing;
        }
        let outcome = self.peers.lookup(&Dataset::Live.to_string(), thing.clone(), self.settings.timeout).await;
        let outcome = outcome.map_or(LookupOutcome::Unavailable { after_s: DEFAULT_RETRY_S }, from_message);
        self.cache_outcome(&thing, &outcome);
        outcome
    }

    /// True if the upstream lately had no such object.
    async fn is_missing(&self, thing: &Thing) -> bool {
        let is_recent = |known: LookupRecord| self.now_ms() - known.at < MISSING_MS;
        match self.known_lookup(thing).await {
            None => false,
            Some(known) if is_recent(known) => !known.found,
            // Another core may have looked it up since then.
            Some(_) => self.stored_lookup(thing).await.is_some_and(|known| is_recent(known) && !known.found),
        }
    }

    /// Looks an object up from this core. Concurrent callers for one object share one lookup.
    pub async fn lookup_here(self: &Arc<Self>, thing: Thing) -> LookupOutcome {
        if self.is_missing(&thing).await {
            return LookupOutcome::Missing;
        }
        let (key, since_ms) = key_of(&thing);
        loop {
            let (outcome, serves) = {
                let mut running = self.running.lock();
                // A lookup may have ended after this caller read the store.
                if !running.contains_key(&key)
                    && let Some(outcome) = self.recent_outcome(&thing)
                {
                    return outcome;
                }
                let current = running.entry(key.clone()).or_insert_with(|| {
                    let (upstream, thing, key) = (Arc::clone(self), thing.clone(), key.clone());
                    // The task continues for the other callers when one leaves.
                    let lookup = tokio::spawn(async move {
                        let outcome = AssertUnwindSafe(upstream.send_lookup(&thing)).catch_unwind().await;
                        let outcome = outcome.unwrap_or(LookupOutcome::Unavailable { after_s: DEFAULT_RETRY_S });
                        upstream.store_outcome(&thing, &outcome).await;
                        upstream.running.lock().remove(&key);
                        outcome
                    });
                    let outcome =
                        async { lookup.await.unwrap_or(LookupOutcome::Unavailable { after_s: DEFAULT_RETRY_S }) };
                    RunningLookup { since_ms, outcome: outcome.boxed().shared() }
                });
                (current.outcome.clone(), current.since_ms <= since_ms)
            };
            let outcome = outcome.await;
            if serves || matches!(outcome, LookupOutcome::Unavailable { .. }) {
                return outcome;
            }
        }
    }

    /// The outcome of a lookup that has ended so lately that it serves this caller too. Pages and re-syncs are looked
    /// up each time.
    fn recent_outcome(&self, thing: &Thing) -> Option<LookupOutcome> {
        if matches!(thing, Thing::Page(_) | Thing::Resync(_)) {
            return None;
        }
        let known = self.outcomes.get(&key_of(thing).0)?;
        let (outcome, max_age_ms) = if known.found {
            (LookupOutcome::Found(None), JUST_FOUND_MS)
        } else {
            (LookupOutcome::Missing, MISSING_MS)
        };
        (self.now_ms() - known.at < max_age_ms).then_some(outcome)
    }

    pub(super) fn cache_outcome(&self, thing: &Thing, outcome: &LookupOutcome) {
        if matches!(thing, Thing::Page(_)) {
            return;
        }
        let found = match outcome {
            LookupOutcome::Found(_) => true,
            LookupOutcome::Missing => false,
            LookupOutcome::Unavailable { .. } => return,
        };
        self.outcomes.insert(key_of(thing).0, LookupRecord { at: self.now_ms(), found });
    }

    /// Stores an outcome in memory, and in the store for all cores.
    pub(super) async fn store_outcome(&self, thing: &Thing, outcome: &LookupOutcome) {
        self.cache_outcome(thing, outcome);
        let (key, _) = key_of(thing);
        if matches!(thing, Thing::Page(_)) {
            return;
        }
        if let Some(answer) = self.outcomes.get(&key)
            && !matches!(outcome, LookupOutcome::Unavailable { .. })
            && let Err(error) = upstream::write_lookup(&self.shared.backend, &row_name(&key), answer).await
        {
            tracing::debug!(%error, "storing the outcome of a lookup failed");
        }
    }

    async fn known_lookup(&self, thing: &Thing) -> Option<LookupRecord> {
        if matches!(thing, Thing::Page(_)) {
            return None;
        }
        let (key, _) = key_of(thing);
        if let Some(known) = self.outcomes.get(&key) {
            return Some(known);
        }
        self.stored_lookup(thing).await
    }

    /// The last outcome in the store, of any core, or a newer one of this core; none if the store does not answer.
    async fn stored_lookup(&self, thing: &Thing) -> Option<LookupRecord> {
        let (key, _) = key_of(thing);
        let stored = upstream::read_lookup(&self.shared.backend, &row_name(&key)).await.ok().flatten()?;
        // A lookup may have ended here during the read.
        if let Some(known) = self.outcomes.get(&key)
            && known.at > stored.at
        {
            return Some(known);
        }
        self.outcomes.insert(key, stored);
        Some(stored)
    }

    /// True if an object that was last observed at `observed_at` is old enough for another lookup.
    pub async fn is_due(&self, thing: Thing, observed_at: i64) -> bool {
        let refresh = i64::try_from(self.settings.refresh.as_millis()).unwrap_or(i64::MAX);
        let now_ms = self.now_ms();
        if now_ms - observed_at < refresh {
            return false;
        }
        let is_fresh =
            |known: LookupRecord| now_ms - known.at < if known.found { refresh } else { refresh.max(MISSING_MS) };
        if self.known_lookup(&thing).await.is_some_and(is_fresh) {
            return false;
        }
        // Another core may have looked it up since then.
        !self.stored_lookup(&thing).await.is_some_and(is_fresh)
    }

    /// True if an outcome of a lookup of this object is kept.
    pub async fn has_lookup_of(&self, thing: &Thing) -> bool {
        self.known_lookup(thing).await.is_some()
    }

    /// The time of the last lookup of a token's theses, in unix milliseconds.
    pub async fn synced_at(&self, token: v1::BackfillToken) -> Option<i64> {
        let thing = Thing::Resync(v1::Resync { token: Some(token), since_ms: 0 });
        self.known_lookup(&thing).await.filter(|known| known.found).map(|known| known.at)
    }

    /// The state of the feed on the leading core: whether it is up, and the time of its last frame.
    pub async fn feed(&self) -> (bool, Option<i64>) {
        let now_ms = self.now_ms();
        if self.leads() {
            return self.status.feed(now_ms);
        }
        let place = upstream::read_feed_state(&self.shared.backend).await.ok().flatten();
        let (_, place) = place.unwrap_or_default();
        (place.connected && now_ms - place.received_at < SILENCE_MS, place.last_frame_at)
    }

    /// The status for operators, from the core that follows the feed.
    pub async fn read_status(&self) -> v1::IngestStatus {
        if !self.leads()
            && let Some(status) = self.peers.feed_status(&Dataset::Live.to_string()).await
        {
            return status;
        }
        let now_ms = self.now_ms();
        let breaker = self.pace.lock().breaker(now_ms);
        self.status.to_message(breaker, now_ms)
    }

    /// Notes that all changes since a time must be looked up.
    pub(super) fn add_pending(&self, since_ms: i64) {
        let mut pending = self.pending.lock();
        pending.waiting = Some(pending.waiting.map_or(since_ms, |waiting| waiting.min(since_ms)));
    }

    /// Starts to look up the pending changes, unless a catch-up runs.
    pub(super) fn catch_up(self: &Arc<Self>, stop: &tokio_util::sync::CancellationToken) {
        if self.pending.lock().since().is_none() || self.is_catching_up.swap(true, Ordering::SeqCst) {
            return;
        }
        let (upstream, stop) = (Arc::clone(self), stop.clone());
        tokio::spawn(async move {
            drop(AssertUnwindSafe(stop.run_until_cancelled(upstream.resolve_pending())).catch_unwind().await);
            upstream.is_catching_up.store(false, Ordering::SeqCst);
        });
    }
}

/// The key of an object, independent of the spelling, and the time from which a re-sync reads.
fn key_of(thing: &Thing) -> (Thing, i64) {
    let token = |token: &v1::BackfillToken| v1::BackfillToken {
        chain: token.chain.clone(),
        address: address_form(&token.address),
    };
    match thing {
        Thing::Handle(handle) => (Thing::Handle(handle_form(handle)), 0),
        Thing::Token(named) => (Thing::Token(token(named)), 0),
        Thing::Resync(resync) => {
            let key = v1::Resync { token: resync.token.as_ref().map(token), since_ms: 0 };
            (Thing::Resync(key), resync.since_ms)
        }
        other => (other.clone(), 0),
    }
}

fn row_name(key: &Thing) -> String {
    let of = |token: &v1::BackfillToken| format!("{}:{}", token.chain, token.address);
    match key {
        Thing::Profile(id) => format!("profile {id}"),
        Thing::Handle(handle) => format!("handle {handle}"),
        Thing::Token(token) => format!("token {}", of(token)),
        Thing::Wallets(id) => format!("wallets {id}"),
        Thing::Resync(resync) => format!("theses {}", resync.token.as_ref().map(of).unwrap_or_default()),
        Thing::Page(_) => "page".to_owned(),
    }
}

fn from_message(message: v1::LookUpResponse) -> LookupOutcome {
    match (message.unavailable_s, message.missing) {
        (Some(after_s), _) => LookupOutcome::Unavailable { after_s },
        (None, true) => LookupOutcome::Missing,
        (None, false) => LookupOutcome::Found(message.page),
    }
}

impl From<LookupOutcome> for v1::LookUpResponse {
    fn from(outcome: LookupOutcome) -> Self {
        match outcome {
            LookupOutcome::Found(page) => Self { page, ..Self::default() },
            LookupOutcome::Missing => Self { missing: true, ..Self::default() },
            LookupOutcome::Unavailable { after_s } => Self { unavailable_s: Some(after_s), ..Self::default() },
        }
    }
}

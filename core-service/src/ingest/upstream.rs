//! The upstream, as the rest of a core sees it.

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
    client::{ClientSettings, UpstreamClient},
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

/// Longest time that the upstream is believed to have no such thing, in milliseconds (the contract's 10 minutes).
const MISSING_MS: i64 = 10 * MINUTE_MS;
/// Most answers to look-ups kept in memory.
const REMEMBERED: usize = 65_536;
/// Seconds until a caller may ask again when nobody knows better.
const SOON_S: u32 = 1;

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// The upstream's answer was taken in; of a page with what it held.
    Found(Option<v1::PageResult>),
    /// The upstream has no such thing.
    Missing,
    /// The upstream could not be asked, or gave no answer that can be used.
    Unavailable {
        /// Seconds until it may be asked again.
        after_s: u32,
    },
}

/// What changed since a time and has to be looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owed {
    /// Since when it is being looked up.
    pub(super) paying: Option<i64>,
    /// The same for what came to be owed meanwhile: the pages that were read already may lack it.
    pub(super) waiting: Option<i64>,
}

impl Owed {
    /// The earliest of these times.
    pub(super) fn since(self) -> Option<i64> {
        self.paying.into_iter().chain(self.waiting).min()
    }
}

/// A look-up under way.
pub(super) struct UnderWay {
    /// The time since which a re-sync asks.
    since_ms: i64,
    told: SharedFuture<BoxFuture<'static, Told>>,
}

/// The upstream.
pub struct Upstream {
    pub(super) shared: Arc<Shared>,
    pub(super) peers: Arc<Peers>,
    pub(super) client: UpstreamClient,
    pub(super) settings: UpstreamSettings,
    pub(super) intake: Intake,
    pub(super) status: Arc<Status>,
    pub(super) pace: Mutex<Pace>,
    /// What has to be looked up.
    pub(super) owed: Mutex<Owed>,
    /// Whether that is being done.
    pub(super) catches_up: AtomicBool,
    /// Theses that the feed told lately, by chain and address of their tokens.
    pub(super) busy: Mutex<HashMap<(String, String), u32>>,
    under_way: Mutex<HashMap<Thing, UnderWay>>,
    remembered: Cache<Thing, LookupRecord>,
}

impl Upstream {
    /// The upstream of these settings.
    ///
    /// # Errors
    /// When a setting cannot be used; the error names it.
    pub fn new(
        shared: Arc<Shared>,
        datasets: Arc<Datasets>,
        peers: Arc<Peers>,
        settings: UpstreamSettings,
    ) -> Result<Arc<Self>> {
        let UpstreamSettings { url, token, timeout, .. } = settings.clone();
        let client = UpstreamClient::new(&ClientSettings { url, token, timeout }).map_err(Error::internal)?;
        let status = Arc::new(Status::default());
        Ok(Arc::new(Self {
            client,
            pace: Mutex::new(Pace::new(settings.rps, shared.clock.now_ms())),
            intake: Intake { datasets, status: Arc::clone(&status) },
            shared,
            peers,
            settings,
            status,
            owed: Mutex::default(),
            catches_up: AtomicBool::new(false),
            busy: Mutex::default(),
            under_way: Mutex::default(),
            remembered: Cache::new(REMEMBERED),
        }))
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// Whether this core follows the feed and makes the look-ups.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.peers.leads(&Dataset::Live.to_string())
    }

    /// Asks the upstream for something, here or at the core that does so for all. What it lately did not have is not
    /// asked for again.
    pub async fn ask(self: &Arc<Self>, thing: Thing) -> Told {
        if self.is_missing(&thing).await {
            return Told::Missing;
        }
        if self.leads() {
            return self.ask_here(thing).await;
        }
        let told = self.peers.lookup(&Dataset::Live.to_string(), thing.clone(), self.settings.timeout).await;
        let told = told.map_or(Told::Unavailable { after_s: SOON_S }, from_message);
        self.remember(&thing, &told);
        told
    }

    /// Whether the upstream lately said that there is no such thing.
    async fn is_missing(&self, thing: &Thing) -> bool {
        let is_recent = |known: LookupRecord| self.now_ms() - known.at < MISSING_MS;
        match self.known(thing).await {
            None => false,
            Some(known) if is_recent(known) => !known.found,
            // Another core may have asked since this one did.
            Some(_) => self.known_to_all(thing).await.is_some_and(|known| is_recent(known) && !known.found),
        }
    }

    /// Asks the upstream from here. Who asks for a thing while it is being asked for gets the same answer.
    pub async fn ask_here(self: &Arc<Self>, thing: Thing) -> Told {
        if self.is_missing(&thing).await {
            return Told::Missing;
        }
        let (key, since_ms) = key_of(&thing);
        loop {
            let (told, serves) = {
                let mut under_way = self.under_way.lock();
                let begun = under_way.entry(key.clone()).or_insert_with(|| {
                    let (upstream, thing, key) = (Arc::clone(self), thing.clone(), key.clone());
                    // A caller that leaves takes nothing from the others.
                    let asking = tokio::spawn(async move {
                        let told = AssertUnwindSafe(upstream.lookup(&thing)).catch_unwind().await;
                        let told = told.unwrap_or(Told::Unavailable { after_s: SOON_S });
                        upstream.note(&thing, &told).await;
                        upstream.under_way.lock().remove(&key);
                        told
                    });
                    let told = async { asking.await.unwrap_or(Told::Unavailable { after_s: SOON_S }) };
                    UnderWay { since_ms, told: told.boxed().shared() }
                });
                (begun.told.clone(), begun.since_ms <= since_ms)
            };
            let told = told.await;
            if serves || matches!(told, Told::Unavailable { .. }) {
                return told;
            }
        }
    }

    fn remember(&self, thing: &Thing, told: &Told) {
        if matches!(thing, Thing::Page(_)) {
            return;
        }
        let found = match told {
            Told::Found(_) => true,
            Told::Missing => false,
            Told::Unavailable { .. } => return,
        };
        self.remembered.insert(key_of(thing).0, LookupRecord { at: self.now_ms(), found });
    }

    /// Remembers an answer, here and for all cores.
    async fn note(&self, thing: &Thing, told: &Told) {
        self.remember(thing, told);
        let (key, _) = key_of(thing);
        if matches!(thing, Thing::Page(_)) {
            return;
        }
        if let Some(answer) = self.remembered.get(&key)
            && !matches!(told, Told::Unavailable { .. })
            && let Err(error) = upstream::write_lookup(&self.shared.backend, &name(&key), answer).await
        {
            tracing::debug!(%error, "keeping the answer to a look-up failed");
        }
    }

    /// The last answer to a look-up, as far as it is known.
    async fn known(&self, thing: &Thing) -> Option<LookupRecord> {
        if matches!(thing, Thing::Page(_)) {
            return None;
        }
        let (key, _) = key_of(thing);
        if let Some(known) = self.remembered.get(&key) {
            return Some(known);
        }
        self.known_to_all(thing).await
    }

    /// The last answer to a look-up of any core. Without it the upstream is asked once more.
    async fn known_to_all(&self, thing: &Thing) -> Option<LookupRecord> {
        let (key, _) = key_of(thing);
        let known = upstream::read_lookup(&self.shared.backend, &name(&key)).await.ok().flatten()?;
        self.remembered.insert(key, known);
        Some(known)
    }

    /// Whether something that was last observed at `observed_at` is old enough to be asked for again.
    pub async fn is_due(&self, thing: Thing, observed_at: i64) -> bool {
        let refresh = i64::try_from(self.settings.refresh.as_millis()).unwrap_or(i64::MAX);
        let now_ms = self.now_ms();
        if now_ms - observed_at < refresh {
            return false;
        }
        let is_fresh =
            |known: LookupRecord| now_ms - known.at < if known.found { refresh } else { refresh.max(MISSING_MS) };
        if self.known(&thing).await.is_some_and(is_fresh) {
            return false;
        }
        // Another core may have asked since this one did.
        !self.known_to_all(&thing).await.is_some_and(is_fresh)
    }

    /// Whether the upstream has ever been asked for something and answered, as far as that is kept.
    pub async fn has_asked(&self, thing: &Thing) -> bool {
        self.known(thing).await.is_some()
    }

    /// When the theses of a token were last looked up, in unix milliseconds.
    pub async fn synced_at(&self, token: v1::BackfillToken) -> Option<i64> {
        let thing = Thing::Resync(v1::Resync { token: Some(token), since_ms: 0 });
        self.known(&thing).await.filter(|known| known.found).map(|known| known.at)
    }

    /// Whether the feed is up, wherever it is followed, and when its last frame came.
    pub async fn feed(&self) -> (bool, Option<i64>) {
        let now_ms = self.now_ms();
        if self.leads() {
            return self.status.feed(now_ms);
        }
        let place = upstream::read_feed_state(&self.shared.backend).await.ok().flatten();
        let (place, _) = place.unwrap_or_default();
        (place.connected && now_ms - place.received_at < SILENCE_MS, place.last_frame_at)
    }

    /// What an operator is told, by the core that follows the feed.
    pub async fn publish_status(&self) -> v1::IngestStatus {
        if !self.leads()
            && let Some(status) = self.peers.feed_status(&Dataset::Live.to_string()).await
        {
            return status;
        }
        let now_ms = self.now_ms();
        let breaker = self.pace.lock().breaker(now_ms);
        self.status.tell(breaker, now_ms)
    }

    /// Notes that what changed since a time has to be looked up.
    pub(super) fn owe(&self, since_ms: i64) {
        let mut owed = self.owed.lock();
        owed.waiting = Some(owed.waiting.map_or(since_ms, |waiting| waiting.min(since_ms)));
    }

    /// Begins to look up what is owed, unless that is under way.
    pub(super) fn catch_up(self: &Arc<Self>, stop: &tokio_util::sync::CancellationToken) {
        if self.owed.lock().since().is_none() || self.catches_up.swap(true, Ordering::SeqCst) {
            return;
        }
        let (upstream, stop) = (Arc::clone(self), stop.clone());
        tokio::spawn(async move {
            drop(AssertUnwindSafe(stop.run_until_cancelled(upstream.pay())).catch_unwind().await);
            upstream.catches_up.store(false, Ordering::SeqCst);
        });
    }
}

/// What a thing is known by, whatever its letters, and the time since which it is asked for.
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

fn name(key: &Thing) -> String {
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

fn from_message(message: v1::LookUpResponse) -> Told {
    match (message.unavailable_s, message.missing) {
        (Some(after_s), _) => Told::Unavailable { after_s },
        (None, true) => Told::Missing,
        (None, false) => Told::Found(message.page),
    }
}

impl From<Told> for v1::LookUpResponse {
    fn from(told: Told) -> Self {
        match told {
            Told::Found(page) => Self { page, ..Self::default() },
            Told::Missing => Self { missing: true, ..Self::default() },
            Told::Unavailable { after_s } => Self { unavailable_s: Some(after_s), ..Self::default() },
        }
    }
}

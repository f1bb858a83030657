//! The stores and tools that every part of a core is given. They know no use case.

pub mod control;
pub mod generation;
pub mod key_ring;
pub mod news;
pub mod queue_hints;
pub mod secret_check;

use std::{collections::HashMap, sync::Arc, time::Duration};

use thesis_net::clock::{SharedClock, SharedIdSource};
use tokio::sync::Semaphore;

use self::{
    control::Control,
    generation::Generation,
    key_ring::KeyRing,
    news::News,
    queue_hints::{Made, QueueHints},
};
use crate::{
    store::{SharedBackend, StoreResult},
    tables::{deliveries::DeliveryStore, events::EventIndex, log::LogStore, queue::shard_of, theses::ThesisStore},
};

/// Longest time that a request may still take while the store is away.
const GRACE: Duration = Duration::from_millis(300);

/// Most tokens whose theses are read at once for derived events, so that appends find the store free.
pub const LOOKS_AT_ONCE: usize = 16;

/// What the use cases share.
pub struct Shared {
    /// The store.
    pub backend: SharedBackend,
    /// The logs in it.
    pub log: LogStore,
    /// Their generation.
    pub generation: Generation,
    /// The rows in it.
    pub theses: ThesisStore,
    /// Where events stand in the logs.
    pub events: EventIndex,
    /// The deliveries in it.
    pub deliveries: DeliveryStore,
    /// Organizations, projects, keys, webhooks.
    pub control: Arc<Control>,
    /// The keys derived from the secret.
    pub keys: KeyRing,
    /// Queues that have something new.
    pub hints: QueueHints,
    /// What this core tells the others.
    pub news: Arc<News>,
    /// Permits to read a token's theses beside a writer.
    pub looks: Arc<Semaphore>,
    /// This core's name.
    pub replica: String,
    /// The time.
    pub clock: SharedClock,
    /// Randomness.
    pub ids: SharedIdSource,
}

impl Shared {
    /// Makes deliveries, and tells whoever hands them out.
    ///
    /// # Errors
    /// When the store does not answer; nothing is lost when it is then done again.
    pub async fn make_deliveries(&self, made: Vec<Made>, now_ms: i64) -> StoreResult<()> {
        let deliveries: Vec<_> = made.iter().map(|made| &made.delivery).collect();
        self.deliveries.create(&deliveries, now_ms).await?;
        if !self.backend.is_exclusive() {
            let elsewhere = deliveries.iter().filter(|made| !self.hints.serves(shard_of(&made.webhook_id)));
            self.news.queues(&first_due(elsewhere.map(|made| (&*made.webhook_id, made.created_at))));
        }
        self.hints.add(made);
        Ok(())
    }

    /// Waits until the store has been away for a moment. Requests that need no store are answered in that moment.
    pub async fn store_is_away(&self) {
        let Some(mut away) = self.backend.away() else { return std::future::pending().await };
        loop {
            // The sender lives as long as the store.
            drop(away.wait_for(|away| *away).await);
            if tokio::time::timeout(GRACE, away.wait_for(|away| !*away)).await.is_err() {
                return;
            }
        }
    }
}

/// The earliest due time of each webhook's attempts.
pub fn first_due<'a>(attempts: impl Iterator<Item = (&'a str, i64)>) -> HashMap<String, i64> {
    let mut queues: HashMap<String, i64> = HashMap::new();
    for (webhook, due_at) in attempts {
        let first = queues.entry(webhook.to_owned()).or_insert(due_at);
        *first = due_at.min(*first);
    }
    queues
}

//! The stores and tools that every part of a core is given. They know no use case.

pub mod control;
pub mod key_ring;
pub mod queue_hints;

use std::{collections::HashMap, sync::Arc, time::Duration};

use thesis_net::clock::{SharedClock, SharedIdSource};

use self::queue_hints::Made;
use self::{control::Control, key_ring::KeyRing, queue_hints::QueueHints};
use crate::{
    domain::id,
    store::{SharedBackend, StoreResult},
    tables::{
        deliveries::DeliveryStore,
        events::EventIndex,
        log::LogStore,
        queue::shard_of,
        theses::ThesisStore,
        wake::{self, QueueHint},
    },
};

/// Longest time that a request may still take while the store is away.
const GRACE: Duration = Duration::from_millis(300);

/// What the use cases share.
pub struct Shared {
    /// The store.
    pub backend: SharedBackend,
    /// The logs in it.
    pub log: LogStore,
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
            let mut queues: HashMap<String, i64> = HashMap::new();
            for made in elsewhere {
                let first = queues.entry(made.webhook_id.clone()).or_insert(made.created_at);
                *first = made.created_at.min(*first);
            }
            if !queues.is_empty() {
                self.leave_queue_hints(queues).await?;
            }
        }
        self.hints.add(made);
        Ok(())
    }

    /// Tells the cores that hand out these webhooks' attempts that their queues have rows from a due time on.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn leave_queue_hints(&self, queues: impl IntoIterator<Item = (String, i64)>) -> StoreResult<()> {
        let call = id::random("", self.ids.as_ref());
        let hint = |(webhook, due_at)| QueueHint { webhook, due_at, call: call.clone() };
        let hints = queues.into_iter().map(hint).collect();
        // The present time: the rows may have taken long.
        wake::leave_queue_hints(&self.backend, hints, self.clock.now_ms().div_euclid(1_000)).await
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

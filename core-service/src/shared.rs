//! The stores and tools that every part of a core uses. They know no use case.

use std::{collections::HashMap, sync::Arc, time::Duration};

use thesis_net::clock::{SharedClock, SharedIdSource};
use tokio::sync::Semaphore;

use crate::{
    control::Control,
    keys::key_ring::KeyRing,
    notifications::Notifications,
    queue_hints::{PendingDelivery, QueueHints},
    store::{SharedBackend, StoreResult},
    tables::{
        deliveries::DeliveryStore, events::EventIndex, generation::Generation, log::LogStore, queue::shard_of,
        theses::ThesisStore,
    },
};

/// Time after which requests end that wait for a store that is away.
const GRACE: Duration = Duration::from_millis(300);

/// Maximum number of tokens whose theses are read at the same time for derived events. Appends find the store free.
pub const MAX_TOKEN_READS: usize = 16;

/// Stores and tools that the use cases share.
pub struct Shared {
    /// The store.
    pub backend: SharedBackend,
    /// The logs in it.
    pub log: LogStore,
    /// Their generation.
    pub generation: Generation,
    /// The rows in it.
    pub theses: ThesisStore,
    /// The index of events: their log and sequence number.
    pub events: EventIndex,
    /// The deliveries in it.
    pub deliveries: DeliveryStore,
    /// Organizations, projects, keys, webhooks.
    pub control: Arc<Control>,
    /// The keys derived from the secret.
    pub keys: KeyRing,
    /// Hints to the dispatcher about queues with new rows.
    pub hints: QueueHints,
    /// Notifications to the other cores.
    pub notifications: Arc<Notifications>,
    /// Permits to read a token's theses beside a writer.
    pub token_reads: Arc<Semaphore>,
    /// This core's name.
    pub replica: String,
    /// The time.
    pub clock: SharedClock,
    /// Randomness.
    pub ids: SharedIdSource,
}

impl Shared {
    /// Creates deliveries and notifies the cores that hand them out.
    ///
    /// # Errors
    /// Fails when the store does not answer. The caller may try again: a repeat loses nothing and changes nothing.
    pub async fn create_deliveries(&self, pending: Vec<PendingDelivery>, now_ms: i64) -> StoreResult<()> {
        let deliveries: Vec<_> = pending.iter().map(|pending| &pending.delivery).collect();
        self.deliveries.create(&deliveries, now_ms).await?;
        if !self.backend.is_exclusive() {
            let elsewhere = deliveries.iter().filter(|delivery| !self.hints.serves(shard_of(&delivery.webhook_id)));
            self.notifications
                .queues_changed(&first_due(elsewhere.map(|delivery| (&*delivery.webhook_id, delivery.created_at))));
        }
        self.hints.add_deliveries(pending);
        Ok(())
    }

    /// Waits until the store has been away for a moment. Requests that need no store are answered in that time.
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

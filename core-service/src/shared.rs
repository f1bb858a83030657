//! The stores and tools that every part of a core uses. They know no use case.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use thesis_net::clock::{SharedClock, SharedIdSource};
use tokio::sync::Semaphore;

use crate::{
    control::Control,
    domain::{delivery::Delivery, event_id::EventIdCipher, id},
    error::Result,
    keys::key_ring::KeyRing,
    notifications::Notifications,
    queue_hints::{PendingDelivery, QueueHints},
    store::{SharedBackend, StoreResult},
    tables::{
        deliveries::DeliveryStore,
        event_positions::EventPositions,
        events::EventIndex,
        generation::{Generation, event_id_key},
        log::LogStore,
        queue::shard_of,
        rendered::RenderedLists,
        theses::ThesisStore,
    },
};

/// Time after which requests end that wait for a store that is away.
const GRACE: Duration = Duration::from_millis(300);

/// Maximum number of tokens whose theses are read at the same time for derived events. Appends find the store free.
const MAX_TOKEN_READS: usize = 16;

/// Stores and tools that the use cases share.
pub struct Shared {
    pub backend: SharedBackend,
    pub log: LogStore,
    pub generation: Generation,
    pub theses: ThesisStore,
    pub events: EventIndex,
    pub rendered: RenderedLists,
    pub event_positions: EventPositions,
    pub deliveries: DeliveryStore,
    pub control: Arc<Control>,
    pub keys: KeyRing,
    pub hints: QueueHints,
    pub notifications: Arc<Notifications>,
    /// Permits to read a token's theses beside a writer.
    pub token_reads: Arc<Semaphore>,
    pub replica: String,
    /// Number of marks of unfinished logs that were created.
    pub marks: AtomicU64,
    pub clock: SharedClock,
    pub ids: SharedIdSource,
}

impl Shared {
    /// Loads the control state and the generation, and names the core.
    pub async fn load(backend: SharedBackend, keys: KeyRing, clock: SharedClock, ids: SharedIdSource) -> Result<Self> {
        let control = Arc::new(Control::load(Arc::clone(&backend), Arc::clone(&clock), Arc::clone(&ids)).await?);
        let generation = Generation::load(backend.as_ref(), ids.as_ref()).await?;
        let log = LogStore::new(Arc::clone(&backend));
        let theses = ThesisStore::with_log(log.clone());
        let event_ids = EventIdCipher::new(event_id_key(backend.as_ref(), ids.as_ref()).await?, generation.as_str());
        Ok(Self {
            replica: if backend.is_exclusive() { "embedded".to_owned() } else { id::random("rep_", ids.as_ref()) },
            log: log.clone(),
            event_positions: EventPositions::new(Arc::clone(&backend), theses.clone(), event_ids),
            generation,
            theses,
            events: EventIndex::with_log(log),
            rendered: RenderedLists::default(),
            deliveries: DeliveryStore::new(Arc::clone(&backend), id::random("run_", ids.as_ref())),
            notifications: Arc::clone(&control.notifications),
            control,
            keys,
            hints: QueueHints::default(),
            token_reads: Arc::new(Semaphore::new(MAX_TOKEN_READS)),
            marks: AtomicU64::new(0),
            clock,
            ids,
            backend,
        })
    }

    /// Creates deliveries and notifies the cores that hand them out. After an error the caller may try again: a repeat
    /// loses nothing and changes nothing. `may_be_repeated` is true if some of them may exist. They may have been sent
    /// too, so the dispatcher reads all of them.
    pub async fn create_deliveries(
        &self,
        pending: Vec<PendingDelivery>,
        may_be_repeated: bool,
        now_ms: i64,
    ) -> StoreResult<()> {
        let deliveries: Vec<_> = pending.iter().map(|pending| &pending.delivery).collect();
        self.deliveries.create(&deliveries, now_ms).await?;
        if !self.backend.is_exclusive() {
            let elsewhere = deliveries.iter().filter(|delivery| !self.hints.serves(shard_of(&delivery.webhook_id)));
            self.notifications
                .queues_changed(&first_due(elsewhere.map(|delivery| (&*delivery.webhook_id, delivery.created_at))));
        }
        if may_be_repeated {
            let queues = deliveries.iter().map(|delivery| (&*delivery.webhook_id, delivery.created_at));
            self.hints.add_queues(first_due(queues));
        } else {
            self.hints.add_deliveries(pending);
        }
        Ok(())
    }

    /// Queues the next attempt of a delivery as due now, and notifies the core that dispatches it.
    pub async fn hasten(&self, delivery: &Delivery, now_ms: i64) -> StoreResult<()> {
        self.deliveries.queue.hasten(delivery, now_ms).await?;
        let queues = HashMap::from([(delivery.webhook_id.clone(), now_ms)]);
        if !self.backend.is_exclusive() && !self.hints.serves(shard_of(&delivery.webhook_id)) {
            self.notifications.queues_changed(&queues);
        }
        self.hints.add_queues(queues);
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

//! The stores and tools that every part of a core is given. They know no use case.

pub mod control;
pub mod key_ring;
pub mod queue_hints;

use std::{sync::Arc, time::Duration};

use thesis_net::clock::{SharedClock, SharedIdSource};

use self::{control::Control, key_ring::KeyRing, queue_hints::QueueHints};
use crate::{
    store::SharedBackend,
    tables::{deliveries::DeliveryStore, events::EventIndex, log::LogStore, theses::ThesisStore},
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

//! Hints to the dispatcher of this core about new deliveries. A delivery that this core has no reason to think sent
//! comes with its body, so the dispatcher reads nothing. Where another core wrote rows, or an earlier try may have, a
//! hint names only the queue, and the dispatcher reads it. A lost hint delays attempts until their marks are read
//! (`tables/queue.rs`).

use std::{
    collections::HashMap,
    mem::take,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::delivery::Delivery;

/// Maximum number of deliveries that are handed over with their bodies. Of further ones only the queue is named.
const MAX_DELIVERIES: usize = 50_000;

/// A delivery that is not sent yet, with the body that it sends.
#[derive(Clone, Debug)]
pub struct PendingDelivery {
    /// The delivery; its row is in its queue.
    pub delivery: Delivery,
    pub body: Bytes,
    /// The newest erasure of the event's log that this core knew before it read the body. 0 for a new delivery, because
    /// another core may have read its event.
    pub erasure: u64,
    /// The epoch of the shard's lease under which the dispatcher has this state; 0 before it has the delivery.
    pub epoch: i64,
}

/// Hints that the dispatcher has not read yet.
#[derive(Debug, Default)]
pub struct PendingHints {
    pub deliveries: Vec<PendingDelivery>,
    /// Webhooks with new rows in their queues, and the earliest due time of these.
    pub queues: HashMap<String, i64>,
}

#[derive(Debug, Default)]
pub struct QueueHints {
    hints: Mutex<PendingHints>,
    notify: Notify,
    /// The shards whose attempts this core hands out, one bit each.
    shards: AtomicU64,
}

impl QueueHints {
    /// Hands over new deliveries whose queue rows are written.
    pub fn add_deliveries(&self, pending: impl IntoIterator<Item = PendingDelivery>) {
        let mut hints = self.hints.lock();
        for new in pending {
            if hints.deliveries.len() < MAX_DELIVERIES {
                hints.deliveries.push(new);
            } else {
                let due_at = new.delivery.created_at;
                let first = hints.queues.entry(new.delivery.webhook_id).or_insert(due_at);
                *first = due_at.min(*first);
            }
        }
        drop(hints);
        self.notify.notify_one();
    }

    /// Hands over queues in which there are new rows to read, each from a due time on.
    pub fn add_queues(&self, queues: impl IntoIterator<Item = (String, i64)>) {
        let mut hints = self.hints.lock();
        for (webhook, due_at) in queues {
            let first = hints.queues.entry(webhook).or_insert(due_at);
            *first = due_at.min(*first);
        }
        drop(hints);
        self.notify.notify_one();
    }

    /// Wakes the dispatcher: there may be other work to hand out.
    pub fn wake(&self) {
        self.notify.notify_one();
    }

    /// Waits for the next hint.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }

    /// Takes the hints that came since the last call.
    pub fn take_pending(&self) -> PendingHints {
        take(&mut *self.hints.lock())
    }

    /// Notes whether this core hands out a shard's attempts.
    pub fn set_served(&self, shard: i64, served: bool) {
        let bit = 1 << shard;
        if served {
            self.shards.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.shards.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    pub fn serves(&self, shard: i64) -> bool {
        self.shards.load(Ordering::Relaxed) & (1 << shard) != 0
    }
}

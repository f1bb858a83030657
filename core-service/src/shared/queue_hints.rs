//! Hints from fan-out to the dispatcher of the same core.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Webhooks with new rows in their queues, named by this replica's fan-out.
#[derive(Debug, Default)]
pub struct QueueHints {
    webhooks: Mutex<HashSet<String>>,
    notify: Notify,
}

impl QueueHints {
    /// Names webhooks with new rows in their queues.
    pub fn add(&self, webhooks: impl Iterator<Item = String>) {
        self.webhooks.lock().extend(webhooks);
        self.notify.notify_one();
    }

    /// Tells that there may be other work to hand out.
    pub fn wake(&self) {
        self.notify.notify_one();
    }

    /// Waits for the next hint.
    pub async fn news(&self) {
        self.notify.notified().await;
    }

    /// The webhooks named since the last call.
    pub fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.webhooks.lock())
    }
}

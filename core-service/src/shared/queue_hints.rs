//! What fan-out tells the dispatcher of the same core.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Webhooks whose queues have something new, told by the fan-out of this replica.
#[derive(Debug, Default)]
pub struct QueueHints {
    webhooks: Mutex<HashSet<String>>,
    notify: Notify,
}

impl QueueHints {
    /// Tells of queues with something new.
    pub fn add(&self, webhooks: impl Iterator<Item = String>) {
        self.webhooks.lock().extend(webhooks);
        self.notify.notify_one();
    }

    /// Tells of anything else that there may be to hand out.
    pub fn wake(&self) {
        self.notify.notify_one();
    }

    /// Waits for what is told next.
    pub async fn news(&self) {
        self.notify.notified().await;
    }

    /// The queues told of since the last time.
    pub fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.webhooks.lock())
    }
}

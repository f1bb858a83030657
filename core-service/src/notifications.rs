//! Notifications to the other cores: how far this core has applied logs, that the control log has grown, and which
//! queues have new rows.

use std::{
    collections::HashMap,
    mem::take,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use thesis_proto::v1;
use tokio::sync::Notify;

/// Changes that one listener has not received yet.
#[derive(Debug, Default)]
struct Unsent {
    logs: HashMap<String, u64>,
    control: bool,
    /// The earliest due time of new rows, by webhook.
    queues: HashMap<String, i64>,
}

/// A subscription of another core.
#[derive(Debug, Default)]
pub struct Listener {
    unsent: Mutex<Unsent>,
    notify: Notify,
}

impl Listener {
    pub async fn next(&self) -> v1::NewsResponse {
        self.notify.notified().await;
        let Unsent { logs, control, queues } = take(&mut *self.unsent.lock());
        v1::NewsResponse {
            core: String::new(),
            logs: logs.into_iter().map(|(dataset, position)| v1::LogNews { dataset, position }).collect(),
            control,
            queues: queues.into_iter().map(|(webhook_id, due_at)| v1::QueueNews { webhook_id, due_at }).collect(),
        }
    }
}

/// Notifies the cores that subscribe. Changes that a core has not received yet are joined, so they never pile up.
#[derive(Debug, Default)]
pub struct Notifications(Mutex<Vec<Weak<Listener>>>);

impl Notifications {
    /// Creates a listener that receives every later change until it is dropped.
    pub fn subscribe(&self) -> Arc<Listener> {
        let listener = Arc::<Listener>::default();
        self.0.lock().push(Arc::downgrade(&listener));
        listener
    }

    fn notify_all(&self, change: impl Fn(&mut Unsent)) {
        self.0.lock().retain(|listener| {
            let listener = listener.upgrade();
            if let Some(listener) = &listener {
                change(&mut listener.unsent.lock());
                listener.notify.notify_one();
            }
            listener.is_some()
        });
    }

    /// Notifies that a log is projected up to `position`.
    pub fn log_applied(&self, dataset: &str, position: u64) {
        self.notify_all(|unsent| {
            unsent.logs.insert(dataset.to_owned(), position);
        });
    }

    pub fn control_changed(&self) {
        self.notify_all(|unsent| unsent.control = true);
    }

    /// Notifies that queues of webhooks have new rows, each from a due time on.
    pub fn queues_changed(&self, queues: &HashMap<String, i64>) {
        self.notify_all(|unsent| {
            for (webhook, due_at) in queues {
                let first = unsent.queues.entry(webhook.clone()).or_insert(*due_at);
                *first = (*due_at).min(*first);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unsent_notifications_are_joined() {
        let notifications = Notifications::default();
        notifications.log_applied("live", 1);
        let (one, other) = (notifications.subscribe(), notifications.subscribe());
        notifications.log_applied("live", 2);
        notifications.log_applied("live", 3);
        notifications.control_changed();
        notifications.queues_changed(&HashMap::from([("wh_1".to_owned(), 7)]));
        notifications.queues_changed(&HashMap::from([("wh_1".to_owned(), 5)]));
        drop(other);
        let received = one.next().await;
        assert_eq!(received.logs, [v1::LogNews { dataset: "live".to_owned(), position: 3 }]);
        assert!(received.control);
        assert_eq!(received.queues, [v1::QueueNews { webhook_id: "wh_1".to_owned(), due_at: 5 }]);
        notifications.log_applied("live", 4);
        assert_eq!(one.next().await.logs[0].position, 4);
        assert_eq!(notifications.0.lock().len(), 1);
    }
}

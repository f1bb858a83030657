//! What this core tells the others: how far it has taken logs, that the control log has grown, and which queues have new
//! rows.

use std::{
    collections::HashMap,
    mem::take,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use thesis_proto::v1;
use tokio::sync::Notify;

/// What a listener has not been told yet.
#[derive(Debug, Default)]
struct Untold {
    logs: HashMap<String, u64>,
    control: bool,
    /// The earliest due time of new rows, by webhook.
    queues: HashMap<String, i64>,
}

/// Another core that listens.
#[derive(Debug, Default)]
pub struct Listener {
    untold: Mutex<Untold>,
    notify: Notify,
}

impl Listener {
    /// Waits for something new.
    pub async fn next(&self) -> v1::NewsResponse {
        self.notify.notified().await;
        let Untold { logs, control, queues } = take(&mut *self.untold.lock());
        v1::NewsResponse {
            core: String::new(),
            logs: logs.into_iter().map(|(dataset, position)| v1::LogNews { dataset, position }).collect(),
            control,
            queues: queues.into_iter().map(|(webhook_id, due_at)| v1::QueueNews { webhook_id, due_at }).collect(),
        }
    }
}

/// Tells the cores that listen. What they have not heard yet is joined, so it never piles up.
#[derive(Debug, Default)]
pub struct News(Mutex<Vec<Weak<Listener>>>);

impl News {
    /// Tells a new listener everything from now on, until it is dropped.
    pub fn listen(&self) -> Arc<Listener> {
        let listener = Arc::<Listener>::default();
        self.0.lock().push(Arc::downgrade(&listener));
        listener
    }

    fn tell(&self, what: impl Fn(&mut Untold)) {
        self.0.lock().retain(|listener| {
            let listener = listener.upgrade();
            if let Some(listener) = &listener {
                what(&mut listener.untold.lock());
                listener.notify.notify_one();
            }
            listener.is_some()
        });
    }

    /// Tells that a log is projected up to `position`.
    pub fn log(&self, dataset: &str, position: u64) {
        self.tell(|untold| {
            untold.logs.insert(dataset.to_owned(), position);
        });
    }

    /// Tells that the control log has a new entry.
    pub fn control(&self) {
        self.tell(|untold| untold.control = true);
    }

    /// Tells that webhooks' queues have new rows, each from a due time on.
    pub fn queues(&self, queues: &HashMap<String, i64>) {
        self.tell(|untold| {
            for (webhook, due_at) in queues {
                let first = untold.queues.entry(webhook.clone()).or_insert(*due_at);
                *first = (*due_at).min(*first);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_not_heard_yet_is_joined() {
        let news = News::default();
        news.log("live", 1);
        let (one, other) = (news.listen(), news.listen());
        news.log("live", 2);
        news.log("live", 3);
        news.control();
        news.queues(&HashMap::from([("wh_1".to_owned(), 7)]));
        news.queues(&HashMap::from([("wh_1".to_owned(), 5)]));
        drop(other);
        let heard = one.next().await;
        assert_eq!(heard.logs, [v1::LogNews { dataset: "live".to_owned(), position: 3 }]);
        assert!(heard.control);
        assert_eq!(heard.queues, [v1::QueueNews { webhook_id: "wh_1".to_owned(), due_at: 5 }]);
        news.log("live", 4);
        assert_eq!(one.next().await.logs[0].position, 4);
        assert_eq!(news.0.lock().len(), 1);
    }
}

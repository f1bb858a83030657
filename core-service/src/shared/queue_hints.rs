//! What fan-out, the makers of tests and replays, and other cores tell the dispatcher of this core.

use std::{
    collections::HashMap,
    mem::take,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::delivery::Delivery;

/// Most deliveries that are handed over with their bodies; of more, only the queue is named.
const HANDED_OVER: usize = 50_000;

/// A delivery that was just made, with the body that it sends.
#[derive(Clone, Debug)]
pub struct Made {
    /// The delivery; its row is in its queue.
    pub delivery: Delivery,
    /// The event as JSON.
    pub body: Bytes,
}

/// News for the dispatcher.
#[derive(Debug, Default)]
pub struct News {
    /// Deliveries that were just made.
    pub made: Vec<Made>,
    /// Webhooks with new rows in their queues, and the earliest due time of these.
    pub queues: HashMap<String, i64>,
}

/// Hands news from this core's fan-out to its dispatcher.
#[derive(Debug, Default)]
pub struct QueueHints {
    news: Mutex<News>,
    notify: Notify,
    /// The shards whose attempts this core hands out, a bit each.
    shards: AtomicU64,
}

impl QueueHints {
    /// Hands over deliveries that were just made and queued.
    pub fn add(&self, made: impl IntoIterator<Item = Made>) {
        let mut news = self.news.lock();
        for made in made {
            if news.made.len() < HANDED_OVER {
                news.made.push(made);
            } else {
                let due_at = made.delivery.created_at;
                let first = news.queues.entry(made.delivery.webhook_id).or_insert(due_at);
                *first = due_at.min(*first);
            }
        }
        drop(news);
        self.notify.notify_one();
    }

    /// Takes in what another core tells: queues with new rows, each from a due time on.
    pub fn hear(&self, queues: impl IntoIterator<Item = (String, i64)>) {
        let mut news = self.news.lock();
        for (webhook, due_at) in queues {
            let first = news.queues.entry(webhook).or_insert(due_at);
            *first = due_at.min(*first);
        }
        drop(news);
        self.notify.notify_one();
    }

    /// Tells that there may be other work to hand out.
    pub fn wake(&self) {
        self.notify.notify_one();
    }

    /// Waits for the next hint.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }

    /// The news since the last call.
    pub fn take(&self) -> News {
        take(&mut *self.news.lock())
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

    /// Whether this core hands out a shard's attempts.
    pub fn serves(&self, shard: i64) -> bool {
        self.shards.load(Ordering::Relaxed) & (1 << shard) != 0
    }
}

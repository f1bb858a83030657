//! The rows of queues and their marks: writes them as changes, and reads them.

use bytes::Bytes;

use super::{MARK_RETENTION_SECONDS, QueuedAttempt, hour_of, shard_of, start_of};
use crate::{
    domain::delivery::Delivery,
    key,
    store::{Change, Row, schema},
    tables::delivery_rows::{RETENTION_SECONDS, queue_key, queue_version},
};

/// The change that queues an attempt of a delivery. The row is removed when its attempt is reported. It also expires,
/// so that the store can drop its file as a whole.
pub(super) fn put(delivery: &Delivery, due_at: i64, body: Bytes) -> Change {
    let key = queue_key(&delivery.webhook_id, due_at, &delivery.id);
    let (table, version) = (&schema::DELIVERY, queue_version(due_at));
    Change { table, key, version, body: Some(body), ttl: Some(RETENTION_SECONDS) }
}

/// The change that removes a row, with a version above the version of its write.
pub(super) fn removal(webhook: &str, due_at: i64, delivery: &str) -> Change {
    let key = queue_key(webhook, due_at, delivery);
    Change { table: &schema::DELIVERY, key, version: queue_version(due_at) + 1, body: None, ttl: None }
}

pub(super) fn queued_attempt(row: &Row) -> Option<QueuedAttempt> {
    match row.clustering.as_slice() {
        [_, due_at, delivery] => Some(QueuedAttempt {
            due_at: due_at.int(),
            delivery: delivery.text().to_owned(),
            hastened: std::str::from_utf8(&row.body).ok().and_then(|number| number.parse().ok()).unwrap_or_default(),
        }),
        _ => None,
    }
}

pub(super) fn mark_change(webhook: &str, since: i64, minute: i64, body: &'static [u8]) -> Change {
    let key = key![shard_of(webhook), hour_of(start_of(minute)), minute, webhook, since];
    // The unit is a microsecond, so that the store can drop a file of expired marks as a whole.
    let (version, body) = (1_000 * start_of(minute) + i64::from(body.is_empty()), Some(Bytes::from_static(body)));
    Change { table: &schema::QUEUE_MARK, key, version, body, ttl: Some(MARK_RETENTION_SECONDS) }
}

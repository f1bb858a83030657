//! Keys, versions and bodies of the rows of deliveries.
//!
//! A partition of `delivery` has five minutes of a webhook. Its rows of the kind [`QUEUED`] name attempts that are due
//! in that time, and those of the kind [`LOGGED`] are the deliveries that were created in it, with their attempts. So
//! the two rows of a new delivery are one write, and so are those of its first report. Rows of the kind [`COUNTED`]
//! count the attempts of these deliveries (`tables/attempt_counts.rs`). A webhook with 1,000 deliveries
//! a second has partitions of about 70 MB. This is computed and not measured: 300,000 deliveries, each with about
//! 230 bytes in the keys and bodies of its two rows.
//!
//! The version of a delivery has these parts, the highest first. `tables/deliveries.rs` says why. It stays below the
//! time in microseconds, since ScyllaDB refuses timestamps of the future.
//!
//! | part | bits | |
//! |---|---|---|
//! | bucket of its creation | 23 | versions grow with time |
//! | is delivered | 1 | nobody overwrites a known success, whatever the epochs |
//! | epoch of the writer | 23 | of the lease of the webhook's shard; 0 when fan-out creates the row |
//! | is over | 1 | an end that was written is not undone under the same epoch |
//! | attempts | 3 | |
//!
//! The version of a queued attempt has the bucket of its due time instead, and no other part; its removal is one above.
//! Counts have the number of their writes beside the bucket.
//! So all versions of the table have one unit, and the store can drop a file of expired rows as a whole.

use bytes::Bytes;
use prost::Message as _;

use super::decode_message;
use crate::{
    domain::{
        delivery::{Delivery, Status, parse_delivery_id},
        retry::MAX_ATTEMPTS,
        window::{DAY_MS, MINUTE_MS},
    },
    key,
    store::{Change, StoreResult, Value, schema},
};

/// Retention time of deliveries, in seconds.
pub const RETENTION_SECONDS: u32 = 90 * 86_400;
/// Width of a partition.
pub(super) const BUCKET_MS: i64 = 5 * MINUTE_MS;
/// Number of buckets that one partition of their index names.
pub(super) const BUCKETS_PER_MONTH: i64 = 30 * DAY_MS / BUCKET_MS;

/// The kind of rows that count attempts. It is below the others: versions that do not know it read from these on.
pub const COUNTED: i64 = -1;
/// The kind of rows that name a due attempt. Their bodies are empty, since the delivery has everything, or have the
/// number of an attempt that somebody requested early.
pub const QUEUED: i64 = 0;
/// The kind of rows that are deliveries.
pub const LOGGED: i64 = 1;

const ATTEMPT_BITS: u32 = 3;
const EPOCH_SHIFT: u32 = ATTEMPT_BITS + 1;
const EPOCH_BITS: u32 = 23;
const DELIVERED_SHIFT: u32 = EPOCH_SHIFT + EPOCH_BITS;
const TIME_SHIFT: u32 = DELIVERED_SHIFT + 1;
const MAX_EPOCH: i64 = (1 << EPOCH_BITS) - 1;
const _: () = assert!(MAX_ATTEMPTS < (1 << ATTEMPT_BITS), "the attempts fit their bits");

/// The partition of a time.
pub(super) const fn bucket_of(at: i64) -> i64 {
    at.div_euclid(BUCKET_MS)
}

/// The key of a due attempt.
pub fn queue_key(webhook: &str, due_at: i64, id: &str) -> Vec<Value> {
    key![webhook, bucket_of(due_at), QUEUED, due_at, id]
}

/// The version of a queued attempt.
pub(super) const fn queue_version(due_at: i64) -> i64 {
    bucket_of(due_at) << TIME_SHIFT
}

/// The version of counts of a partition, by the number of their writes.
pub(super) fn counts_version(bucket: i64, writes: i64) -> i64 {
    (bucket << TIME_SHIFT) | writes.clamp(0, (1 << TIME_SHIFT) - 1)
}

fn log_key(webhook: &str, created_at: i64, id: &str) -> Vec<Value> {
    key![webhook, bucket_of(created_at), LOGGED, created_at, id]
}

/// The key of the delivery with this id. No row has the key that an id of another form gives.
pub fn key_of(id: &str) -> Vec<Value> {
    let (webhook, created_at) = parse_delivery_id(id).unwrap_or_default();
    log_key(&webhook, created_at, id)
}

fn version(delivery: &Delivery, epoch: i64) -> i64 {
    (bucket_of(delivery.created_at) << TIME_SHIFT)
        | (i64::from(delivery.status() == Status::Delivered) << DELIVERED_SHIFT)
        | (epoch.clamp(0, MAX_EPOCH) << EPOCH_SHIFT)
        | (i64::from(delivery.is_over()) << ATTEMPT_BITS)
        | i64::from(delivery.attempt_count().min(MAX_ATTEMPTS))
}

/// The epoch under which the row with this version was written.
pub(super) const fn epoch_of(version: i64) -> i64 {
    (version >> EPOCH_SHIFT) & MAX_EPOCH
}

/// The change that stores a delivery, as its writer under this epoch knows it.
pub(super) fn put(delivery: &Delivery, epoch: i64) -> Change {
    let key = log_key(&delivery.webhook_id, delivery.created_at, &delivery.id);
    // The key has these.
    let row = Delivery { id: String::new(), webhook_id: String::new(), created_at: 0, ..delivery.clone() };
    let body = Some(Bytes::from(row.encode_to_vec()));
    Change { table: &schema::DELIVERY, key, version: version(delivery, epoch), body, ttl: Some(RETENTION_SECONDS) }
}

/// Decodes the row of a delivery with this key.
pub fn decode(webhook: &str, created_at: i64, id: &str, body: Bytes) -> StoreResult<Delivery> {
    let row: Delivery = decode_message(body, "delivery")?;
    Ok(Delivery { id: id.to_owned(), webhook_id: webhook.to_owned(), created_at, ..row })
}

/// Decodes the row of the delivery with this id.
pub(super) fn decode_by_id(id: &str, body: Bytes) -> StoreResult<Delivery> {
    let (webhook, created_at) = parse_delivery_id(id).unwrap_or_default();
    decode(&webhook, created_at, id, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::delivery::{Attempt, EventRef, delivery_id};

    #[test]
    fn a_row_is_the_delivery_with_its_key() {
        let dataset = "live".to_owned();
        let event = EventRef { event_id: "evt_1".to_owned(), dataset, seq: 7, ..EventRef::default() };
        let created_at = 1_780_315_200_123;
        let delivery = Delivery::pending(delivery_id("wh_1", created_at, &[]), "wh_1".to_owned(), created_at, event);
        let change = put(&delivery, 3);
        assert_eq!(change.key, key_of(&delivery.id));
        assert_eq!(epoch_of(change.version), 3);
        assert_eq!(decode_by_id(&delivery.id, change.body.unwrap()).unwrap(), delivery);
    }

    #[test]
    fn a_success_wins_then_a_higher_epoch_then_an_end_then_more_attempts() {
        let pending = Delivery { created_at: 1_780_315_200_123, ..Delivery::default() };
        let attempted = |delivery: &Delivery, status: i32| {
            let (number, response_status) = (delivery.attempt_count() + 1, Some(status));
            delivery.after(Attempt { number, response_status, ..Attempt::default() }, 0)
        };
        let (once, over) = (attempted(&pending, 500), pending.cancelled());
        let (twice, delivered) = (attempted(&once, 500), attempted(&pending, 200));
        let versions = [
            version(&pending, 0),
            version(&pending, 1),
            version(&once, 1),
            version(&twice, 1),
            version(&over, 1),
            version(&once.cancelled(), 1),
            version(&pending, 2),
            version(&over, i64::MAX),
            version(&delivered, 0),
            version(&delivered, 1),
            version(&delivered, i64::MAX),
        ];
        assert!(versions.is_sorted_by(|before, after| before < after), "{versions:?}");
        let next = Delivery { created_at: pending.created_at + BUCKET_MS, ..pending };
        assert!(version(&next, 0) > versions[10], "versions grow with time");
        assert_eq!(version(&next, 0), queue_version(next.created_at), "they have one unit");
        let delivered = attempted(&next, 200);
        assert!(version(&delivered, i64::MAX) < next.created_at * 1_000, "a timestamp of the future");
    }
}

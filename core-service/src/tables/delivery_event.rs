//! The event reference in the log row and in the first queue row of a delivery. Both are empty if the delivery has its
//! own row from the beginning.

use bytes::Bytes;
use prost::Message as _;

use crate::{
    domain::delivery::{Delivery, EventRef},
    store::{StoreError, StoreResult},
};

/// Retention time of deliveries, in seconds.
pub const RETENTION_SECONDS: u32 = 90 * 86_400;

/// Decodes the body of a log row or a queue row. None when the body is empty.
pub(super) fn decode_event(body: Bytes) -> StoreResult<Option<EventRef>> {
    let event = EventRef::decode(body).map_err(|error| StoreError::Damaged(format!("a delivery's event: {error}")))?;
    Ok((!event.dataset.is_empty()).then_some(event))
}

/// Encodes the body of the log row and of the first queue row.
pub(super) fn encode_event(delivery: &Delivery) -> Bytes {
    if delivery.body.is_empty() { delivery.event_ref().encode_to_vec().into() } else { Bytes::new() }
}

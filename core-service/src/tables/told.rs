//! What the log row and the first queue row say of a delivery: its event, unless the delivery has a row of its own.

use bytes::Bytes;
use prost::Message as _;

use crate::{
    domain::delivery::{Delivery, EventRef},
    store::{StoreError, StoreResult},
};

/// Longest time that deliveries are kept, in seconds.
pub const KEPT: u32 = 90 * 86_400;

/// Reads the body of a log row or a queue row; none where the delivery has a row of its own.
pub(super) fn told(body: Bytes) -> StoreResult<Option<EventRef>> {
    let told = EventRef::decode(body).map_err(|error| StoreError::Damaged(format!("a delivery's event: {error}")))?;
    Ok((!told.dataset.is_empty()).then_some(told))
}

/// The body of the log row and the first queue row.
pub(super) fn told_body(delivery: &Delivery) -> Bytes {
    if delivery.body.is_empty() { delivery.event_ref().encode_to_vec().into() } else { Bytes::new() }
}

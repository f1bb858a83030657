//! The bytes before the entry in its row. Only the first row of an append has the id of the append.

use bytes::{Buf as _, Bytes};

use super::seq_of;
use crate::store::{Row, StoreError, StoreResult};

const BATCH_ID_BYTES: usize = 16;
/// First byte of an entry's row if the id of the append follows.
const WITH_BATCH_ID: u8 = 1;
/// First byte of an entry's row if the entry follows.
const WITHOUT_BATCH_ID: u8 = 0;

/// The id of one append, stored with the first of its entries. With it, the writer can find out whether the append
/// happened.
pub type BatchId = [u8; BATCH_ID_BYTES];

/// The bytes before every other entry of an append.
pub(super) const OTHER_PREFIX: [u8; 1] = [WITHOUT_BATCH_ID];

/// The bytes before the first entry of an append.
pub(super) fn first_prefix(batch: BatchId) -> [u8; 1 + BATCH_ID_BYTES] {
    let mut prefix = [WITH_BATCH_ID; 1 + BATCH_ID_BYTES];
    prefix[1..].copy_from_slice(&batch);
    prefix
}

/// The entry in its stored form, from its row.
pub(crate) fn payload(mut row: Row) -> StoreResult<Bytes> {
    let prefix = match row.body.first() {
        Some(&WITHOUT_BATCH_ID) => 1,
        Some(&WITH_BATCH_ID) if row.body.len() > BATCH_ID_BYTES => 1 + BATCH_ID_BYTES,
        _ => return Err(StoreError::Damaged(format!("log entry {} is cut off", seq_of(&row)))),
    };
    row.body.advance(prefix);
    Ok(row.body)
}

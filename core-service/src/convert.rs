//! The only conversions between stored data and the messages of the contract.

pub mod account;
pub mod alert;
pub mod control;
pub mod delivery;
pub mod entry;
pub mod row;

use prost_types::Timestamp;
use thesis_proto::time::from_millis;

/// A time that may be unknown.
fn optional_time(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(from_millis)
}

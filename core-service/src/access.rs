//! Access to the API: rights, limits, idempotency and the use of keys.

pub mod gate;
pub mod idempotency;
pub mod key_usage;
pub mod limits;
pub mod open_streams;
pub mod rights;

//! Access to the API: rights, limits, idempotency, the use of keys and the log of their requests.

pub mod gate;
pub mod idempotency;
pub mod key_usage;
pub mod limits;
pub mod open_streams;
pub mod request_log;
pub mod rights;

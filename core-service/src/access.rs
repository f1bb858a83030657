//! Who may do what, how often, and once.

pub mod gate;
pub mod idempotency;
pub mod limits;
pub mod open_streams;

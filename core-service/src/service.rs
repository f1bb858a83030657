//! The use cases, one a file, over the store and the rules.

pub mod admin;
pub mod control;
pub mod core;
pub mod datasets;
pub mod derive;
pub mod dispatch;
pub mod error;
pub mod fan_out;
#[cfg(test)]
mod faults;
pub mod gate;
pub mod history;
pub mod idempotency;
pub mod limits;
pub mod list_theses;
pub mod profiles;
pub mod projection;
#[cfg(test)]
mod recount;
pub mod resolve;
pub mod search;
pub mod secrets;
pub mod selection;
pub mod stream_slots;
pub mod streams;
pub mod test_thesis;
#[cfg(test)]
pub(crate) mod testing;
pub mod tokens;
pub mod validate;
pub mod verify;
pub mod vet_url;
pub mod webhooks;
pub mod writer;

//! Typed repositories over the store, one file for each group of tables. Code above them names no table.

pub mod abuse;
pub mod control;
pub mod counts;
pub mod deliveries;
pub mod derived;
pub mod events;
pub mod idempotency;
pub mod index_scope;
pub mod leases;
pub mod log;
pub mod members;
pub mod queue;
mod recent_theses;
mod row_cache;
pub mod stream_places;
pub mod stream_tickets;
pub mod theses;
pub mod told;
pub mod unfinished;

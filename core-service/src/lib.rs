//! Owns every operation and every row: keys, limits, the log, projections, reads, fan-out to webhooks.

pub mod access;
pub mod accounts;
pub mod convert;
pub mod delivery;
pub mod domain;
pub mod error;
#[cfg(test)]
mod faults;
pub mod grpc;
pub mod ingest;
pub mod log;
mod measure;
pub mod metrics;
mod named_slots;
pub mod operations;
#[cfg(test)]
mod recount;
pub mod replicas;
pub mod sandbox;
pub mod search;
pub mod shared;
pub mod start;
pub mod store;
pub mod tables;
#[cfg(test)]
pub(crate) mod testing;
mod threads;

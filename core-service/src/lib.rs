//! Owns every operation and every row: keys, limits, the log, projections, reads, fan-out to webhooks.

pub mod access;
pub mod accounts;
pub mod control;
pub mod convert;
pub mod delivery;
pub mod domain;
pub mod error;
pub mod grpc;
pub mod ingest;
pub mod keys;
pub mod log;
mod measure;
pub mod metrics;
mod named_slots;
pub mod notifications;
pub mod operations;
pub mod queue_hints;
pub mod replicas;
pub mod sandbox;
pub mod search;
pub mod service;
pub mod shared;
pub mod start;
pub mod store;
pub mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod threads;

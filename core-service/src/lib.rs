//! Owns every operation and every row: keys, limits, the log, projections, reads, fan-out to webhooks.

pub mod convert;
pub mod domain;
pub mod grpc;
pub mod ingest;
pub mod search;
pub mod service;
pub mod store;

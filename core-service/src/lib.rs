//! Owns every operation and every row: keys, limits, the log, projections, reads, fan-out to webhooks.

mod access;
mod accounts;
mod archive;
mod control;
mod convert;
mod delivery;
pub mod domain;
mod error;
pub mod grpc;
mod ingest;
pub mod keys;
mod log;
mod measure;
mod metrics;
mod named_slots;
mod notifications;
mod operations;
mod queue_hints;
mod replicas;
mod sandbox;
mod search;
mod service;
mod shared;
mod start;
pub mod store;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod threads;

pub use self::{
    access::gate::{Gate, RequestMeta},
    accounts::{AccountSettings, Person, mail::MailSettings},
    archive::{ArchiveSettings, ArchiveStorage, OpenError as ArchiveOpenError},
    domain::event_id::thesis_event_id,
    error::{Error, Result},
    ingest::settings::UpstreamSettings,
    log::{fan_out::FAN_OUT, projection::ROWS, tree::WitnessSettings, writer::DERIVED},
    operations::{account::create_invitation::create_invitation, admin::bootstrap::Bootstrap},
    sandbox::fixtures,
    search::SearchFolder,
    service::Core,
    start::CoreSettings,
    tables::{
        generation,
        log::{AppendOutcome, LogStore, room},
    },
};

//! Types and rules. No async, no driver, no transport. What is stored derives its protobuf form here, so that a row, a
//! log entry and the rule over it are one type. Entries and their rows derive serde too, for exports: JSON with the
//! same bytes and the same errors from elsewhere takes a mirror of each of these types.

pub(crate) mod abuse;
pub mod account;
pub mod alert;
pub(crate) mod allowed_addresses;
pub mod archive;
pub(crate) mod attempt_counts;
pub mod control;
pub mod dataset;
pub mod delivery;
pub(crate) mod derivation;
pub mod entry;
pub(crate) mod event_id;
pub(crate) mod evidence;
pub(crate) mod handle;
pub mod id;
pub(crate) mod id_kind;
pub(crate) mod list_cursor;
pub(crate) mod member_key;
pub(crate) mod observation;
pub mod operation;
pub mod plan;
pub(crate) mod reference;
pub(crate) mod request_log;
pub(crate) mod retry;
pub mod row;
pub(crate) mod scope;
pub(crate) mod webhook_replay;
pub mod window;

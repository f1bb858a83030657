//! Types and rules. No async, no driver, no transport. What is stored derives its protobuf form here, so that a row, a
//! log entry and the rule over it are one type.

pub mod abuse;
pub mod account;
pub mod control;
pub mod dataset;
pub mod delivery;
pub mod derivation;
pub mod entry;
pub mod handle;
pub mod id;
pub(crate) mod id_kind;
pub mod list_cursor;
pub mod member_key;
pub mod observation;
pub mod operation;
pub mod plan;
pub mod reference;
pub mod retry;
pub mod row;
pub mod scope;
pub mod window;

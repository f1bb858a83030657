//! Requests through the whole edge, to a fake core.

mod asyncapi;
mod console;
pub(crate) mod description;
pub(crate) mod fake;
mod presentation;
mod requests;

//! Requests through the whole edge, to a fake core.

mod asyncapi;
mod console;
pub(crate) mod description;
pub(crate) mod fake;
mod mcp;
mod presentation;
mod requests;
mod sdk;

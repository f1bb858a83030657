//! Requests through the whole edge, to a fake core.

mod console;
pub(crate) mod description;
pub(crate) mod fake;
mod presentation;
mod requests;
mod sdk;

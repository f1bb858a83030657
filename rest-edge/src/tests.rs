//! Requests through the whole edge, to a core that only plays its part.

mod description;
pub(crate) mod fake;
mod presentation;
mod requests;

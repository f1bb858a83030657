//! A dataset's life: the writer of its log, the projection into rows, what is derived, and the fan-out to webhooks.

pub mod backward;
pub mod datasets;
pub mod derive;
pub mod fan_out;
pub mod forward;
pub mod projection;
pub mod selection;
mod unfinished;
pub mod writer;

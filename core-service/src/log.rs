//! The log of a dataset: its writer, the projection into rows, the derived events, and the fan-out to webhooks.

pub mod backward;
pub mod datasets;
pub mod derive;
pub mod fan_out;
pub mod forward;
pub mod projection;
pub mod selection;
mod unfinished;
pub mod writer;

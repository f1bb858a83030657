//! The log of a dataset: its writer, the projection into rows, the derived events, the fan-out to webhooks, and the
//! tree.

pub mod backward;
pub mod datasets;
pub mod derive;
pub mod fan_out;
pub mod forward;
pub mod projection;
pub mod selection;
pub mod tree;
mod unfinished;
pub mod writer;

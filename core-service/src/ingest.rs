//! The connector that keeps the `live` dataset true to an upstream, whose interface is `docs/upstream.md`.
//!
//! The owner of `live` follows the feed and makes all look-ups, so that the upstream sees one client with one budget;
//! the other cores ask it. Like every ownership this only saves work: two that believe to own it for a moment take the
//! same observations in twice, which changes nothing.

mod catch_up;
pub mod client;
mod feed_checkpoint;
mod follow;
pub mod frames;
mod intake;
mod lookup;
pub mod objects;
pub mod pace;
pub mod pushes;
pub mod settings;
pub mod status;
pub mod upstream;

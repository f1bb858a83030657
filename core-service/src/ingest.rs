//! The connector that keeps the `live` dataset true to an upstream, whose interface is `docs/upstream.md`.

pub mod client;
pub mod frames;
pub mod objects;
pub mod pace;
pub mod settings;

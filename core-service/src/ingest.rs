//! Keeps the `live` dataset true to the upstream.

pub mod settings;

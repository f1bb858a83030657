//! Where theses come from: the sandbox's fixtures and ticker.

pub mod fixtures;
pub mod sandbox;

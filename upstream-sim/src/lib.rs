//! Simulates the upstream of `docs/upstream.md`: a seeded world of profiles, tokens and theses, its lookups and its
//! feed, with faults on demand. Under `/sim` a test reads the world, changes it and switches the faults.

mod auth;
mod control;
mod dice;
mod faults;
mod feed;
mod lookups;
mod options;
mod publisher;
mod response;
mod shared;
mod simulator;
#[cfg(test)]
mod tests;
mod ticker;
mod time;
mod world;

pub use self::{faults::Faults, options::Options, simulator::Simulator};

//! Simulates the upstream of `docs/upstream.md`: a seeded world of profiles, tokens and theses, its look-ups and its
//! feed, with faults on demand. Under `/sim` a test reads the truth, makes changes and switches the faults.

mod answer;
mod auth;
mod control;
mod dice;
mod faults;
mod feed;
mod look_ups;
mod options;
mod shared;
mod simulator;
mod teller;
#[cfg(test)]
mod tests;
mod ticker;
mod time;
mod world;

pub use self::{faults::Faults, options::Options, simulator::Simulator};

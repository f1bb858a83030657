//! The options of a simulator.

use std::{net::SocketAddr, time::Duration};

use secrecy::SecretString;

use crate::Faults;

/// The options of a simulator.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The credential of every request.
    pub token: SecretString,
    /// The same seed makes the same world.
    pub seed: u64,
    /// Profiles at the start.
    pub profiles: usize,
    /// Tokens at the start.
    pub tokens: usize,
    /// New theses a second.
    pub rate: f64,
    /// The time before the start over which `history_theses` are spread.
    pub history: Duration,
    /// Theses that exist at the start.
    pub history_theses: usize,
    /// The faults at the start.
    pub faults: Faults,
}

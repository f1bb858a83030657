//! The role of a process.

use std::time::Duration;

use clap::ValueEnum;

/// Maximum time that a role still serves after a signal while not ready, unless a setting says otherwise. Load
/// balancers look every few seconds.
const DEFAULT_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Everything in one process
    All,
    /// The core
    Core,
    /// An edge
    Edge,
    /// A worker
    Worker,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Core => "core",
            Self::Edge => "edge",
            Self::Worker => "worker",
        }
    }

    pub(crate) fn is(self, part: Self) -> bool {
        self == Self::All || self == part
    }

    /// Time for which the role still serves after a signal: by default none for `All`, since no other process takes
    /// over.
    pub(crate) fn leaving(self, seconds: Option<u16>) -> Duration {
        let default = if self == Self::All { Duration::ZERO } else { DEFAULT_GRACE_PERIOD };
        seconds.map_or(default, |seconds| Duration::from_secs(seconds.into()))
    }
}

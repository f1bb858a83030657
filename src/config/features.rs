//! Settings of the sandbox, features, the end and logs.

use clap::{ArgAction, Args};
use core_service::domain::operation::Features;

use super::{Refused, parse};

/// The sandbox, the switches of features, the end of the process, and logs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Features")]
pub(crate) struct FeatureFlags {
    /// Seconds between two theses of the sandbox; 0 for none
    #[arg(
        long,
        env = "SVC_SANDBOX_TICK_SECONDS",
        value_name = "SECONDS",
        default_value_t = 45,
        value_parser = parse::whole(0..=u32::MAX)
    )]
    pub(crate) sandbox_tick_seconds: u32,
    /// The first start fills the sandbox; `false` leaves it empty for an import
    #[arg(long, env = "SVC_SANDBOX_FIXTURES", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) sandbox_fixtures: bool,
    /// Profiles can be read
    #[arg(long, env = "PROFILES_API_ENABLED", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    profiles_api_enabled: bool,
    /// Theses can be read
    #[arg(long, env = "THESES_API_ENABLED", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    theses_api_enabled: bool,
    /// Streams can be opened
    #[arg(long, env = "STREAMS_ENABLED", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    streams_enabled: bool,
    /// Wallets can be read
    #[arg(long, env = "WALLETS_API_ENABLED", value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    wallets_api_enabled: bool,
    /// Must stay off: this version has no semantic search
    #[arg(long, env = "SEMANTIC_SEARCH_ENABLED", value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    semantic_search_enabled: bool,
    /// Seconds between no longer being ready and closing the listeners after a signal, so that load balancers notice
    /// first; at most 300 [default: 5 for a role, 0 for everything in one process]
    #[arg(long, env = "SVC_DRAIN_SECONDS", value_name = "SECONDS", value_parser = parse::whole(0..=300_u16))]
    pub(crate) drain_seconds: Option<u16>,
    /// What is logged, such as `info` or `warn,core_service=debug` [default: info, on a terminal warn]
    #[arg(long, env = "SVC_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

impl FeatureFlags {
    pub(crate) fn features(&self) -> Result<Features, Refused> {
        if self.semantic_search_enabled {
            let refused = Refused::new("SEMANTIC_SEARCH_ENABLED", "`true`, but this version has no semantic search");
            return Err(refused.remedy("set it to false, or leave it unset"));
        }
        Ok(Features {
            profiles: self.profiles_api_enabled,
            theses: self.theses_api_enabled,
            streams: self.streams_enabled,
            wallets: self.wallets_api_enabled,
        })
    }
}

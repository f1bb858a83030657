//! Logs as JSON on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::{Failure, config::Refused};

/// Which events are logged. tungstenite's never are: the most detailed ones hold whole messages, and so API keys. rmcp
/// writes lines for each message, with texts that clients choose, so only its errors are logged.
pub(crate) fn filter(setting: Option<&str>) -> Result<EnvFilter, Refused> {
    // A person at a terminal wants only the lines that say how to continue, and the errors.
    let filter = setting.unwrap_or(if io::stderr().is_terminal() { "warn" } else { "info" });
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Refused::new("SVC_LOG", format!("`{filter}`: {error}")).remedy("set it as `info` or `warn,core_service=debug`")
    })?;
    let directives = ["tungstenite=off", "rmcp=error"].map(|text| text.parse().expect("a target and a level"));
    Ok(directives.into_iter().fold(filter, EnvFilter::add_directive))
}

pub(crate) fn log(filter: EnvFilter) -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        // By default, a line that cannot be written, as on a full disk, is reported on stderr, and that panics.
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_env_filter(filter)
        .try_init()
}

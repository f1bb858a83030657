//! Logs as JSON on stderr, and the recorder of metrics.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::{Failure, config::Refused};

/// How often histograms are summed up, even if nobody reads them.
const UPKEEP: Duration = Duration::from_secs(5);

/// Which events are logged. tungstenite's never are: the most detailed ones hold whole messages, and so API keys.
pub(crate) fn filter(setting: Option<&str>) -> Result<EnvFilter, Refused> {
    // A person at a terminal wants only the lines that say how to continue, and the errors.
    let filter = setting.unwrap_or(if io::stderr().is_terminal() { "warn" } else { "info" });
    let filter = EnvFilter::try_new(filter).map_err(|error| Refused::new("SVC_LOG", error))?;
    Ok(filter.add_directive("tungstenite=off".parse().expect("a target and a level")))
}

/// Starts logs.
pub(crate) fn log(filter: EnvFilter) -> Result<(), Failure> {
    tracing_subscriber::fmt().json().flatten_event(true).with_writer(io::stderr).with_env_filter(filter).try_init()
}

/// Starts metrics.
pub(crate) fn metrics() -> Result<PrometheusHandle, Failure> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut every = tokio::time::interval(UPKEEP);
        loop {
            every.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

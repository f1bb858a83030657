//! The collector of traces.

use clap::Args;

use super::parse;

/// Traces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct Traces {
    /// The collector that spans are sent to by OTLP over HTTP: http://host:port or https://host:port, usually with port
    /// 4318; what is sent goes to /v1/traces there [default: none; nothing is sent]
    #[arg(long, env = "SVC_OTLP_URL", value_name = "URL", value_parser = parse::core_url)]
    pub(crate) otlp_url: Option<String>,
    /// Share of the requests without a trace of their own that are recorded, from 0 to 1
    #[arg(long, env = "SVC_TRACE_SAMPLE", value_name = "SHARE", default_value_t = 0.01, value_parser = parse::share)]
    pub(crate) trace_sample: f64,
}

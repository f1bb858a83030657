//! `upstream-sim`: an upstream to try the connector with.

use std::sync::Arc;

use clap::Args;
use secrecy::ExposeSecret as _;
use thesis_net::clock::SystemClock;
use upstream_sim::{Options, Simulator};

use crate::{Failure, config::Refused, ready, roles::Signals};

/// Minimum characters of a token.
const MIN_TOKEN_LENGTH: usize = 16;
/// Next steps for a person.
const NOTES: &str = "  faults    PUT /sim/faults, such as {\"silent\":true}\n  truth     GET /sim/state\n";

/// Simulate an upstream, with faults on demand.
#[derive(Debug, Args)]
pub(crate) struct UpstreamSim {
    #[command(flatten)]
    options: Options,
}

/// Simulates until a signal.
pub(crate) async fn run(simulator: UpstreamSim) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let Options { token, listen, .. } = &simulator.options;
    let token = token.expose_secret();
    if token.len() < MIN_TOKEN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let reason = format!("it must be {MIN_TOKEN_LENGTH} or more printable ASCII characters without spaces");
        return Err(Refused::new("SVC_UPSTREAM_TOKEN", reason).into());
    }
    let refused = |error: std::io::Error| Refused::new("--listen", format!("cannot listen at {listen}: {error}"));
    let running = Simulator::start(simulator.options.clone(), Arc::new(SystemClock)).await.map_err(refused)?;
    ready::announce_http("upstream-sim", running.address(), NOTES)?;
    signals.next().await;
    running.stop().await;
    Ok(())
}

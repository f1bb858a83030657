//! `upstream-sim`: an upstream to try the connector with.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clap::Args;
use core_service::domain::window::parse_span;
use secrecy::{ExposeSecret as _, SecretString};
use thesis_net::clock::SystemClock;
use upstream_sim::{Faults, Options, Simulator};

use crate::{Failure, config::Refused, ready, roles::Signals};

/// Minimum characters of a token.
const MIN_TOKEN_LENGTH: usize = 16;
/// Next steps for a person.
const NOTES: &str = "  faults    PUT /sim/faults, such as {\"silent\":true}\n  truth     GET /sim/state\n";

/// Simulate an upstream, with faults on demand.
#[derive(Debug, Args)]
pub(crate) struct UpstreamSim {
    /// The look-ups, the feed and /sim listen here; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9900")]
    listen: SocketAddr,
    /// Credential of every request, 16 characters or more
    #[arg(long, env = "SVC_UPSTREAM_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: SecretString,
    /// The same seed makes the same world
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Profiles at the start
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    profiles: usize,
    /// Tokens at the start
    #[arg(long, value_name = "N", default_value_t = 300)]
    tokens: usize,
    /// New theses a second
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = rate)]
    rate: f64,
    /// Time before the start over which --history-theses are spread
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span)]
    history: Duration,
    /// Theses that exist at the start
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    history_theses: usize,
    #[command(flatten)]
    faults: Faults,
}

/// Simulates until a signal.
pub(crate) async fn run(simulator: UpstreamSim) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let token = simulator.token.expose_secret();
    if token.len() < MIN_TOKEN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let reason = format!("it must be {MIN_TOKEN_LENGTH} or more printable ASCII characters without spaces");
        return Err(Refused::new("SVC_UPSTREAM_TOKEN", reason).into());
    }
    let options = Options {
        listen: simulator.listen,
        token: simulator.token,
        seed: simulator.seed,
        profiles: simulator.profiles,
        tokens: simulator.tokens,
        rate: simulator.rate,
        history: simulator.history,
        history_theses: simulator.history_theses,
        faults: simulator.faults,
    };
    let at = options.listen;
    let running = Simulator::start(options, Arc::new(SystemClock)).await;
    let running = running.map_err(|error| Refused::new("--listen", format!("cannot listen at {at}: {error}")))?;
    ready::announce_http("upstream-sim", running.address(), NOTES)?;
    signals.next().await;
    running.stop().await;
    Ok(())
}

/// Reads a time such as `90s`, `30m`, `24h` or `7d`.
fn span(text: &str) -> Result<Duration, String> {
    let span = parse_span(text).map(i64::unsigned_abs).map(Duration::from_millis);
    span.ok_or_else(|| "not a time such as 90s, 30m, 24h or 7d".to_owned())
}

/// Reads a number of theses a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100_000.0).contains(&rate) { Ok(rate) } else { Err("it is from 0 to 100000".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(span("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(span("0s"), Ok(Duration::ZERO));
        for text in ["", "24", "h", "1w", "-1h", "1.5h", "1ё"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_not_negative() {
        assert_eq!(rate("0.5"), Ok(0.5));
        assert!(rate("-1").is_err() && rate("x").is_err() && rate("inf").is_err());
    }
}

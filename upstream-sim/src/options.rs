//! The options of a simulator.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use secrecy::SecretString;

use crate::Faults;

/// The options of a simulator.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Lookups, the feed and /sim are served here; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9900")]
    pub listen: SocketAddr,
    /// Credential of every request, 16 characters or more
    #[arg(long, env = "SVC_UPSTREAM_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: SecretString,
    /// The same seed makes the same world
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Profiles at the start
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub profiles: usize,
    /// Tokens at the start
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub tokens: usize,
    /// New theses a second
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = rate)]
    pub rate: f64,
    /// Time before the start over which --history-theses are spread
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span)]
    pub history: Duration,
    /// Theses that exist at the start
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub history_theses: usize,
    /// The faults at the start.
    #[command(flatten)]
    pub faults: Faults,
}

/// Reads a time such as `90s`, `30m`, `24h` or `7d`.
fn span(text: &str) -> Result<Duration, String> {
    let unreadable = || "not a time such as 90s, 30m, 24h or 7d".to_owned();
    let unit = text.chars().next_back().ok_or_else(unreadable)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(unreadable()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| unreadable())?;
    Ok(Duration::from_secs(seconds * u64::from(count)))
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

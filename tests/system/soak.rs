//! Real faults for as long as told, by `tests/soak`.

mod overload;

use std::time::Duration;

/// How long a scenario goes on.
fn time() -> Duration {
    let minutes = std::env::var("SOAK_MINUTES").ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(3.0);
    Duration::from_secs_f64(60.0 * minutes)
}

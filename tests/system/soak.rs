//! Real faults for a given time, by `tests/soak`: nodes of the cluster and processes of every role killed with -9 under
//! load, crowds, floods and the worst that one client can do, streams that come and go, webhooks, an upstream with faults,
//! an upgrade. `SOAK_MINUTES` says how long a scenario lasts, `TEST_SEED` repeats its choices.

mod abuse;
mod alone;
mod customer;
mod load;
mod nodes;
mod overload;
mod roles;
mod streams;
mod tally;
mod transport;
mod upgrade;
mod upstream;
mod watch;
mod webhooks;

use std::{str::FromStr, time::Duration};

/// A setting of the environment.
fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// How long a scenario lasts.
fn time() -> Duration {
    Duration::from_secs_f64(60.0 * setting("SOAK_MINUTES", 3.0))
}

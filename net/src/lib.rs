//! The network parts of all roles: the accept loop, its limits, the channel to core, TLS, DNS, the guard of webhook
//! URLs, streams of events, backoff, blocking work, time, metrics, reports for the status, traces, and the limit of
//! repeated log lines.

pub mod backoff;
pub mod blocking;
pub mod causes;
pub mod channel;
pub mod client_address;
pub mod clock;
pub mod failure_log;
#[cfg(test)]
mod fuzz;
pub mod guard;
pub mod metric;
pub mod panics;
pub mod resolve;
pub mod server;
pub mod services;
pub mod sse;
pub mod status;
pub mod tls;
pub mod trace;

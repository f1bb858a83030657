//! Settings of the connector: the upstream's address, and the limits of its use.

use std::time::Duration;

use secrecy::SecretString;
use url::Url;

/// Settings of the connector to the upstream.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// The upstream's base URL, `http` or `https`. Paths are added to its path, with or without a `/` at its end.
    pub url: Url,
    /// The bearer token: visible ASCII.
    pub token: SecretString,
    /// Timeout of a lookup.
    pub timeout: Duration,
    /// Maximum number of lookups a second, for the whole installation.
    pub rps: u32,
    /// Age of the oldest changes that a first start fetches; zero for none.
    pub backfill: Duration,
    /// Age from which a read of a cached profile, token or list of wallets looks it up again.
    pub refresh: Duration,
}

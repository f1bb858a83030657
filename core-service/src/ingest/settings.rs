//! How the upstream is reached, and how much is asked of it.

use std::time::Duration;

use secrecy::SecretString;
use url::Url;

/// Settings of the connector to the upstream.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// The base of its addresses, `http` or `https`. Paths are added to its path, which may end with `/` or not.
    pub url: Url,
    /// Its bearer token: visible ASCII.
    pub token: SecretString,
    /// Longest time that a look-up may take.
    pub timeout: Duration,
    /// Most look-ups a second, for the whole installation.
    pub rps: u32,
    /// How far back a first start fetches what changed; zero for nothing.
    pub backfill: Duration,
    /// Age from which a cached profile, token or list of wallets is asked for again when somebody reads it.
    pub refresh: Duration,
}

//! Every setting: a flag and an environment variable each, checked before anything starts.
//!
//! # Recipe: a setting
//!
//! The example is `SVC_DRAIN_SECONDS`.
//!
//! 1. `config/features.rs`: a field with variable, range and default. Its comment is its text in `--help`. A check
//!    beyond that is a method that returns `Refused`, with the variable, the value unless it is secret, and what to do.
//! 2. `doctor/settings.rs` calls the same method, so that `doctor` and a start say the same.
//! 3. `roles.rs` or `roles/core.rs` hands it to its part: `CoreSettings`, `EdgeConfig` or `WorkerConfig`.
//! 4. `docs/guides/operators.md` or `deploy.md`.
//!
//! Tests: a wrong value in `config/tests/refused.rs` and `tests/system/roles/starts.rs`.

mod accounts;
mod addresses;
mod features;
mod keys;
mod parse;
mod plans;
mod store;
#[cfg(test)]
mod tests;
mod tls;
mod traces;
mod upstream;
mod webhooks;

use std::{fmt::Display, path::Path};

use clap::Args;
use thesis_net::{channel::CoreChannel, clock::SharedClock};

pub(crate) use self::{
    accounts::Accounts,
    addresses::{Addresses, reachable},
    features::FeatureFlags,
    keys::{Keys, decode_log_key, decode_secret, encode_secret, judge_token, other_secret_key},
    parse::{api_url, read_time, web_url},
    store::{SEARCH_DIR, Store, StoreKind, refused_file, refused_index, unusable},
    tls::Tls,
    traces::Traces,
    upstream::Upstream,
    webhooks::Webhooks,
};

/// Every setting.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    pub(crate) addresses: Addresses,
    #[command(flatten)]
    pub(crate) tls: Tls,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) keys: Keys,
    #[command(flatten)]
    pub(crate) accounts: Accounts,
    #[command(flatten)]
    pub(crate) webhooks: Webhooks,
    #[command(flatten)]
    pub(crate) upstream: Upstream,
    #[command(flatten)]
    pub(crate) features: FeatureFlags,
    #[command(flatten)]
    pub(crate) traces: Traces,
}

impl Settings {
    /// The way to a core in another process.
    pub(crate) fn core_channel(&self, clock: SharedClock) -> Result<CoreChannel, Refused> {
        let (urls, authorities) = (&self.addresses.core_url, self.tls.authorities()?);
        CoreChannel::new(urls, &authorities, clock).map_err(|error| {
            Refused::new("SVC_CORE_URL", format!("`{}`: {error}", urls.join(",")))
                .remedy("set it as http://host:port, for each core one")
        })
    }
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {reason}{}", remedy.as_deref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
pub(crate) struct Refused {
    /// Its variable.
    pub(crate) setting: &'static str,
    /// Its value, unless that is secret, and the error in it.
    pub(crate) reason: String,
    pub(crate) remedy: Option<String>,
}

impl Refused {
    pub(crate) fn new(setting: &'static str, reason: impl ToString) -> Self {
        Self { setting, reason: reason.to_string(), remedy: None }
    }

    /// A setting that names a file of root certificates, which may also be left out.
    fn roots(setting: &'static str, file: &Path, reason: impl Display) -> Self {
        Self::new(setting, format!("{}: {reason}", file.display()))
            .remedy("name a PEM file of root certificates that the service's user can read, or unset it")
    }

    /// Adds what to do, as a command to the reader: `set …`.
    pub(crate) fn remedy(self, remedy: impl ToString) -> Self {
        Self { remedy: Some(remedy.to_string()), ..self }
    }
}

/// One line on stderr, whatever the text.
pub(crate) fn line(text: &str) -> String {
    format!("trade-thesis: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

//! Every setting: a flag and an environment variable each, checked before anything starts.

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

use clap::Args;

pub(crate) use self::{
    accounts::Accounts,
    addresses::{Addresses, reachable},
    features::FeatureFlags,
    keys::{Keys, decode_secret, encode_secret, judge_token, other_secret_key},
    parse::{api_url, web_url},
    store::{Store, StoreKind, refused_file, unusable},
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

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {reason}{}", remedy.as_deref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
pub(crate) struct Refused {
    /// Its variable.
    pub(crate) setting: &'static str,
    /// Its value, unless that is secret, and what is wrong with it.
    pub(crate) reason: String,
    /// What to do about it.
    pub(crate) remedy: Option<String>,
}

impl Refused {
    pub(crate) fn new(setting: &'static str, reason: impl ToString) -> Self {
        Self { setting, reason: reason.to_string(), remedy: None }
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

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
mod upstream;
mod webhooks;

use clap::Args;

pub(crate) use self::{
    accounts::Accounts,
    addresses::{Addresses, reachable},
    features::FeatureFlags,
    keys::{Keys, decode_secret, encode_secret},
    parse::{api_url, web_url},
    store::{Store, StoreKind},
    upstream::Upstream,
    webhooks::Webhooks,
};

/// Every setting.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    pub(crate) addresses: Addresses,
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
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {reason}")]
pub(crate) struct Refused {
    setting: &'static str,
    reason: String,
}

impl Refused {
    pub(crate) fn new(setting: &'static str, reason: impl ToString) -> Self {
        Self { setting, reason: reason.to_string() }
    }
}

/// One line on stderr, whatever the text.
pub(crate) fn line(text: &str) -> String {
    format!("trade-thesis: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

//! The source of live data.

use std::time::Duration;

use clap::Args;
use core_service::UpstreamSettings;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{Refused, parse};

/// The source of live data.
#[derive(Debug, Args)]
#[command(next_help_heading = "Upstream")]
pub(crate) struct Upstream {
    /// Try live data: run everything in this process against a simulated upstream, with data in a temporary folder that
    /// is removed at the end, and print a live key
    #[arg(long)]
    pub(crate) demo_live: bool,
    /// The upstream whose data live keys read; `docs/upstream.md` describes its protocol [default: none]
    // Checked below: the command line's parser would print a wrong one, which may hold credentials.
    #[arg(long, env = "SVC_UPSTREAM_URL", value_name = "URL")]
    upstream_url: Option<String>,
    /// Its bearer token, required beside SVC_UPSTREAM_URL [default: none]
    #[arg(long, env = "SVC_UPSTREAM_TOKEN", value_name = "TOKEN")]
    upstream_token: Option<SecretString>,
    /// Timeout of a lookup, to the last byte of its response, 100 to 60000
    #[arg(
        long,
        env = "SVC_UPSTREAM_TIMEOUT_MS",
        value_name = "MILLISECONDS",
        default_value_t = 2_000,
        value_parser = parse::whole(100..=60_000_u32)
    )]
    upstream_timeout_ms: u32,
    /// Maximum number of lookups a second for the whole installation, 1 to 10000
    #[arg(
        long,
        env = "SVC_UPSTREAM_RPS",
        value_name = "N",
        default_value_t = 20,
        value_parser = parse::whole(1..=10_000_u32)
    )]
    upstream_rps: u32,
    /// How far back a first start fetches what changed, such as 30m, 24h or 7d; 0s for nothing, at most 365d
    #[arg(long, env = "SVC_UPSTREAM_BACKFILL", value_name = "SPAN", default_value = "24h", value_parser = parse::span)]
    upstream_backfill: Duration,
    /// Age of cached data from which it is looked up again when somebody asks for it, 1 to 86400
    #[arg(
        long,
        env = "SVC_UPSTREAM_REFRESH_SECONDS",
        value_name = "SECONDS",
        default_value_t = 600,
        value_parser = parse::whole(1..=86_400_u32)
    )]
    upstream_refresh_seconds: u32,
}

impl Upstream {
    /// Takes data from here; fails when another upstream is set.
    pub(crate) fn point_at(&mut self, url: Url, token: SecretString) -> Result<(), &'static str> {
        if self.upstream_url.is_some() {
            return Err("has an upstream of its own; leave SVC_UPSTREAM_URL unset");
        }
        (self.upstream_url, self.upstream_token) = (Some(url.into()), Some(token));
        Ok(())
    }

    /// A setting that is missing beside another.
    fn alone(missing: &'static str, given: &str) -> Refused {
        Refused::new(missing, format!("is not set, but is required beside {given}"))
            .remedy(format!("set both, or unset {given}"))
    }

    /// The connection settings of the upstream; `None` without one.
    pub(crate) fn settings(&self) -> Result<Option<UpstreamSettings>, Refused> {
        let (url, token) = match (&self.upstream_url, &self.upstream_token) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(Self::alone("SVC_UPSTREAM_TOKEN", "SVC_UPSTREAM_URL")),
            (None, Some(_)) => return Err(Self::alone("SVC_UPSTREAM_URL", "SVC_UPSTREAM_TOKEN")),
            (Some(url), Some(token)) => (url, token),
        };
        let text = token.expose_secret();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = "its value is empty or holds other characters than printable ASCII without spaces";
            return Err(Refused::new("SVC_UPSTREAM_TOKEN", reason).remedy("set the token that the upstream gave you"));
        }
        Ok(Some(UpstreamSettings {
            url: parse::base_url(url).map_err(|reason| {
                // The value may hold credentials.
                Refused::new("SVC_UPSTREAM_URL", format!("its value is no address of an upstream: {reason}"))
                    .remedy("set it as https://host:port/path")
            })?,
            token: token.clone(),
            timeout: Duration::from_millis(self.upstream_timeout_ms.into()),
            rps: self.upstream_rps,
            backfill: self.upstream_backfill,
            refresh: Duration::from_secs(self.upstream_refresh_seconds.into()),
        }))
    }
}

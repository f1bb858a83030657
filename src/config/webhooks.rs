//! The operator's exceptions for webhooks.

use std::{fs, net::SocketAddr, path::PathBuf};

use clap::Args;
use ipnet::IpNet;

use super::{Refused, parse};

/// Exceptions for private installs and tests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhooks")]
pub(crate) struct Webhooks {
    /// Networks that webhooks may reach although the address rules forbid it [default: none]
    #[arg(
        long = "webhook-allow-networks",
        env = "SVC_WEBHOOK_ALLOW_NETWORKS",
        value_name = "NETWORK,…",
        value_delimiter = ',',
        value_parser = parse::network
    )]
    pub(crate) webhook_allow_networks: Vec<IpNet>,
    /// Root certificate (PEM) trusted beside the public ones [default: none]
    #[arg(long = "webhook-ca-file", env = "SVC_WEBHOOK_CA_FILE", value_name = "FILE")]
    webhook_ca_file: Option<PathBuf>,
    /// Name servers for webhook hosts [default: the system's]
    #[arg(
        long,
        env = "SVC_DNS_SERVERS",
        value_name = "IP[:PORT],…",
        value_delimiter = ',',
        value_parser = parse::name_server
    )]
    pub(crate) dns_servers: Vec<SocketAddr>,
}

impl Webhooks {
    /// The contents of the certificate file.
    pub(crate) fn root_certificate(&self) -> Result<Option<Vec<u8>>, Refused> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| Refused::new("SVC_WEBHOOK_CA_FILE", format!("{}: {error}", path.display())))
        };
        self.webhook_ca_file.as_ref().map(read).transpose()
    }
}

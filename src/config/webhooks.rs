//! The operator's exceptions for webhooks.

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use delivery_worker::{WorkerConfig, WorkerError, tls_config};
use ipnet::IpNet;
use thesis_net::resolve::Resolver;

use super::{Refused, parse};
use crate::role::Role;

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
        let read = |path: &PathBuf| fs::read(path).map_err(|error| self.refused(&error));
        self.webhook_ca_file.as_ref().map(read).transpose()
    }

    /// The settings of a worker, if the role has one. Every role refuses a certificate file that it cannot read.
    pub(crate) fn worker(&self, role: Role) -> Result<Option<WorkerConfig>, Refused> {
        let root_certificate = self.root_certificate()?;
        if !role.is(Role::Worker) {
            return Ok(None);
        }
        tls_config(root_certificate.as_deref()).map_err(|error| self.unusable(&error))?;
        Ok(Some(WorkerConfig {
            allow_networks: self.webhook_allow_networks.clone(),
            root_certificate,
            dns_servers: self.dns_servers.clone(),
            ..WorkerConfig::default()
        }))
    }

    /// Tells that a worker cannot be set up with these settings.
    pub(crate) fn unusable(&self, error: &WorkerError) -> Refused {
        match error {
            WorkerError::RootCertificate(_) => self.refused(error),
            WorkerError::Resolver(_) => self.unresolved(error),
        }
    }

    fn refused(&self, error: &dyn Error) -> Refused {
        Refused::roots("SVC_WEBHOOK_CA_FILE", self.webhook_ca_file.as_deref().unwrap_or(Path::new("")), error)
    }

    fn unresolved(&self, error: &dyn Error) -> Refused {
        let servers = self.dns_servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let servers =
            if servers.is_empty() { "unset, so the system's /etc/resolv.conf counts".to_owned() } else { servers };
        Refused::new("SVC_DNS_SERVERS", format!("{servers}: {error}"))
            .remedy("set it to a name server, such as 10.0.0.2")
    }

    /// The resolver for the hosts of webhooks.
    pub(crate) fn resolver(&self) -> Result<Resolver, Refused> {
        Resolver::new(&self.dns_servers).map_err(|error| self.unresolved(&error))
    }
}

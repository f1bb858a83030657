//! The destinations that an attempt may use.

use std::net::IpAddr;

use ipnet::IpNet;
use thesis_net::{
    guard::{judge_address, judge_form, judge_url},
    resolve::Resolver,
};
use url::{Host, Url};

use crate::failure::Failure;

/// Maximum addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// A URL and the judged addresses that an attempt may use.
pub struct VettedTarget {
    /// The normalised URL.
    pub url: Url,
    /// Its host.
    pub host: Host,
    /// The addresses of the host, each judged.
    pub addresses: Vec<IpAddr>,
}

pub(crate) struct Guard {
    resolver: Resolver,
    allow: Vec<IpNet>,
}

impl Guard {
    pub(crate) const fn new(resolver: Resolver, allow: Vec<IpNet>) -> Self {
        Self { resolver, allow }
    }

    /// Judges the URL, as given and as parsed, resolves its host and judges each address; one refused address
    /// refuses all.
    pub(crate) async fn vet(&self, url: &str, livemode: bool) -> Result<VettedTarget, Failure> {
        judge_form(url).map_err(Failure::Refused)?;
        let target = judge_url(url, livemode, &self.allow).map_err(Failure::Refused)?;
        let mut addresses = match &target.host {
            Host::Domain(name) => self.resolver.addresses(name).await.map_err(|_| Failure::Dns)?,
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
        };
        if addresses.is_empty() {
            return Err(Failure::Dns);
        }
        for &address in &addresses {
            judge_address(address, &self.allow).map_err(Failure::Refused)?;
        }
        addresses.truncate(MAX_ADDRESSES);
        Ok(VettedTarget { url: target.url, host: target.host, addresses })
    }
}

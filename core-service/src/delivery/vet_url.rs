//! Judges a webhook's URL when it is set: its form, then every address that its host has now.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;
use thesis_net::{
    guard::{Refusal, judge_address, judge_form, judge_url},
    resolve::Resolver,
};
use thesis_proto::error::{ApiError, ErrorCode};
use url::Host;

use crate::error::{Error, Result};

/// Time limit of the DNS lookup.
const DNS_TIMEOUT: Duration = Duration::from_secs(3);

pub struct UrlVetter {
    allow: Vec<IpNet>,
    resolver: Resolver,
}

impl UrlVetter {
    /// Creates a vetter with the operator's exceptions.
    pub fn new(allow: Vec<IpNet>, dns_servers: &[SocketAddr]) -> Result<Self> {
        Ok(Self { allow, resolver: Resolver::new(dns_servers).map_err(Error::internal)? })
    }

    /// Judges the form of a URL before its host is resolved, then its addresses. A text that is no URI is forbidden
    /// with the nearest reason, `scheme`, `hostname` or `credentials`, and the message says what a URI is. (Control
    /// characters other than line ends and tabs never come here: no text field takes them.)
    pub async fn vet(&self, url: &str, live: bool) -> Result<()> {
        judge_form(url).map_err(|refusal| {
            let rule = "it must be an absolute URI of RFC 3986: a scheme with `//` behind it, no whitespace, control \
                        character or backslash, and percent-encoded what a URI cannot hold";
            forbidden(refusal, rule)
        })?;
        self.judge(url, live).await.map_err(|refusal| forbidden(refusal, advice(refusal)))
    }

    async fn judge(&self, url: &str, live: bool) -> std::result::Result<(), Refusal> {
        let target = judge_url(url, live, &self.allow)?;
        let Host::Domain(name) = &target.host else { return Ok(()) };
        let addresses = tokio::time::timeout(DNS_TIMEOUT, self.resolver.addresses(name)).await;
        let addresses = addresses.map_err(|_| Refusal::Unresolvable)?.map_err(|_| Refusal::Unresolvable)?;
        if addresses.is_empty() {
            return Err(Refusal::Unresolvable);
        }
        addresses.into_iter().try_for_each(|address| judge_address(address, &self.allow))
    }
}

/// Describes the fault and its remedy.
const fn advice(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Scheme => "its scheme is not allowed; use https, or http with a test key",
        Refusal::Credentials => {
            "it holds a user name or a password; leave them out, and check the signature of what you receive"
        }
        Refusal::Port => {
            "its port is not allowed; use 443, 80, or one from 1024 to 65535 that no well-known database or \
             infrastructure uses"
        }
        Refusal::Hostname => "its host has no public name; use a host that is reachable on the internet",
        Refusal::Loopback => {
            "it leads to the machine itself; use a host that is reachable on the internet, or `trade-thesis listen` to \
             receive on your own machine"
        }
        Refusal::Private => {
            "it leads into a private network; use a host that is reachable on the internet, or `trade-thesis listen` to \
             receive in your own network"
        }
        Refusal::LinkLocal => "it leads to a link-local address; use a host that is reachable on the internet",
        Refusal::Multicast => "it leads to a multicast address; use a host that is reachable on the internet",
        Refusal::Unspecified => "it leads to no particular address; use a host that is reachable on the internet",
        Refusal::Reserved => "it leads to a reserved address; use a host that is reachable on the internet",
        Refusal::Unresolvable => {
            "the name of its host leads to no address; check the name, and try again once the name servers know it"
        }
    }
}

fn forbidden(refusal: Refusal, why: &str) -> Error {
    ApiError::new(ErrorCode::WebhookUrlForbidden, format!("this URL cannot receive webhooks: {why}"))
        .with_param("url")
        .with_details(serde_json::json!({ "reason": refusal.as_str() }))
        .into()
}

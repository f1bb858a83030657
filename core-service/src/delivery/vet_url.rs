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

/// Longest wait for DNS.
const DNS_TIMEOUT: Duration = Duration::from_secs(3);

/// Judges webhook URLs.
pub struct UrlVetter {
    allow: Vec<IpNet>,
    resolver: Resolver,
}

impl UrlVetter {
    /// A vetter with the operator's exceptions.
    ///
    /// # Errors
    /// When the system's name servers cannot be read.
    pub fn new(allow: Vec<IpNet>, dns_servers: &[SocketAddr]) -> Result<Self> {
        Ok(Self { allow, resolver: Resolver::new(dns_servers).map_err(Error::internal)? })
    }

    /// Judges a URL: as given, before anything is resolved, then where it leads. A text that is no URI is forbidden
    /// with the nearest reason, `scheme`, `hostname` or `credentials`, and the message says what a URI is. (Control
    /// characters other than line ends and tabs never come here: no text field takes them.)
    ///
    /// # Errors
    /// `WEBHOOK_URL_FORBIDDEN` with `details.reason`.
    pub async fn vet(&self, url: &str, live: bool) -> Result<()> {
        judge_form(url).map_err(|refusal| {
            let rule = "it must be an absolute URI of RFC 3986: a scheme with `//` behind it, no whitespace, control \
                        character or backslash, and percent-encoded what a URI cannot hold";
            forbidden(refusal, rule)
        })?;
        self.judge(url, live).await.map_err(|refusal| forbidden(refusal, refusal.as_str()))
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

fn forbidden(refusal: Refusal, why: &str) -> Error {
    ApiError::new(ErrorCode::WebhookUrlForbidden, format!("this URL cannot receive webhooks: {why}"))
        .with_param("url")
        .with_details(serde_json::json!({ "reason": refusal.as_str() }))
        .into()
}

//! The address that customers use.

use url::{Host, Url};

use super::finding::Finding;
use crate::{
    config::{Settings, StoreKind},
    role::Role,
};

const NAME: &str = "public_url";

/// Checks that links lead to the address where customers find the service, by TLS.
pub(super) fn check(role: Role, settings: &Settings) -> Vec<Finding> {
    let addresses = &settings.addresses;
    let url = addresses.public_url(settings.tls.scheme(), addresses.http_addr);
    let for_others =
        role != Role::All || settings.store.kind == StoreKind::Scylla || !addresses.http_addr.ip().is_loopback();
    let finding = match &addresses.public_url {
        None if for_others => {
            let seen = format!("SVC_PUBLIC_URL is not set: links in mails, documents and errors begin with {url}");
            Finding::warning(NAME, seen, "set it to the https:// address that customers use")
        }
        Some(url) if url.starts_with("http://") && !is_local(url) => {
            let seen = format!("SVC_PUBLIC_URL: {url} is not encrypted: keys and passwords can be read on the way");
            Finding::warning(NAME, seen, "put TLS in front of the service, and set the https:// address")
        }
        _ => Finding::ok(NAME, format!("links begin with {url}")),
    };
    vec![finding]
}

/// True if a URL leads to this machine alone.
fn is_local(url: &str) -> bool {
    let url = Url::parse(url).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

//! Judges webhook URLs and addresses, without I/O: core at creation, the worker before each attempt.

mod address;
mod form;
mod hostname;
#[cfg(test)]
mod tests;

use ipnet::IpNet;
use url::{Host, ParseError, Url};

pub use self::{address::judge_address, form::judge_form};

/// Why a URL or address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum Refusal {
    /// Neither `https` nor, where allowed, `http`.
    Scheme,
    /// The URL carries a user name or password.
    Credentials,
    /// A privileged port, or one of a database or of infrastructure.
    Port,
    /// No public host name.
    Hostname,
    /// The machine itself.
    Loopback,
    /// A private network.
    Private,
    /// The local link, metadata services included.
    LinkLocal,
    /// A multicast group.
    Multicast,
    /// No specific address: `0.0.0.0` and its like.
    Unspecified,
    /// Set aside for other uses than public hosts.
    Reserved,
    /// The name has no address.
    Unresolvable,
}

impl Refusal {
    /// The value of `details.reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheme => "scheme",
            Self::Credentials => "credentials",
            Self::Port => "port",
            Self::Hostname => "hostname",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "linkLocal",
            Self::Multicast => "multicast",
            Self::Unspecified => "unspecified",
            Self::Reserved => "reserved",
            Self::Unresolvable => "unresolvable",
        }
    }
}

/// The destination of a judged URL. Connect by these fields, never by the judged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The normalised URL.
    pub url: Url,
    /// Its host: a name still to be resolved and judged, or an address that passed.
    pub host: Host,
    /// Its port.
    pub port: u16,
}

/// Unprivileged ports that databases and infrastructure use.
const INFRASTRUCTURE_PORTS: &[u16] = &[
    1433, 1434, 1521, 1883, 2049, 2181, 2375, 2376, 2377, 2378, 2379, 2380, 3260, 3306, 3389, 4222, 4369, 4505, 4506,
    4646, 4647, 4648, 5432, 5433, 5671, 5672, 5900, 5901, 5984, 5985, 5986, 6000, 6379, 6380, 6432, 6443, 6650, 7077,
    7199, 7474, 7687, 8086, 8123, 8200, 8300, 8301, 8302, 8500, 8529, 8983, 9042, 9092, 9093, 9142, 9160, 9200, 9300,
    10248, 10249, 10250, 10255, 10256, 11211, 15671, 15672, 16379, 19042, 26257, 26379, 27017, 27018, 27019, 28015,
    28017, 29015, 50051, 61613, 61616,
];

/// Judges a webhook's URL without resolving its host. Live webhooks need `https`; `allow` lifts the rules for addresses
/// only.
///
/// # Errors
/// The reason why the URL is refused.
pub fn judge_url(url: &str, livemode: bool, allow: &[IpNet]) -> Result<Target, Refusal> {
    let mut url = Url::parse(url).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase | ParseError::RelativeUrlWithCannotBeABaseBase => Refusal::Scheme,
        ParseError::InvalidPort => Refusal::Port,
        _ => Refusal::Hostname,
    })?;
    match url.scheme() {
        "https" => {}
        "http" if !livemode => {}
        _ => return Err(Refusal::Scheme),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::Credentials);
    }
    let port = url.port_or_known_default().ok_or(Refusal::Port)?;
    if !matches!(port, 80 | 443 | 1024..) || INFRASTRUCTURE_PORTS.contains(&port) {
        return Err(Refusal::Port);
    }
    let host = match url.host().ok_or(Refusal::Hostname)? {
        Host::Domain(name) => Host::Domain(hostname::judge(name)?.to_owned()),
        Host::Ipv4(address) => judge_address(address.into(), allow).map(|()| Host::Ipv4(address))?,
        Host::Ipv6(address) => judge_address(address.into(), allow).map(|()| Host::Ipv6(address))?,
    };
    // Without the trailing dot, which certificates never name.
    if let Host::Domain(name) = &host {
        url.set_host(Some(name)).map_err(|_| Refusal::Hostname)?;
    }
    Ok(Target { url, host, port })
}

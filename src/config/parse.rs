//! Reads the values that have a form of their own.

use std::{
    fmt::Display,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    str::FromStr,
    time::Duration,
};

use core_service::{
    WitnessSettings,
    domain::window::{DAY_MS, parse_span},
};
use ipnet::IpNet;
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::time::{format_millis, parse_iso8601};
use thesis_receipts::{KeyKind, VerifierKey, VerifierKeyError};
use url::{ParseError, Url};

/// `http://host:port` or `https://host:port`, nothing after it.
pub(super) fn core_url(text: &str) -> Result<String, String> {
    let url = web_url(text)?;
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("nothing may follow the host and port".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// `http://host` or `https://host`, with a port or none: the pages and the API are at the root of it.
pub(super) fn public_url(text: &str) -> Result<String, String> {
    let url = core_url(text)
        .map_err(|error| format!("{error}; it is the address at whose root customers find the service"))?;
    // Pages and headers contain it.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_:/[]".contains(letter);
    if url.chars().all(is_plain) { Ok(url) } else { Err("a host has letters, digits, dots and hyphens".to_owned()) }
}

/// `http://…` or `https://…`, without a last `/`.
pub(crate) fn api_url(text: &str) -> Result<String, String> {
    Ok(base_url(text)?.as_str().trim_end_matches('/').to_owned())
}

/// `http://…` or `https://…`, to which paths can be added.
pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let url = web_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a query or fragment may not follow".to_owned());
    }
    Ok(url)
}

/// `KEY URL`: the public key of a witness and its address.
pub(super) fn witness(text: &str) -> Result<WitnessSettings, String> {
    let (key, url) = text.trim().split_once(char::is_whitespace).ok_or("a witness is its key, a space and its URL")?;
    let key: VerifierKey = key.parse().map_err(|error: VerifierKeyError| error.to_string())?;
    if key.kind() != KeyKind::Witness {
        return Err(format!("`{}` is the key of a log, and not of a witness", key.name()));
    }
    Ok(WitnessSettings { key, url: base_url(url.trim_start())? })
}

/// `http://…` or `https://…`, whatever follows.
pub(crate) fn web_url(text: &str) -> Result<Url, String> {
    let without_scheme = || "it must begin with http:// or https://".to_owned();
    let url = Url::parse(text.trim()).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase => without_scheme(),
        error => error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(without_scheme());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it may hold no credentials".to_owned());
    }
    Ok(url)
}

pub(super) fn listener(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| "it must be an IP address and a port, such as 0.0.0.0:8080".to_owned())
}

/// A network, or one address.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| "not a network such as 10.0.0.0/8".to_owned())
}

/// A name server's address; port 53 unless it names another.
pub(super) fn name_server(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let address = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
    text.parse().or_else(|_| address()).map_err(|_| "not an address such as 10.0.0.2 or 10.0.0.2:53".to_owned())
}

/// A span of a year at most, such as `24h`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let span = parse_span(text.trim()).filter(|span| *span <= 365 * DAY_MS).map(i64::unsigned_abs);
    span.map(Duration::from_millis).ok_or_else(|| "not a span such as 30m, 24h, 7d or 0s, of at most 365d".to_owned())
}

/// Converts a time, or a span before now, to the form of the API.
pub(crate) fn read_time(text: &str) -> Result<String, String> {
    let ago = parse_span(text).map(|span| format_millis(SystemClock.now_ms().saturating_sub(span)));
    let read = ago.or_else(|| parse_iso8601(text).map(|_| text.to_owned()));
    read.ok_or_else(|| "not a time such as 2031-01-01T00:00:00Z, nor a span such as 24h".to_owned())
}

/// Keyspaces that ScyllaDB or Cassandra keep for themselves.
const KEPT: [&str; 9] = [
    "system",
    "system_auth",
    "system_distributed",
    "system_distributed_everywhere",
    "system_replicated_keys",
    "system_schema",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// A keyspace that is not the database's own.
pub(super) fn keyspace(text: &str) -> Result<String, String> {
    if KEPT.contains(&text) {
        return Err("the database keeps this one for itself; set another name".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn whole<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.trim().parse::<N>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("it must be a whole number from {} to {}", range.start(), range.end()))
    }
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "not a number from 0 to 1, such as 0.01".to_owned())
}

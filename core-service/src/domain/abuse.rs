//! Addresses that failed to authenticate too often. Times are unix milliseconds, minutes are counted from 1970.

use std::{iter, net::IpAddr};

use super::window::DAY_MS;

/// An address is kept this long after its last failure, in milliseconds.
pub const KEPT_MS: i64 = 30 * DAY_MS;

/// Factor of the limit for a whole /48 network of IPv6. It holds 65,536 networks of /64, and its tenant must not have
/// as many limits.
const WIDE_FACTOR: u8 = 16;

/// Returns the address that counts for failures: an IPv6 client counts as its /64 network.
pub fn network_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

/// Returns the network that counts for the text of an address.
pub fn network_of_text(address: &str) -> String {
    address.parse().map_or_else(|_| address.to_owned(), network_of)
}

/// Returns the networks whose limits apply to a client with this network: the network itself, then the /48 network
/// around a /64.
pub fn limited_networks(network: &str) -> impl Iterator<Item = String> {
    let prefix = network.strip_suffix("::/64").and_then(|prefix| prefix.rsplit_once(':'));
    iter::once(network.to_owned()).chain(prefix.map(|(wider, _)| format!("{wider}::/48")))
}

/// Factor of the limit for a network from [`limited_networks`].
pub fn limit_factor(network: &str) -> u8 {
    if network.ends_with("/48") { WIDE_FACTOR } else { 1 }
}

/// Returns the network around a client with this network: a /24 of IPv4, or the /48 of IPv6.
pub fn wide_network(network: &str) -> String {
    match network.rsplit_once('.') {
        Some((prefix, _)) => format!("{prefix}.0/24"),
        None => limited_networks(network).last().unwrap_or_default(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbusiveAddress {
    /// An IPv4 address, or a network of IPv6: a /64, or a /48 in which several /64 failed.
    pub address: String,
    /// Failures in the minutes that had too many.
    pub failures: u64,
    /// First minute with too many failures.
    pub first_at: i64,
    /// The last failure in such a minute.
    pub last_at: i64,
}

/// A minute in which an address failed too often, as one replica counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMinute {
    pub minute: i64,
    /// Failures at this replica.
    pub failures: u64,
    /// Failures among them that are already stored.
    pub stored: u64,
    /// First minute with too many failures.
    pub first_at: i64,
    pub last_at: i64,
}

/// All bad minutes of an address, as one replica counted them. The last minute is separate, so that adding it again
/// changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Abuse {
    /// Failures in other minutes.
    #[prost(uint64, tag = "1")]
    pub earlier: u64,
    /// The last minute.
    #[prost(int64, tag = "2")]
    pub minute: i64,
    /// Failures in it.
    #[prost(uint64, tag = "3")]
    pub failures: u64,
    #[prost(int64, tag = "4")]
    pub first_at: i64,
    #[prost(int64, tag = "5")]
    pub last_at: i64,
}

impl Abuse {
    pub const fn total(&self) -> u64 {
        self.earlier + self.failures
    }

    /// True if it is too old to be listed.
    pub const fn is_over(&self, now_ms: i64) -> bool {
        self.last_at + KEPT_MS <= now_ms
    }

    /// Returns the sum with the present count of a minute.
    pub fn with(self, bad: &BadMinute) -> Self {
        let mut next = self;
        if self.total() == 0 {
            next.first_at = bad.first_at;
        }
        if bad.minute > self.minute {
            (next.earlier, next.minute, next.failures) = (self.total(), bad.minute, bad.failures);
        } else if bad.minute == self.minute {
            next.failures = self.failures.max(bad.failures);
        } else {
            next.earlier += bad.failures - bad.stored;
        }
        next.last_at = self.last_at.max(bad.last_at);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(minute: i64, failures: u64, stored: u64) -> BadMinute {
        BadMinute { minute, failures, stored, first_at: minute * 100, last_at: minute * 100 + 1 }
    }

    #[test]
    fn an_ipv6_client_is_held_by_its_64_and_by_its_48() {
        let networks = |address: &str| {
            let network = network_of(address.parse().unwrap());
            limited_networks(&network).map(|network| (limit_factor(&network), network)).collect::<Vec<_>>()
        };
        let pair = |factor: u8, network: &str| (factor, network.to_owned());
        let expected = [pair(1, "2001:db8:0:7::/64"), pair(16, "2001:db8:0::/48")];
        assert_eq!(networks("2001:db8:0:7:1:2:3:4"), expected);
        assert_eq!(networks("192.0.2.1"), [pair(1, "192.0.2.1")]);
        assert_eq!(networks("::ffff:192.0.2.1"), [pair(1, "192.0.2.1")]);
    }

    #[test]
    fn the_network_around_a_client() {
        let around = |address: &str| wide_network(&network_of(address.parse().unwrap()));
        assert_eq!(around("192.0.2.1"), "192.0.2.0/24");
        assert_eq!(around("::ffff:192.0.2.1"), "192.0.2.0/24");
        assert_eq!(around("2001:db8:0:7:1:2:3:4"), "2001:db8:0::/48");
        assert_eq!(wide_network(""), "");
        let texts = ["2001:db8:0:7:1:2:3:4", "192.0.2.1", "unknown"].map(network_of_text);
        assert_eq!(texts, ["2001:db8:0:7::/64", "192.0.2.1", "unknown"]);
    }

    #[test]
    fn a_minute_counts_once_however_often_it_is_reported() {
        let first = Abuse::default().with(&bad(5, 20, 0));
        assert_eq!((first.total(), first.first_at, first.last_at), (20, 500, 501));
        assert_eq!(first.with(&bad(5, 20, 0)), first);
        let more = first.with(&bad(5, 25, 20)).with(&bad(7, 30, 0)).with(&bad(7, 30, 30));
        assert_eq!((more.total(), more.first_at, more.last_at), (55, 500, 701));
        // A minute that is reported late.
        assert_eq!(more.with(&bad(6, 21, 0)).total(), 76);
        // A part of it is stored already.
        assert_eq!(more.with(&bad(6, 24, 20)).total(), 59);
    }

    #[test]
    fn it_is_kept_for_thirty_days_after_the_last_failure() {
        const THIRTY_DAYS: i64 = 2_592_000_000;
        let abuse = Abuse::default().with(&bad(5, 20, 0));
        assert!(!abuse.is_over(500 + THIRTY_DAYS) && abuse.is_over(501 + THIRTY_DAYS));
    }
}

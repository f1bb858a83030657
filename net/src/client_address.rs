//! The address that a request comes from.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

/// The peer's address, or, when the peer is a trusted proxy, the right-most untrusted entry of `X-Forwarded-For`.
/// Entries to the left of an unreadable one are ignored.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let trusts = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let mut address = peer.to_canonical();
    let entries = headers.get_all("x-forwarded-for").iter().rev();
    for entry in entries.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b',')) {
        if !trusts(address) {
            break;
        }
        let Some(next) = read(entry) else { break };
        address = next.to_canonical();
    }
    address
}

/// An address, with or without a port.
fn read(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let trusted = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn a_forged_header_of_an_untrusted_peer_is_not_believed() {
        assert_eq!(seen("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
    }

    #[test]
    fn the_rightmost_untrusted_entry_counts() {
        assert_eq!(seen("10.0.0.1", &["1.1.1.1, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.2.3.4"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", &["1.1.1.1", "198.51.100.1:4711 ", "10.2.3.4"]), "198.51.100.1");
        assert_eq!(seen("fd00::1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(seen("::ffff:10.0.0.1", &["::ffff:198.51.100.1"]), "198.51.100.1");
    }

    #[test]
    fn what_cannot_be_read_ends_the_belief() {
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(seen("10.0.0.1", &["198.51.100.1, unknown, 10.2.3.4"]), "10.2.3.4");
        assert_eq!(seen("10.0.0.1", &["10.9.9.9"]), "10.9.9.9");
    }
}

//! The networks from which an API key may be sent. A key without networks may be sent from anywhere.

use std::net::IpAddr;

use ipnet::IpNet;

/// Maximum number of networks of a key.
pub(crate) const MAX_NETWORKS: usize = 20;

/// Reads a network such as `192.0.2.0/24`, or a single address. Bits after the prefix are set to zero.
fn parse(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let single = || text.parse::<IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
    text.parse::<IpNet>().ok().map(|network| network.trunc()).or_else(single)
}

/// The canonical form of a network; none if the text is not a network.
pub(crate) fn normalized(text: &str) -> Option<String> {
    parse(text).map(|network| network.to_string())
}

/// True if an address is in one of the networks. A caller without a known address is in none.
pub(crate) fn contains(networks: &[String], address: Option<IpAddr>) -> bool {
    let Some(address) = address.map(|address| address.to_canonical()) else { return false };
    networks.iter().filter_map(|text| parse(text)).any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_one_form() {
        for (text, expected) in [
            ("192.0.2.7", "192.0.2.7/32"),
            (" 192.0.2.7/24 ", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("2001:DB8::1/48", "2001:db8::/48"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(normalized(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "192.0.2", "192.0.2.0/33", "2001:db8::/129", "example.com", "192.0.2.0-192.0.2.9"] {
            assert_eq!(normalized(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_is_in_its_network_in_either_form() {
        let networks = ["192.0.2.0/24".to_owned(), "2001:db8::/48".to_owned()];
        let is_in = |address: &str| contains(&networks, Some(address.parse().unwrap()));
        assert!(is_in("192.0.2.255") && is_in("::ffff:192.0.2.1") && is_in("2001:db8:0:ffff::1"));
        assert!(!is_in("192.0.3.0") && !is_in("2001:db8:1::1"));
        assert!(!contains(&networks, None));
    }
}

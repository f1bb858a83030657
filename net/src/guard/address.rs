//! Addresses that no public host has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Refusal;

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const V4: &[(Ipv4Net, Refusal)] = &[
    (v4(0, 0, 0, 0, 8), Refusal::Unspecified),
    (v4(10, 0, 0, 0, 8), Refusal::Private),
    (v4(100, 64, 0, 0, 10), Refusal::Private),
    (v4(127, 0, 0, 0, 8), Refusal::Loopback),
    // A cloud's host services, reachable from its machines only.
    (v4(168, 63, 129, 16, 32), Refusal::Reserved),
    (v4(169, 254, 0, 0, 16), Refusal::LinkLocal),
    (v4(172, 16, 0, 0, 12), Refusal::Private),
    (v4(192, 0, 0, 0, 24), Refusal::Reserved),
    (v4(192, 0, 2, 0, 24), Refusal::Reserved),
    (v4(192, 88, 99, 0, 24), Refusal::Reserved),
    (v4(192, 168, 0, 0, 16), Refusal::Private),
    (v4(198, 18, 0, 0, 15), Refusal::Reserved),
    (v4(198, 51, 100, 0, 24), Refusal::Reserved),
    (v4(203, 0, 113, 0, 24), Refusal::Reserved),
    (v4(224, 0, 0, 0, 4), Refusal::Multicast),
    (v4(240, 0, 0, 0, 4), Refusal::Reserved),
];

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

const MAPPED: Ipv6Net = v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96);
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
const TEREDO: Ipv6Net = v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);
/// Prefixes whose last 32 bits are an IPv4 address: compatible, mapped, translated, NAT64 and local NAT64.
const EMBED_LAST: &[Ipv6Net] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96),
    MAPPED,
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96),
    NAT64,
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
];

const V6: &[(Ipv6Net, Refusal)] = &[
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Refusal::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Refusal::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Refusal::Private),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Refusal::Multicast),
    // Protocol assignments, Teredo and benchmarking among them.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Refusal::Reserved),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Refusal::Reserved),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Refusal::Reserved),
];

/// The IPv6 addresses of public hosts.
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Judges an address to connect to, and each IPv4 address inside it. Each of them passes in an allowed network.
///
/// # Errors
/// The reason why the address is refused.
pub fn judge_address(address: IpAddr, allow: &[IpNet]) -> Result<(), Refusal> {
    let refusal = match address {
        IpAddr::V4(address) => V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, refusal)| *refusal),
        IpAddr::V6(address) => {
            for embedded in embedded(address).into_iter().flatten() {
                judge_address(embedded.into(), allow)?;
            }
            refusal_of_v6(address)
        }
    };
    match refusal {
        Some(refusal) if !allow.iter().any(|net| net.contains(&address)) => Err(refusal),
        _ => Ok(()),
    }
}

fn refusal_of_v6(address: Ipv6Addr) -> Option<Refusal> {
    if address.is_unspecified() {
        return Some(Refusal::Unspecified);
    }
    if address.is_loopback() {
        return Some(Refusal::Loopback);
    }
    // These reach the IPv4 address alone, which was judged.
    if MAPPED.contains(&address) || NAT64.contains(&address) {
        return None;
    }
    let listed = V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, refusal)| *refusal);
    listed.or((!GLOBAL_UNICAST.contains(&address)).then_some(Refusal::Reserved))
}

/// The IPv4 addresses inside an IPv6 address.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    if address.is_unspecified() || address.is_loopback() {
        return [None, None];
    }
    let bits = address.to_bits();
    let at = |shift: u32| Ipv4Addr::from_bits(u32::try_from((bits >> shift) & 0xffff_ffff).expect("32 bits"));
    if EMBED_LAST.iter().any(|net| net.contains(&address)) {
        [Some(at(0)), None]
    } else if SIX_TO_FOUR.contains(&address) {
        [Some(at(80)), None]
    } else if TEREDO.contains(&address) {
        // The server's, and the client's with every bit inverted.
        [Some(at(64)), Some(Ipv4Addr::from_bits(!at(0).to_bits()))]
    } else {
        [None, None]
    }
}

//! Names that lead, or may lead, into private networks.

use super::Refusal;

/// Endings of whole labels that no public DNS serves or that private networks use.
const INTERNAL_SUFFIXES: &[&str] = &[
    "alt",
    "cluster",
    "consul",
    "corp",
    "dhcp",
    "docker",
    "domain",
    "example",
    "home",
    "home.arpa",
    "in-addr.arpa",
    "internal",
    "intra",
    "intranet",
    "invalid",
    "ip6.arpa",
    "ipv4only.arpa",
    "k8s",
    "kubernetes",
    "lan",
    "local",
    "localdomain",
    "localdomain6",
    "localhost6",
    "mail",
    "onion",
    "priv",
    "private",
    "router",
    "svc",
    "test",
    "workgroup",
];

/// Judges a host name in lower-case ASCII form and returns it without its trailing dot.
pub(super) fn judge(name: &str) -> Result<&str, Refusal> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if ends_in(name, "localhost") || matches!(name, "localhost.localdomain" | "localhost6.localdomain6") {
        return Err(Refusal::Loopback);
    }
    let internal = INTERNAL_SUFFIXES.iter().any(|suffix| ends_in(name, suffix));
    if internal || !name.contains('.') || name.len() > 253 || !name.split('.').all(is_label) {
        return Err(Refusal::Hostname);
    }
    Ok(name)
}

fn ends_in(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

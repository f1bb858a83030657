//! Name servers, asked as a worker asks them.

use std::time::Duration;

use tokio::time::timeout;

use super::finding::Finding;
use crate::config::Settings;

const NAME: &str = "dns";
/// A name that is reserved for examples (RFC 2606).
const ASKED: &str = "example.com";
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(4);

/// Asks the name servers.
pub(super) async fn look(settings: &Settings) -> Vec<Finding> {
    // The check of the settings tells of a resolver that cannot be made.
    let Ok(resolver) = settings.webhooks.resolver() else { return Vec::new() };
    let servers = &settings.webhooks.dns_servers;
    let whose = if servers.is_empty() {
        "the system's name servers (/etc/resolv.conf)".to_owned()
    } else {
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        format!("SVC_DNS_SERVERS: {}", servers.join(", "))
    };
    let silent = match timeout(ANSWER, resolver.addresses(ASKED)).await {
        Ok(Ok(addresses)) => {
            return vec![Finding::ok(NAME, format!("{whose}: {} addresses of {ASKED}", addresses.len()))];
        }
        Ok(Err(error)) if error.is_answer() => {
            return vec![Finding::ok(NAME, format!("{whose}: they answer, and know no {ASKED}"))];
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", ANSWER.as_secs()),
    };
    let seen = format!("{whose}: {silent}; webhooks to hosts by name cannot be made or sent");
    let todo = "set SVC_DNS_SERVERS to a name server that this machine reaches (UDP and TCP, port 53), or let it reach \
                the system's; without webhooks it does not matter";
    vec![Finding::warning(NAME, seen, todo)]
}

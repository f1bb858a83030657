//! Name servers, queried as a worker queries them.

use std::time::Duration;

use tokio::time::timeout;

use super::finding::Finding;
use crate::config::Settings;

const NAME: &str = "dns";
/// A name that is reserved for examples (RFC 2606).
const EXAMPLE: &str = "example.com";
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    // The check of the settings reports a resolver that cannot be created.
    let Ok(resolver) = settings.webhooks.resolver() else { return Vec::new() };
    let servers = &settings.webhooks.dns_servers;
    let whose = if servers.is_empty() {
        "the system's name servers (/etc/resolv.conf)".to_owned()
    } else {
        let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
        format!("SVC_DNS_SERVERS: {}", servers.join(", "))
    };
    let silent = match timeout(RESPONSE_TIMEOUT, resolver.addresses(EXAMPLE)).await {
        Ok(Ok(addresses)) => {
            return vec![Finding::ok(NAME, format!("{whose}: {} addresses of {EXAMPLE}", addresses.len()))];
        }
        Ok(Err(error)) if error.is_answer() => {
            return vec![Finding::ok(NAME, format!("{whose}: they answer, and know no {EXAMPLE}"))];
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", RESPONSE_TIMEOUT.as_secs()),
    };
    let seen = format!("{whose}: {silent}; webhooks to hosts by name cannot be made or sent");
    let todo = "set SVC_DNS_SERVERS to a name server that this machine reaches (UDP and TCP, port 53), or let it reach \
                the system's; without webhooks it does not matter";
    vec![Finding::warning(NAME, seen, todo)]
}

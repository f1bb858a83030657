//! The addresses that the role listens at. A port is taken for a moment, without listening there.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use reqwest::{Client, Response, StatusCode, redirect::Policy};
use thesis_net::{channel::CoreChannel, clock::SystemClock, tls::Authorities};
use tokio::time::timeout;

use super::finding::Finding;
use crate::{
    config::{Settings, reachable},
    health, port,
    role::Role,
};

/// Longest wait for whoever holds a port.
const ANSWER: Duration = Duration::from_secs(2);

/// A listener of this service.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    Http,
    Grpc,
    Ops,
}

impl Door {
    const fn setting(self) -> &'static str {
        match self {
            Self::Http => "SVC_HTTP_ADDR",
            Self::Grpc => "SVC_GRPC_ADDR",
            Self::Ops => "SVC_OPS_ADDR",
        }
    }

    /// The sign by which this service is known at an address, if it answers there.
    async fn is_served(self, address: SocketAddr) -> Option<&'static str> {
        let at = reachable(address);
        let asking = async {
            match self {
                Self::Ops => {
                    let answer = get(at, "/healthz").await?;
                    let text = answer.status().is_success().then_some(answer)?.text().await.ok()?;
                    text.starts_with("ok ").then_some("it answers /healthz")
                }
                Self::Http | Self::Grpc if speaks_tls(at).await => Some("it speaks TLS as this service does"),
                Self::Http => {
                    let answer = get(at, "/").await?;
                    answer.headers().contains_key("x-service-request-id").then_some("its answers have a request id")
                }
                Self::Grpc => {
                    let url = [format!("http://{at}")];
                    let channel = CoreChannel::new(&url, &Authorities::default(), Arc::new(SystemClock)).ok()?;
                    health::of_core(channel).await.ok().map(|_| "it answers for core's health")
                }
            }
        };
        timeout(ANSWER, asking).await.ok().flatten()
    }
}

/// Whether a listener with TLS tells that a request came without.
async fn speaks_tls(at: SocketAddr) -> bool {
    let Some(answer) = get(at, "/").await else { return false };
    answer.status() == StatusCode::BAD_REQUEST && answer.text().await.is_ok_and(|text| text.contains("speaks TLS"))
}

async fn get(at: SocketAddr, path: &str) -> Option<Response> {
    let client = Client::builder().no_proxy().redirect(Policy::none()).build().ok()?;
    client.get(format!("http://{at}{path}")).send().await.ok()
}

/// Looks at each address of the role, except those whose setting could not be read.
pub(super) async fn look(role: Role, settings: &Settings, unread: &[String]) -> Vec<Finding> {
    let addresses = &settings.addresses;
    let doors = [
        (Door::Ops, addresses.ops_addr, true),
        (Door::Http, addresses.http_addr, role.is(Role::Edge)),
        (Door::Grpc, addresses.grpc_addr, role.is(Role::Core)),
    ];
    let is_read = |door: Door| !unread.iter().any(|told| told.starts_with(door.setting()));
    let doors: Vec<_> = doors.into_iter().filter(|(door, _, needed)| *needed && is_read(*door)).collect();
    let mut findings = Vec::new();
    for (place, (door, address, _)) in doors.iter().enumerate() {
        let earlier = doors[..place].iter().find(|(_, earlier, _)| overlap(*earlier, *address));
        findings.push(match earlier {
            Some((other, ..)) => {
                let seen = format!("{}: {address} is the address of {} too", door.setting(), other.setting());
                Finding::problem("ports", seen, "set another port for one of them")
            }
            None => one(*door, *address).await,
        });
    }
    findings
}

/// Whether two listeners cannot have both addresses.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (one.ip() == other.ip() || all)
}

async fn one(door: Door, address: SocketAddr) -> Finding {
    let setting = door.setting();
    let error = match port::bind(address) {
        Ok(_) if address.port() == 0 => return Finding::ok("ports", format!("{setting}: {address}, any free port")),
        Ok(_) => return Finding::ok("ports", format!("{setting}: {address} is free")),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::AddrInUse
        && let Some(sign) = door.is_served(address).await
    {
        let seen = format!("{setting}: {address} is taken by a process of this service: {sign}");
        return Finding::warning(
            "ports",
            seen,
            "nothing if that is the one you look at; else stop it before you start",
        );
    }
    Finding::refused("ports", port::refused(setting, address, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_exclude_each_other() {
        let overlap = |one: &str, other: &str| overlap(one.parse().unwrap(), other.parse().unwrap());
        assert!(overlap("127.0.0.1:80", "127.0.0.1:80") && overlap("0.0.0.0:80", "127.0.0.1:80"));
        assert!(!overlap("127.0.0.1:0", "127.0.0.1:0") && !overlap("127.0.0.1:80", "127.0.0.2:80"));
    }
}

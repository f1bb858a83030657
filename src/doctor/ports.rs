//! The addresses that the role listens at. A port is taken for a moment, without listening there.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use reqwest::{Client, Response, StatusCode, redirect::Policy};
use thesis_net::{channel::CoreChannel, clock::SystemClock, tls::Authorities};
use thesis_proto::v1::meta_service_server::SERVICE_NAME as META;
use tokio::time::timeout;

use super::finding::Finding;
use crate::{
    config::{Settings, reachable},
    health,
    port::{self, BoundPorts},
    role::Role,
};

/// Timeout for whoever holds a port.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq)]
enum ServiceListener {
    Http,
    Grpc,
    Internal,
    Ops,
}

impl ServiceListener {
    const fn setting(self) -> &'static str {
        match self {
            Self::Http => "SVC_HTTP_ADDR",
            Self::Grpc => "SVC_GRPC_ADDR",
            Self::Internal => "SVC_INTERNAL_ADDR",
            Self::Ops => "SVC_OPS_ADDR",
        }
    }

    /// The sign that this service serves an address, if it does.
    async fn is_served(self, address: SocketAddr) -> Option<&'static str> {
        let at = reachable(address);
        let asking = async {
            match self {
                Self::Ops => {
                    let response = get(at, "/healthz").await?;
                    let text = response.status().is_success().then_some(response)?.text().await.ok()?;
                    text.starts_with("ok ").then_some("it answers /healthz")
                }
                Self::Http | Self::Grpc | Self::Internal if speaks_tls(at).await => {
                    Some("it speaks TLS as this service does")
                }
                Self::Http => {
                    let response = get(at, "/").await?;
                    response.headers().contains_key("x-service-request-id").then_some("its answers have a request id")
                }
                Self::Grpc | Self::Internal => {
                    let url = [format!("http://{at}")];
                    let channel = CoreChannel::new(&url, &Authorities::default(), Arc::new(SystemClock)).ok()?;
                    // Every listener of a core has this service.
                    health::of_service(channel, META).await.ok().map(|_| "it answers for core's health")
                }
            }
        };
        timeout(RESPONSE_TIMEOUT, asking).await.ok().flatten()
    }
}

/// True if a listener with TLS reports that a request came without.
async fn speaks_tls(at: SocketAddr) -> bool {
    let Some(response) = get(at, "/").await else { return false };
    response.status() == StatusCode::BAD_REQUEST && response.text().await.is_ok_and(|text| text.contains("speaks TLS"))
}

async fn get(at: SocketAddr, path: &str) -> Option<Response> {
    // Without TLS no certificates are needed, and a machine without any is no reason to fail.
    let client = Client::builder().no_proxy().tls_certs_only([]).redirect(Policy::none()).build().ok()?;
    client.get(format!("http://{at}{path}")).send().await.ok()
}

/// Checks each address of the role, except addresses whose setting could not be read.
pub(super) async fn check(role: Role, settings: &Settings, unread: &[String]) -> Vec<Finding> {
    let addresses = &settings.addresses;
    let listeners = [
        (ServiceListener::Ops, Some(addresses.ops_addr), true),
        (ServiceListener::Http, Some(addresses.http_addr), role.is(Role::Edge)),
        (ServiceListener::Grpc, Some(addresses.grpc_addr), role.is(Role::Core)),
        (ServiceListener::Internal, addresses.internal_addr, role.is(Role::Core)),
    ];
    let is_read = |listener: ServiceListener| !unread.iter().any(|error| error.starts_with(listener.setting()));
    let (mut taken, mut findings) = (BoundPorts::default(), Vec::new());
    for (listener, address, _) in listeners.into_iter().filter(|(listener, _, needed)| *needed && is_read(*listener)) {
        let Some(address) = address else { continue };
        findings.push(match taken.take(listener.setting(), address) {
            Some(twice) => Finding::refused("ports", twice),
            None => one(listener, address).await,
        });
    }
    findings
}

async fn one(listener: ServiceListener, address: SocketAddr) -> Finding {
    let setting = listener.setting();
    let error = match port::bind(address) {
        Ok(_) if address.port() == 0 => return Finding::ok("ports", format!("{setting}: {address}, any free port")),
        Ok(_) => return Finding::ok("ports", format!("{setting}: {address} is free")),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::AddrInUse
        && let Some(sign) = listener.is_served(address).await
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

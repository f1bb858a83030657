//! The addresses at which the roles listen and find each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use clap::Args;
use ipnet::IpNet;

use super::{Refused, parse};

/// The port of a cluster's node that names none.
const CQL_PORT: u16 = 9042;

/// Addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses")]
pub(crate) struct Addresses {
    /// REST and streams listen here; port 0 takes a free one
    #[arg(long, env = "SVC_HTTP_ADDR", value_name = "IP:PORT", default_value = "127.0.0.1:8080", value_parser = parse::listener)]
    pub(crate) http_addr: SocketAddr,
    /// gRPC and gRPC-web listen here, without SVC_INTERNAL_ADDR on loopback alone; port 0 takes a free one
    #[arg(long, env = "SVC_GRPC_ADDR", value_name = "IP:PORT", default_value = "127.0.0.1:50051", value_parser = parse::listener)]
    pub(crate) grpc_addr: SocketAddr,
    /// The other roles and admin reach core here, in the private network, and SVC_GRPC_ADDR serves customers alone
    /// [default: SVC_GRPC_ADDR]
    #[arg(long, env = "SVC_INTERNAL_ADDR", value_name = "IP:PORT", value_parser = parse::listener)]
    pub(crate) internal_addr: Option<SocketAddr>,
    /// Health and metrics listen here; port 0 takes a free one
    #[arg(long, env = "SVC_OPS_ADDR", value_name = "IP:PORT", default_value = "127.0.0.1:9100", value_parser = parse::listener)]
    pub(crate) ops_addr: SocketAddr,
    /// The address that customers use, without a path [default: from SVC_HTTP_ADDR]
    #[arg(long, env = "SVC_PUBLIC_URL", value_name = "URL", value_parser = parse::public_url)]
    pub(crate) public_url: Option<String>,
    /// Where edge, worker and admin find core (its SVC_INTERNAL_ADDR, if set); several addresses share the calls
    #[arg(
        long,
        env = "SVC_CORE_URL",
        value_name = "URL,…",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:50051",
        value_parser = parse::core_url
    )]
    pub(crate) core_url: Vec<String>,
    /// Where other cores find this one [default: SVC_INTERNAL_ADDR or SVC_GRPC_ADDR, with this machine's address
    /// towards the cluster]
    #[arg(long, env = "SVC_ADVERTISE_URL", value_name = "URL", value_parser = parse::core_url)]
    pub(crate) advertise_url: Option<String>,
    /// Networks of proxies whose X-Forwarded-For the service trusts [default: none]
    #[arg(
        long,
        env = "SVC_TRUSTED_PROXIES",
        value_name = "NETWORK,…",
        value_delimiter = ',',
        value_parser = parse::network
    )]
    pub(crate) trusted_proxies: Vec<IpNet>,
}

impl Addresses {
    /// The address that customers use, when REST listens at `http`.
    pub(crate) fn public_url(&self, scheme: &str, http: SocketAddr) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", reachable(http)))
    }

    /// Refuses to serve the internal services where other machines may reach them, unless they have an address of their
    /// own.
    pub(crate) fn judge_internal(&self) -> Result<(), Refused> {
        if self.internal_addr.is_some() || self.grpc_addr.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        let reason = format!("{} is no loopback address, and the internal services have no other one", self.grpc_addr);
        Err(Refused::new("SVC_GRPC_ADDR", reason).remedy(
            "set SVC_INTERNAL_ADDR to an address of the private network, such as 10.0.0.5:50052 (or 127.0.0.1:50052 when \
             edges and workers run on this machine); SVC_CORE_URL of the other roles and SVC_ADVERTISE_URL name it",
        ))
    }

    /// Refuses a plain URL for other cores where gRPC speaks TLS alone: they would not reach this one.
    pub(crate) fn judge_advertised(&self, scheme: &str) -> Result<(), Refused> {
        match &self.advertise_url {
            Some(url) if scheme == "https" && !url.starts_with("https://") => {
                let reason = format!("`{url}` is plain, and with SVC_TLS_CERT this core speaks TLS alone");
                Err(Refused::new("SVC_ADVERTISE_URL", reason)
                    .remedy("begin it with https://, and name a host that the certificate names"))
            }
            _ => Ok(()),
        }
    }

    /// Where other cores find this one, when the internal services listen at `listener`. If that is every address of
    /// this machine, it is the one from which it reaches a node of the cluster. Empty if no other machine can find it.
    pub(crate) fn advertise_url(&self, scheme: &str, listener: SocketAddr, nodes: &[String]) -> String {
        self.advertise_url.clone().unwrap_or_else(|| {
            let seen = nodes.iter().find_map(|node| local_ip(node));
            if listener.ip().is_loopback() && seen.is_none_or(|ip| !ip.is_loopback()) {
                return String::new();
            }
            let ip = Some(listener.ip()).filter(|ip| !ip.is_unspecified()).or(seen);
            let at = ip.map_or_else(|| reachable(listener), |ip| SocketAddr::new(ip, listener.port()));
            format!("{scheme}://{at}")
        })
    }
}

/// The address of this machine from which it reaches a host; none when the host is not known or there is no way to it.
fn local_ip(host: &str) -> Option<IpAddr> {
    // Connecting a UDP socket sends nothing; it only chooses the way.
    let to = host.to_socket_addrs().or_else(|_| (host, CQL_PORT).to_socket_addrs()).ok()?.next()?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// An address of this machine at which a listener is reached.
pub(crate) fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

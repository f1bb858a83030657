//! The addresses that a process listens at.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use crate::config::Refused;

/// Maximum new connections that wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 4_096;

/// The addresses that this process has taken, or that a start would take, with their settings.
#[derive(Default)]
pub(crate) struct BoundPorts(Vec<(&'static str, SocketAddr)>);

impl BoundPorts {
    pub(crate) fn listen(&mut self, setting: &'static str, address: SocketAddr) -> Result<TcpListener, Refused> {
        let listening = bind(address).and_then(|socket| socket.listen(BACKLOG));
        let twice = self.take(setting, address);
        listening.map_err(|error| {
            twice
                .filter(|_| error.kind() == io::ErrorKind::AddrInUse)
                .unwrap_or_else(|| refused(setting, address, &error))
        })
    }

    /// Binds an address; reports if an earlier setting has the same.
    pub(crate) fn take(&mut self, setting: &'static str, address: SocketAddr) -> Option<Refused> {
        let earlier = self.0.iter().find(|(_, earlier)| overlap(*earlier, address)).map(|(other, _)| *other);
        self.0.push((setting, address));
        let reason = format!("{address} is the address of {} too", earlier?);
        Some(Refused::new(setting, reason).remedy("set another port for one of them"))
    }
}

/// True if two listeners cannot have both addresses.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (one.ip() == other.ip() || all)
}

/// Binds an address without listening there, so that no client can connect.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port that was just used can be used again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Tells that a process cannot listen at an address.
pub(crate) fn refused(setting: &'static str, address: SocketAddr, error: &io::Error) -> Refused {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => "stop the process that listens there, or set another port".to_owned(),
        io::ErrorKind::AddrNotAvailable => {
            "set an address of this machine; 0.0.0.0 and [::] stand for all of them".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "set a port from 1024 on, or let the service's user bind lower ones (CAP_NET_BIND_SERVICE)".to_owned()
        }
        _ => "set another address".to_owned(),
    };
    Refused::new(setting, format!("cannot listen at {address}: {error}")).remedy(remedy)
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

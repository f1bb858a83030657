//! The addresses that a process listens at.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use crate::config::Refused;

/// Most new connections that wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 4_096;

/// Listens at an address.
pub(crate) fn listen(setting: &'static str, address: SocketAddr) -> Result<TcpListener, Refused> {
    let listening = bind(address).and_then(|socket| socket.listen(BACKLOG));
    listening.map_err(|error| refused(setting, address, &error))
}

/// Takes an address without listening there, so that no client is taken in.
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

//! A name server that replies as a test tells it to.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use hickory_resolver::proto::{
    op::{Message, MessageType, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};

/// Names, without the last dot, with their data. An alias brings along the records of its name that come after it.
pub(crate) type Records = Vec<(&'static str, RData)>;

pub(crate) enum Reply {
    Records(Records),
    Truncated,
    Silence,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

pub(crate) fn address(text: &str) -> RData {
    match text.parse::<IpAddr>().unwrap() {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    }
}

pub(crate) fn alias(of: &str) -> RData {
    RData::CNAME(CNAME(full_name(of)))
}

fn full_name(name: &str) -> Name {
    Name::from_ascii(format!("{name}.")).unwrap()
}

/// Starts a name server on UDP and TCP, which takes its reply to each query from this function.
pub(crate) async fn start(reply: impl FnMut(Transport, RecordType) -> Reply + Send + 'static) -> SocketAddr {
    let (tcp, udp, address) = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        // The port may be taken for UDP.
        if let Ok(udp) = UdpSocket::bind(address).await {
            break (tcp, udp, address);
        }
    };
    let reply = Arc::new(Mutex::new(reply));
    let reply_over_tcp = Arc::clone(&reply);
    tokio::spawn(async move {
        let mut datagram = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut datagram).await {
            let message = message(&datagram[..length], |kind| (*reply.lock().unwrap())(Transport::Udp, kind));
            if let Some(message) = message {
                // The other side may be gone.
                let _ = udp.send_to(&message, from).await;
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = tcp.accept().await {
            let reply = Arc::clone(&reply_over_tcp);
            tokio::spawn(async move {
                while let Some(query) = read(&mut socket).await {
                    let message = message(&query, |kind| (*reply.lock().unwrap())(Transport::Tcp, kind));
                    if let Some(message) = message {
                        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
                        let _ = socket.write_all(&[&length[..], &message[..]].concat()).await;
                    }
                }
            });
        }
    });
    address
}

async fn read(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let length = socket.read_u16().await.ok()?;
    let mut query = vec![0; usize::from(length)];
    socket.read_exact(&mut query).await.ok()?;
    Some(query)
}

fn message(query: &[u8], reply: impl FnOnce(RecordType) -> Reply) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(query).unwrap();
    message.metadata.message_type = MessageType::Response;
    message.metadata.response_code = ResponseCode::NoError;
    let query = message.queries[0].clone();
    match reply(query.query_type()) {
        Reply::Records(records) => {
            let mut name = query.name().clone();
            for (owner, data) in records {
                let record = Record::from_rdata(full_name(owner), 3600, data);
                if record.name != name {
                    continue;
                }
                if let RData::CNAME(alias) = &record.data {
                    name = alias.0.clone();
                } else if record.record_type() != query.query_type() {
                    continue;
                }
                message.add_answer(record);
            }
        }
        Reply::Truncated => message.metadata.truncation = true,
        Reply::Silence => return None,
    }
    Some(message.to_vec().unwrap())
}

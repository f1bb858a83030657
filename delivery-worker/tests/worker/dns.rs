//! A name server that has one answer, until it is changed.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use hickory_resolver::proto::{
    op::{Message, MessageType, ResponseCode},
    rr::{RData, Record, RecordType, rdata::A},
};
use tokio::net::UdpSocket;

pub(crate) type Answer = Arc<Mutex<Vec<Ipv4Addr>>>;

pub(crate) async fn start(addresses: &[Ipv4Addr]) -> (SocketAddr, Answer) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let answer: Answer = Arc::new(Mutex::new(addresses.to_vec()));
    let answers = Arc::clone(&answer);
    tokio::spawn(async move {
        let mut datagram = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut datagram).await {
            let reply = reply(&datagram[..length], &answers.lock().unwrap());
            socket.send_to(&reply, from).await.unwrap();
        }
    });
    (address, answer)
}

fn reply(query: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    let mut message = Message::from_vec(query).unwrap();
    message.metadata.message_type = MessageType::Response;
    message.metadata.response_code = ResponseCode::NoError;
    let asked = message.queries[0].clone();
    if asked.query_type() == RecordType::A {
        for &address in addresses {
            message.add_answer(Record::from_rdata(asked.name().clone(), 3600, RData::A(A(address))));
        }
    }
    message.to_vec().unwrap()
}

//! Clients that stop reading.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, pause, resume, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{Log, core, socket::UPGRADE};
use crate::tests::fake::{FakeCore, serve};

/// The ways to open a stream over HTTP/1: the request, and the bytes that the client sends after the response head.
const WAYS: [(&[u8], &[u8]); 3] = [
    (b"GET /v1/events/stream HTTP/1.1\r\nhost: edge.test\r\n\r\n", b""),
    (b"GET /v1/events/stream HTTP/1.0\r\nhost: edge.test\r\n\r\n", b""),
    // A text frame with a mask of zeros.
    (UPGRADE, b"\x81\x9c\0\0\0\0{\"op\":\"subscribe\",\"sub\":\"a\"}"),
];

/// Opens a stream that starts with this many events, and reads only the response head.
async fn paused(events: usize, (request, then): (&[u8], &[u8])) -> (Arc<FakeCore>, TcpStream) {
    let log = Log::new();
    log.append(&vec![true; events]);
    let core = core(&log, 0, events as u64, None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::clone(&core);
    tokio::spawn(async move { serve(&served, listener, CancellationToken::new()).await });
    let socket = TcpSocket::new_v4().unwrap();
    // The operating system buffers a few events for a client that does not read.
    socket.set_recv_buffer_size(32 * 1024).unwrap();
    let mut client = socket.connect(address).await.unwrap();
    client.write_all(request).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    client.write_all(then).await.unwrap();
    (core, client)
}

/// The numbers of the events up to this one, or up to the end of the connection.
async fn read_up_to(client: &mut TcpStream, last: usize) -> Vec<usize> {
    let (mut bytes, end) = (Vec::new(), format!("\"id\":\"evt_{last}\""));
    while !bytes.windows(end.len()).rev().take(32 * 1024).any(|some| some == end.as_bytes())
        && client.read_buf(&mut bytes).await.unwrap_or(0) > 0
    {}
    let text = String::from_utf8_lossy(&bytes);
    let events = text.split("\"id\":\"evt_").skip(1);
    events.map_while(|event| event.split_once('"')?.0.parse().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_not_far_behind_may_pause() {
    for way in WAYS {
        let (core, mut client) = paused(990, way).await;
        sleep(Duration::from_secs(500)).await;
        assert!(!core.seen.lock().iter().any(|call| call.operation == "StreamService/Close"));
        // The operating system needs a moment of real time to send.
        resume();
        assert_eq!(read_up_to(&mut client, 990).await, (1..=990).collect::<Vec<_>>());
        pause();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_far_behind_and_takes_nothing_is_closed_after_a_minute() {
    for way in WAYS {
        let began = Instant::now();
        let (core, mut client) = paused(4_000, way).await;
        while !core.seen.lock().iter().any(|call| call.operation == "StreamService/Close") {
            sleep(Duration::from_secs(1)).await;
        }
        assert!((60..120).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        resume();
        assert!(read_up_to(&mut client, 4_000).await.len() < 3_000);
        pause();
    }
}

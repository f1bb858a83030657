//! The deadlines of a WebSocket's client.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{Log, core};
use crate::tests::fake::serve;

pub(super) const UPGRADE: &[u8] = b"GET /v1/stream HTTP/1.1\r\nhost: edge.test\r\nauthorization: Bearer svc_test_x\r\n\
    connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Opens a socket and waits until it closes. Returns the close code and the seconds until it came.
async fn closed(request: &[u8]) -> (u16, u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let stop = CancellationToken::new();
    let (core, stopping) = (core(&Log::new(), 0, 0, None), stop.clone());
    tokio::spawn(async move { serve(&core, listener, stopping).await });
    client.write_all(request).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        received.push(client.read_u8().await.unwrap());
    }
    assert!(received.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&received));
    let began = Instant::now();
    loop {
        let (kind, length) = (client.read_u8().await.unwrap(), client.read_u8().await.unwrap());
        let length = if length == 126 { client.read_u16().await.unwrap().into() } else { usize::from(length) };
        let mut payload = vec![0; length];
        client.read_exact(&mut payload).await.unwrap();
        if kind == 0x88 {
            stop.cancel();
            return (u16::from_be_bytes([payload[0], payload[1]]), began.elapsed().as_secs());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_frame_is_closed_after_45_seconds() {
    let (code, after) = closed(UPGRADE).await;
    assert_eq!((code, after), (4012, 45));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_shows_no_key_is_closed_after_ten_seconds() {
    let without_key = String::from_utf8_lossy(UPGRADE).replace("authorization: Bearer svc_test_x\r\n", "");
    let (code, after) = closed(without_key.as_bytes()).await;
    assert_eq!((code, after), (4502, 10));
}

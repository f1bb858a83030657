//! The rules of RFC 6455 for frames, by bytes written by hand.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::harness::{Client, SOON, embedded};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;

/// A frame as clients send it: masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    let mask = [0x12, 0x34, 0x56, 0x78];
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// A socket, byte by byte.
struct Raw(TcpStream);

impl Raw {
    async fn open(client: &Client) -> Self {
        let address = client.base().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "GET /v1/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: keep-alive, Upgrade\r\n\
             upgrade: WebSocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            client.key()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap().to_lowercase();
        assert!(answer.starts_with("http/1.1 101"), "{answer}");
        assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
        let mut socket = Self(stream);
        assert!(socket.next().await.1.starts_with(b"{\"op\":\"welcome\""));
        socket
    }

    async fn say(&mut self, bytes: &[u8]) {
        // The other side may have closed already.
        let _closed = self.0.write_all(bytes).await;
    }

    /// The next frame: its first byte and its payload.
    async fn next(&mut self) -> (u8, Vec<u8>) {
        let reading = async {
            let (first, short) = (self.0.read_u8().await.unwrap(), self.0.read_u8().await.unwrap());
            let length = match short {
                126 => usize::from(self.0.read_u16().await.unwrap()),
                127 => usize::try_from(self.0.read_u64().await.unwrap()).unwrap(),
                length => usize::from(length),
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.unwrap();
            (first, payload)
        };
        timeout(SOON, reading).await.expect("a frame in time")
    }

    /// The code with which the other side closes; then it ends the connection.
    async fn closed(mut self) -> u16 {
        let code = loop {
            let (first, payload) = self.next().await;
            if first == FIN | CLOSE {
                break u16::from_be_bytes([payload[0], payload[1]]);
            }
        };
        self.say(&frame(FIN | CLOSE, &code.to_be_bytes())).await;
        let mut rest = Vec::new();
        let ended = timeout(Duration::from_secs(8), self.0.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection ends");
        code
    }
}

#[tokio::test]
async fn broken_frames_close_the_socket_with_the_code_of_the_rfc() {
    let client = embedded().await.project_on("huge").await.test().await;
    let unmasked = vec![FIN | TEXT, 2, b'{', b'}'];
    let mut oversized = frame(FIN | TEXT, &[]);
    oversized.splice(1..2, [0x80 | 127, 0, 0, 0, 0, 0, 1, 0, 1]);
    let whole_oversized = frame(FIN | TEXT, &[b' '; 100_000]);
    let long_ping = frame(FIN | PING, &[0; 126]);
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("not masked", unmasked, 1002),
        ("reserved bit 1", frame(FIN | 0x40 | TEXT, b"{}"), 1002),
        ("reserved bit 2", frame(FIN | 0x20 | TEXT, b"{}"), 1002),
        ("reserved bit 3", frame(FIN | 0x10 | PING, b""), 1002),
        ("reserved opcode 3", frame(FIN | 3, b"{}"), 1002),
        ("reserved opcode 11", frame(FIN | 11, b""), 1002),
        ("a control frame in fragments", frame(PING, b"x"), 1002),
        ("a control frame of 126 bytes", long_ping, 1002),
        ("a continuation of nothing", frame(FIN, b"{}"), 1002),
        ("a new message within another", [frame(TEXT, b"{"), frame(FIN | TEXT, b"}")].concat(), 1002),
        ("a close of one byte", frame(FIN | CLOSE, &[3]), 1002),
        ("a close with code 999", frame(FIN | CLOSE, &999_u16.to_be_bytes()), 1002),
        ("a close with code 1005", frame(FIN | CLOSE, &1005_u16.to_be_bytes()), 1002),
        ("a close with code 1016", frame(FIN | CLOSE, &1016_u16.to_be_bytes()), 1002),
        ("a close with code 5000", frame(FIN | CLOSE, &5000_u16.to_be_bytes()), 1002),
        ("a close whose reason is no UTF-8", frame(FIN | CLOSE, &[3, 0xe8, 0xff]), 1007),
        ("binary", frame(FIN | BINARY, b"{}"), 1003),
        ("no UTF-8", frame(FIN | TEXT, b"\"\xc3\x28\""), 1007),
        ("half a character at the end", frame(FIN | TEXT, b"\"\xc3"), 1007),
        ("no UTF-8 in a later fragment", [frame(TEXT, b"\"\xc3"), frame(FIN, b"\x28\"")].concat(), 1007),
        ("65,537 bytes", oversized, 1009),
        ("100,000 bytes, all of them", whole_oversized, 1009),
        ("half a character before an empty fragment", [frame(TEXT, b"\"\xc3"), frame(FIN, b"")].concat(), 1007),
        ("65,537 bytes in fragments", [frame(TEXT, &[b' '; 40_000]), frame(FIN, &[b' '; 25_537])].concat(), 1009),
        ("no JSON object", frame(FIN | TEXT, b"[]"), 4501),
        ("an empty text", frame(FIN | TEXT, b""), 4501),
    ];
    for (what, bytes, code) in cases {
        let mut socket = Raw::open(&client).await;
        socket.say(&bytes).await;
        assert_eq!(socket.closed().await, code, "{what}");
    }
}

#[tokio::test]
async fn fragments_pings_and_closes_are_answered_as_the_rfc_says() {
    let client = embedded().await.project_on("huge").await.test().await;
    let mut socket = Raw::open(&client).await;
    // A message in three fragments, cut within a character, with a ping between.
    let text = "{\"op\":\"ping\",\"rid\":\"\u{1f680}\"}".as_bytes();
    socket.say(&frame(TEXT, &text[..22])).await;
    socket.say(&frame(FIN | PING, b"are you there")).await;
    assert_eq!(socket.next().await, (FIN | PONG, b"are you there".to_vec()));
    socket.say(&frame(0, &text[22..25])).await;
    socket.say(&frame(0, b"")).await;
    socket.say(&frame(FIN, &text[25..])).await;
    assert_eq!(socket.next().await, (FIN | TEXT, "{\"op\":\"pong\",\"rid\":\"\u{1f680}\"}".into()));
    // A pong that nobody asked for, and the longest ping.
    socket.say(&frame(FIN | PONG, b"x")).await;
    socket.say(&frame(FIN | PING, &[7; 125])).await;
    assert_eq!(socket.next().await, (FIN | PONG, vec![7; 125]));
    // The longest message, byte by byte.
    let mut longest = b"{\"op\":\"ping\"".to_vec();
    longest.resize(64 * 1024 - 1, b' ');
    longest.push(b'}');
    for piece in frame(FIN | TEXT, &longest).chunks(997) {
        socket.say(piece).await;
    }
    assert_eq!(socket.next().await, (FIN | TEXT, b"{\"op\":\"pong\"}".to_vec()));
    for code in [1000_u16, 1001, 1011, 3000, 4999] {
        let mut socket = Raw::open(&client).await;
        socket.say(&frame(FIN | CLOSE, &[&code.to_be_bytes()[..], b"bye"].concat())).await;
        assert_eq!(socket.closed().await, code);
    }
    let mut socket = Raw::open(&client).await;
    socket.say(&frame(FIN | CLOSE, b"")).await;
    assert_eq!(socket.next().await, (FIN | CLOSE, Vec::new()));
}

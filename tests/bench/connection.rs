//! A plain keep-alive HTTP/1.1 connection, so cheap that it does not affect the measurement.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const HEAD_END: &[u8] = b"\r\n\r\n";
const LENGTH: &[u8] = b"content-length: ";

/// A connection that sends one request after the other.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A whole answer.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// Status line and headers, without the empty line.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// The first place of `needle`.
pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// A request without a body.
pub(crate) fn request(method: &str, path: &str, key: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n\r\n").into_bytes()
}

/// A `GET`.
pub(crate) fn get(path: &str, key: &str) -> Vec<u8> {
    request("GET", path, key)
}

/// A `POST` with a JSON body.
pub(crate) fn post(path: &str, key: &str, body: &str) -> Vec<u8> {
    with_body("POST", path, key, body)
}

/// A request with a JSON body.
pub(crate) fn with_body(method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        self.stream.write_all(request).await
    }

    /// Waits for more bytes; gives all since the request.
    pub(crate) async fn more(&mut self) -> io::Result<&[u8]> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(&self.buffer)
    }

    /// Sends a request and reads its answer, which has a length.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.send(request).await?;
        let head = loop {
            if let Some(head) = find(self.more().await?, HEAD_END) {
                break head;
            }
        };
        let number = |bytes: &[u8]| {
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
        };
        let length = find(&self.buffer[..head], LENGTH).map_or(0, |at| number(&self.buffer[at + LENGTH.len()..]));
        let start = head + HEAD_END.len();
        while self.buffer.len() < start + length {
            self.more().await?;
        }
        let status = u16::try_from(number(&self.buffer["HTTP/1.1 ".len()..head])).unwrap_or_default();
        Ok(Answer { status, head: &self.buffer[..head], body: &self.buffer[start..start + length] })
    }

    /// Sends a request that must succeed.
    pub(crate) async fn ask_ok(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        let answer = self.ask(request).await?;
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        Err(io::Error::other(format!("answered {}: {}", answer.status, String::from_utf8_lossy(answer.body))))
    }
}

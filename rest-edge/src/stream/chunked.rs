//! Server-Sent Events on a dedicated connection, in chunks of HTTP/1.1. Some proxies use HTTP/1.0, which has no chunks:
//! there the end of the connection ends the response.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context as Task, Poll},
};

use thesis_net::server::{Room, Socket};
use tokio::{
    io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf},
    time::timeout,
};

use super::{GOODBYE, sse_events::EventPieces};

/// Bytes for a chunk's size: hexadecimal digits and a line end.
const HEAD: usize = 10;
/// The chunk that ends the response (RFC 9112, 7.1).
const LAST: &[u8] = b"0\r\n\r\n";

pub(super) struct ChunkedWriter {
    socket: Socket,
    events: EventPieces,
    has_chunks: bool,
    chunk: Vec<u8>,
    /// Number of bytes of the chunk that are already written.
    written: usize,
    /// The reserved memory for a chunk that the client has not read yet.
    room: Option<Room>,
    /// True while the last chunk is being written.
    is_last: bool,
}

impl ChunkedWriter {
    pub(super) fn new(socket: Socket, events: EventPieces, has_chunks: bool) -> Self {
        Self { socket, events, has_chunks, chunk: Vec::new(), written: 0, room: None, is_last: false }
    }

    /// Writes until the stream ends or the client disconnects.
    pub(super) async fn run(mut self) {
        if let Err(error) = poll_fn(|task| self.poll(task)).await {
            tracing::debug!(%error, "the client of a stream is gone");
        }
        // The box keeps the future small: an open stream reserves no memory for its end.
        Box::pin(self.close()).await;
    }

    async fn close(self) {
        let Self { mut socket, events, .. } = self;
        // This frees the stream's slot at once, even if the client disconnects slowly.
        drop(events);
        // The result does not matter, because the connection closes anyway.
        let _closed = timeout(GOODBYE, socket.shutdown()).await;
    }

    fn poll(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.written == self.chunk.len() {
                self.room = None;
                if !self.is_last && !self.fill(task) {
                    break;
                }
                if self.written == self.chunk.len() {
                    return Poll::Ready(Ok(()));
                }
            } else if self.events.is_withdrawn(task) {
                // A chunk that is partly written cannot end properly.
                return Poll::Ready(Ok(()));
            }
            match Pin::new(&mut self.socket).poll_write(task, &self.chunk[self.written..])? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(written) => self.written += written,
                Poll::Pending => {
                    if self.room.is_none() {
                        self.room = self.socket.hold(self.chunk.len());
                    }
                    if self.events.is_too_slow(task, self.socket.blocked_since()) {
                        return Poll::Ready(Ok(()));
                    }
                    break;
                }
            }
        }
        self.poll_gone(task)
    }

    /// Builds the next chunk; false if there is nothing to write yet.
    fn fill(&mut self, task: &mut Task<'_>) -> bool {
        let mut chunk = std::mem::take(&mut self.chunk);
        self.written = 0;
        chunk.clear();
        chunk.resize(HEAD, 0);
        match self.events.poll_piece(task, &mut chunk) {
            // An idle stream keeps no memory for chunks.
            Poll::Pending => return false,
            Poll::Ready(true) if !self.has_chunks => self.written = HEAD,
            Poll::Ready(true) => {
                let size = format!("{:x}\r\n", chunk.len() - HEAD);
                self.written = HEAD - size.len();
                chunk[self.written..HEAD].copy_from_slice(size.as_bytes());
                chunk.extend_from_slice(b"\r\n");
            }
            Poll::Ready(false) => {
                self.is_last = true;
                chunk = if self.has_chunks { LAST.to_vec() } else { Vec::new() };
            }
        }
        self.chunk = chunk;
        true
    }

    /// Ready when the client has closed the connection. Other bytes of the client are ignored.
    fn poll_gone(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [MaybeUninit::uninit(); 512];
        loop {
            let mut bytes = ReadBuf::uninit(&mut bytes);
            match Pin::new(&mut self.socket).poll_read(task, &mut bytes)? {
                Poll::Ready(()) if bytes.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

//! Connections that go on without HTTP, as WebSockets and long answers do. The buffers of HTTP, more than 16 KiB, are
//! free then.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{Metered, answering::Taking, connections::Room};

/// Bytes that the system keeps for a peer, half of it for its own use: enough for a thousand events a second to a peer
/// that is a tenth of a second away.
const SEND_BUFFER: usize = 64 * 1024;

type Serve = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// What serves a connection over HTTP/1.1 once the head of an answer is written, as an extension of that answer. The
/// answer's body has no known size, so that the head tells of chunks, and is never read. The connection still counts,
/// is metered and drained as before, and closes in the end.
#[derive(Clone)]
pub struct Takeover(Arc<Mutex<Option<Serve>>>);

impl Takeover {
    /// Serves the socket until the future ends.
    pub fn new<F: Future<Output = ()> + Send + 'static>(serve: impl FnOnce(Socket) -> F + Send + 'static) -> Self {
        let serve: Serve = Box::new(|socket| Box::pin(serve(socket)));
        Self(Arc::new(Mutex::new(Some(serve))))
    }

    /// Serves the socket, the first time.
    pub(super) async fn serve(self, socket: Socket) {
        let serve = self.0.lock().take();
        if let Some(serve) = serve {
            serve(socket).await;
        }
    }
}

impl fmt::Debug for Takeover {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Takeover")
    }
}

/// The bytes of a connection after HTTP.
pub struct Socket {
    /// The bytes that HTTP had read and not used.
    first: Bytes,
    stream: Metered<TcpStream>,
    taking: Taking,
}

impl Socket {
    pub(super) fn new(first: Bytes, stream: Metered<TcpStream>, taking: Taking) -> Self {
        // Otherwise the system keeps up to megabytes for a peer that reads slowly.
        let _best_effort = set_socket_send_buffer_size(stream.get_ref(), SEND_BUFFER);
        Self { first, stream, taking }
    }

    /// Takes room for bytes that the peer does not take at once, which all connections share. Without room a slow peer
    /// is cut off, and others go on.
    pub fn hold(&self, bytes: usize) -> Option<Room> {
        self.taking.place.hold_part(bytes)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let some = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..some]);
        self.first.advance(some);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

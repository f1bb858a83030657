//! Connections that go on without HTTP, as WebSockets and long answers do. The buffers of HTTP, more than 16 KiB, are
//! free then.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{Metered, answering::Taking, connections::Room};

/// Bytes that wait in the system for a peer to take them; Linux doubles the value, for its own use. Enough for hundreds of
/// events a second to a peer that is a fifth of a second away.
const SEND_BUFFER: usize = 64 * 1024;

type Serve = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// Serves a connection over HTTP/1.1 once the head of an answer is written; an extension of that answer. The answer's body
/// stays pending and has no known size, so that hyper announces chunks in the head. The connection still counts, is metered
/// and drained as before, and closes in the end.
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
    stream: Metered<TcpStream>,
    taking: Taking,
}

impl Socket {
    /// The socket of a connection, of which HTTP had read some bytes too many.
    pub(super) fn new(mut stream: Metered<TcpStream>, unused: &[u8], taking: Taking) -> Self {
        stream.take_back(unused);
        // Otherwise the system keeps up to megabytes for a peer that reads slowly.
        let _best_effort = set_socket_send_buffer_size(stream.get_ref(), SEND_BUFFER);
        Self { stream, taking }
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
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

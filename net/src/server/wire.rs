//! The bytes of a connection: as they are, or by TLS.
//!
//! The meter, limits and takeover see plain bytes either way. The handshake is the beginning of a connection's first
//! ten seconds. Encrypted bytes that wait are bounded by 16 KiB, and no more is taken until they are gone, so that a
//! slow peer is noticed.

use std::{
    fmt::Debug,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::tls::Acceptor;

/// The first byte of every TLS connection: a record of its handshake (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;
/// The response to a request without TLS.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 48\r\n\r\nThis port speaks TLS; take https:// in the URL.\n";

/// A connection that is no socket of the system, such as a simulated one.
pub trait OtherStream: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Sync + Unpin + 'static> OtherStream for T {}

/// A new connection.
#[derive(Debug)]
pub enum Accepted {
    /// A socket of the system.
    Tcp(TcpStream),
    /// Another connection. It does not speak TLS.
    Other(Box<dyn OtherStream>),
}

/// In boxes, so that they take no room in plain connections.
type TlsOrOther = Either<Box<TlsStream<TcpStream>>, Box<dyn OtherStream>>;

/// The bytes of a connection: as they are, or by TLS.
#[derive(Debug)]
pub struct Wire(Either<TcpStream, TlsOrOther>);

impl Wire {
    pub(super) const fn plain(stream: TcpStream) -> Self {
        Self(Either::Left(stream))
    }

    /// Shakes hands where the listener speaks TLS. The client's pace decides how long that takes.
    pub(super) async fn open(stream: Accepted, tls: Option<&Acceptor>) -> io::Result<Self> {
        let stream = match stream {
            Accepted::Tcp(stream) => stream,
            Accepted::Other(stream) => return Ok(Self(Either::Right(Either::Right(stream)))),
        };
        let Some(tls) = tls else { return Ok(Self::plain(stream)) };
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[0] != HANDSHAKE {
            // Best effort: the connection is closed either way. Unread bytes would make the system drop the response.
            let _answered = (stream.try_read(&mut [0; 4096]), stream.try_write(SPEAK_TLS));
            return Err(io::Error::other("it does not speak TLS"));
        }
        // In a box, so that the room for a handshake is free afterwards.
        Ok(Self(Either::Right(Either::Left(Box::new(Box::pin(tls.accept(stream)).await?)))))
    }

    /// The system's socket, if there is one.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match &self.0 {
            Either::Left(stream) => Some(stream),
            Either::Right(Either::Left(stream)) => Some(stream.get_ref().0),
            Either::Right(Either::Right(_)) => None,
        }
    }
}

// A flush changes nothing in a plain connection.
impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Streams write without flushing, but they read as well: waiting bytes go on then.
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.0).poll_flush(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

/// Over TLS nothing is taken while encrypted bytes wait, so that a slow peer is seen, as it is without TLS.
impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.0).poll_flush(context))?;
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.0).poll_flush(context))?;
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

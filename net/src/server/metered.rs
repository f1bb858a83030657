//! A connection whose bytes are counted.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Wire,
    connections::Room,
    meter::{ACKNOWLEDGEMENT_TIMEOUT_MS, Meter, STREAM_READ_TIMEOUT_MS},
    open_request::OpenResponse,
};

/// Unread bytes in the system's buffer for a peer; Linux doubles the value, for its own use. Enough for hundreds of
/// events a second to a peer that is a fifth of a second away.
const SEND_BUFFER: usize = 64 * 1024;

/// A connection whose arriving bytes are counted.
#[derive(Debug)]
pub struct Metered<T> {
    stream: T,
    meter: Arc<Meter>,
    /// Bytes that were read and counted already, and come before all others.
    first: Bytes,
    /// The response that continues without HTTP.
    taking: Option<OpenResponse>,
    /// The end of a read pause, after many refused requests.
    pause: Option<Pin<Box<Sleep>>>,
    /// Prepares the stream for its end.
    before_close: Option<fn(&T)>,
}

impl<T> Metered<T> {
    /// Counts the bytes of a stream, except for `first`, which were read from it before.
    pub(super) fn new(stream: T, meter: Arc<Meter>, first: &[u8]) -> Self {
        Self { stream, meter, first: Bytes::copy_from_slice(first), taking: None, pause: None, before_close: None }
    }

    /// Time since which the peer has read none of its waiting bytes; `None` if none wait.
    pub fn blocked_since(&self) -> Option<Instant> {
        self.meter.blocked_since()
    }

    /// Takes room for bytes that the peer does not read at once, which all connections share; `None` while HTTP has the
    /// connection. Without room a slow peer is cut off, and others continue.
    pub fn hold(&self, bytes: usize) -> Option<Room> {
        self.taking.as_ref()?.place.hold_part(bytes)
    }
}

impl Metered<Wire> {
    /// Continues without HTTP, which had read some bytes too many.
    pub(super) fn taken_over(mut self, unused: &[u8], taking: OpenResponse) -> Self {
        // A server has many streams, and a frame is far smaller than a response.
        if let Some(tcp) = self.stream.tcp() {
            let _best_effort = set_socket_send_buffer_size(tcp, SEND_BUFFER);
            // Linux also gives up a peer that acknowledges and keeps its window closed for this time. A reader may
            // pause.
            let _best_effort = set_tcp_user_timeout(tcp, STREAM_READ_TIMEOUT_MS);
        }
        // Once it is closed, a reader that takes nothing is no longer worth the memory of the system.
        self.before_close = Some(|wire| {
            let _best_effort = wire.tcp().map(|tcp| set_tcp_user_timeout(tcp, ACKNOWLEDGEMENT_TIMEOUT_MS));
        });
        self.meter.becomes_stream();
        self.first = [unused, &self.first].concat().into();
        self.taking = Some(taking);
        self
    }
}

impl<T> Drop for Metered<T> {
    fn drop(&mut self) {
        if let Some(close) = self.before_close {
            close(&self.stream);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let some = self.first.len().min(buffer.remaining());
            buffer.put_slice(&self.first.split_to(some));
            return Poll::Ready(Ok(()));
        }
        while let Some(at) = self.meter.reads_at() {
            ready!(self.pause.get_or_insert_with(|| Box::pin(sleep_until(at))).as_mut().poll(context));
            self.pause = None;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.meter.may_read(buffer.filled().len() - before) {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(io::Error::other("too much arrived without a request")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.meter.waits_for_flush();
        self.meter.waits(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.meter.waits_for_flush();
        self.meter.waits(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.meter.flushed(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        // Over TLS it is a write as well.
        self.meter.waits(ended.is_pending());
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use http::Version;
    use rustix::net::sockopt::tcp_user_timeout;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        net::{TcpListener, TcpStream},
        time::timeout,
    };

    use super::*;
    use crate::server::{connections::Connections, open_request::ConnectionEntry};

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_many_refused_requests_is_read_slowly() {
        let meter = Arc::new(Meter::new(0));
        let (server, mut client) = duplex(8);
        let mut server = Metered::new(server, Arc::clone(&meter), &[]);
        let began = Instant::now();
        let mut time_of_reading = async |refused| {
            (0..refused).for_each(|_| meter.was_refused());
            client.write_all(b"x").await.unwrap();
            server.read_exact(&mut [0]).await.unwrap();
            began.elapsed()
        };
        assert_eq!(time_of_reading(1_000).await, Duration::ZERO);
        assert_eq!(time_of_reading(200).await, Duration::from_secs(1));
        assert_eq!(time_of_reading(1).await, Duration::from_millis(1_005));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(time_of_reading(1_000).await, Duration::from_millis(11_005));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_gone_that_takes_nothing_for_a_minute() {
        let meter = Arc::new(Meter::new(0));
        let (server, mut client) = duplex(8);
        let mut server = Metered::new(server, Arc::clone(&meter), &[]);
        let mut write =
            async || poll_fn(|context| Poll::Ready(Pin::new(&mut server).poll_write(context, b"12345678"))).await;
        assert!(write().await.is_ready() && write().await.is_pending());
        // A peer that takes a little now and then stays.
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(50)).await;
            assert!(write().await.is_pending() && !meter.is_stuck());
            client.read_exact(&mut [0; 3]).await.unwrap();
            assert!(write().await.is_ready() && write().await.is_pending());
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!meter.is_stuck());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(write().await.is_pending() && meter.is_stuck());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_of_a_stream_is_gone_that_takes_nothing_for_ten_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let connections = Connections::new("tests", 0);
        let place = ConnectionEntry { meter: connections.add(0, 0), connections };
        let meter = Arc::clone(&place.meter);
        let taking = place.begin(Version::HTTP_11).taken_over();
        let mut server = Metered::new(Wire::plain(stream), Arc::clone(&meter), &[]).taken_over(&[], taking);
        assert_eq!(tcp_user_timeout(server.stream.tcp().unwrap()).unwrap(), 600_000, "TCP cuts nobody off sooner");
        while timeout(Duration::from_secs(1), server.write(&[0; 64 * 1024])).await.is_ok() {}
        assert!(server.blocked_since().is_some());
        tokio::time::advance(Duration::from_secs(590)).await;
        assert!(!meter.is_stuck());
        tokio::time::advance(Duration::from_secs(20)).await;
        assert!(meter.is_stuck());
    }
}

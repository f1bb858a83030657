//! Request heads that hyper refuses because they are malformed or too large. This module replaces hyper's bare response
//! by the error envelope with a request id.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use thesis_net::server::Socket;
use thesis_proto::error::{ApiError, ErrorCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::edge::Edge;

/// A connection that replaces bare responses by the envelope.
pub(crate) struct EnvelopedConnection<T> {
    stream: T,
    edge: Arc<Edge>,
    /// The remaining bytes that replace a bare response.
    instead: Bytes,
}

impl<T> EnvelopedConnection<T> {
    pub(crate) fn new(stream: T, edge: Arc<Edge>) -> Self {
        Self { stream, edge, instead: Bytes::new() }
    }

    fn envelope(&self) -> Bytes {
        let id = self.edge.context.request_id();
        let id = id.to_str().unwrap_or_default();
        let error = ApiError::new(
            ErrorCode::InvalidRequest,
            "the request's head is malformed or larger than 16 KiB; write it as HTTP/1.1 with 16 KiB of headers at most",
        );
        tracing::info!(request_id = id, status = error.code.http_status(), "unreadable request refused");
        self.edge.context.errors.raw(&error, id)
    }
}

impl From<EnvelopedConnection<Self>> for Socket {
    fn from(enveloped: EnvelopedConnection<Self>) -> Self {
        enveloped.stream
    }
}

/// True for a response of hyper itself: complete, without a body, and without this service's headers.
fn is_bare(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.")
        && bytes.get(8..10) == Some(b" 4")
        && bytes.ends_with(b"\r\n\r\n")
        && str::from_utf8(bytes)
            .is_ok_and(|text| text.contains("content-length: 0\r\n") && !text.contains("x-service-"))
}

impl<T: AsyncWrite + Unpin> AsyncWrite for EnvelopedConnection<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.instead.is_empty() {
            if !is_bare(bytes) {
                return Pin::new(&mut this.stream).poll_write(context, bytes);
            }
            this.instead = this.envelope();
        }
        // The caller writes the same bytes again until this function reports them as written.
        while !this.instead.is_empty() {
            match ready!(Pin::new(&mut this.stream).poll_write(context, &this.instead))? {
                0 => return Poll::Ready(Ok(0)),
                written => this.instead.advance(written),
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [only] => self.poll_write(context, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
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

impl<T: AsyncRead + Unpin> AsyncRead for EnvelopedConnection<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

//! The frames of one WebSocket. tungstenite reads them, answers pings and closes, and rejects invalid frames. Outgoing
//! frames wait in this module's queue: tungstenite's own buffer would keep the size of the largest piece until the
//! socket closes.

use std::{
    io::{self, Cursor, ErrorKind, Read, Write},
    pin::Pin,
    task::{Context as Task, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::{
    Error, Message,
    protocol::{
        CloseFrame, Role, WebSocketConfig, WebSocketContext,
        frame::{
            FrameHeader,
            coding::{Control, Data, OpCode},
        },
    },
};

/// Limit for a message in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Size of the read buffer in bytes, which an idle socket keeps.
const MAX_READ: usize = 1024;

pub(super) struct Frames<T> {
    connection: T,
    context: WebSocketContext,
    /// Outgoing frames.
    waiting: Vec<u8>,
    /// Number of bytes of `waiting` that are already written.
    written: usize,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Frames<T> {
    pub(super) fn new(connection: T) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(MAX_READ)
            .max_message_size(Some(MAX_BYTES))
            .max_frame_size(Some(MAX_BYTES));
        let context = WebSocketContext::new(Role::Server, Some(config));
        Self { connection, context, waiting: Vec::new(), written: 0 }
    }

    pub(super) fn connection(&mut self) -> &mut T {
        &mut self.connection
    }

    /// Queues a text frame.
    pub(super) fn queue_text(&mut self, text: &[u8]) {
        self.queue(OpCode::Data(Data::Text), text);
    }

    pub(super) fn queue_ping(&mut self) {
        self.queue(OpCode::Control(Control::Ping), &[]);
    }

    fn queue(&mut self, opcode: OpCode, payload: &[u8]) {
        // A closing socket accepts no frames. The next poll reports its end.
        if !self.context.can_write() {
            return;
        }
        let header = FrameHeader { opcode, ..FrameHeader::default() };
        let length = payload.len() as u64;
        self.waiting.reserve(header.len(length) + payload.len());
        header.format(length, &mut self.waiting).expect("memory takes every byte");
        self.waiting.extend_from_slice(payload);
    }

    /// Queues the close frame unless the socket is closing already.
    pub(super) fn queue_close(&mut self, reason: CloseFrame) {
        let mut frame = Cursor::new(Vec::new());
        let _closed = self.context.close(&mut frame, Some(reason));
        self.waiting.extend(frame.into_inner());
    }

    /// Ready after all queued frames are written.
    pub(super) fn poll_flush(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            let rest = &self.waiting[self.written..];
            match ready!(Pin::new(&mut self.connection).poll_write(task, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        (self.waiting, self.written) = (Vec::new(), 0);
        Pin::new(&mut self.connection).poll_flush(task)
    }

    /// Reads the next message and queues the response to a ping or a close. After an error there are no more messages.
    pub(super) fn poll_next(&mut self, task: &mut Task<'_>) -> Poll<Result<Message, Error>> {
        let Self { connection, context, waiting, .. } = self;
        let mut ends = FrameStream { connection, waiting, task };
        match context.read(&mut ends) {
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            read => {
                // The only error is that the socket is closed, which the next read reports.
                let _closed = context.flush(&mut ends);
                Poll::Ready(read)
            }
        }
    }
}

/// The connection for tungstenite: it reads available bytes, and writes into the queue.
struct FrameStream<'a, 'b, T> {
    connection: &'a mut T,
    waiting: &'a mut Vec<u8>,
    task: &'a mut Task<'b>,
}

impl<T: AsyncRead + Unpin> Read for FrameStream<'_, '_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut bytes = ReadBuf::new(bytes);
        match Pin::new(&mut *self.connection).poll_read(self.task, &mut bytes) {
            Poll::Ready(read) => read.map(|()| bytes.filled().len()),
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl<T> Write for FrameStream<'_, '_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, join, sink};

    use super::*;

    thesis_fuzz::fuzz_tests!(websocket_frames);

    /// Frames give no more than their bytes, and end.
    fn websocket_frames(input: &[u8]) {
        let mut frames = Frames::new(join(input, sink()));
        let mut task = Task::from_waker(Waker::noop());
        let mut bytes = 0;
        while let Poll::Ready(Ok(message)) = frames.poll_next(&mut task) {
            // A close with a wrong code comes as one that says so.
            bytes += if message.is_close() { 0 } else { message.len() };
        }
        assert!(bytes <= input.len());
        // The responses to pings and to a close are no longer than these.
        assert!(frames.waiting.len() <= input.len() + 128, "{}", frames.waiting.len());
    }

    #[tokio::test]
    async fn frames_keep_their_order_and_take_no_memory_once_they_are_written() {
        let (server, mut client) = duplex(32 * 1024);
        let mut frames = Frames::new(server);
        frames.queue_text(&[b'x'; 20_000]);
        // A masked ping.
        client.write_all(&[0x89, 0x81, 0, 0, 0, 0, b'y']).await.unwrap();
        let ping = poll_fn(|task| frames.poll_next(task)).await.unwrap();
        assert_eq!(ping, Message::Ping(Bytes::from_static(b"y")));
        frames.queue_close(CloseFrame { code: 4001_u16.into(), reason: "z".into() });
        frames.queue_text(b"too late");
        poll_fn(|task| frames.poll_flush(task)).await.unwrap();
        assert_eq!(frames.waiting.capacity(), 0);
        let mut read = vec![0; 20_012];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read[..5], [0x81, 126, 0x4e, 0x20, b'x']);
        assert_eq!(read[20_004..], [0x8a, 1, b'y', 0x88, 3, 0x0f, 0xa1, b'z']);
    }
}

//! The frames of one WebSocket. tungstenite reads them, answers pings and closes, and knows what clients must not send.
//! All frames to be written wait here: its own buffer would keep the size of the largest piece until the socket closes.

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

/// Most bytes of a message.
const MAX_BYTES: usize = 64 * 1024;
/// Most bytes read at once. A socket keeps a buffer of this size while it is idle.
const MAX_READ: usize = 1024;

/// The frames of a connection, in both directions.
pub(super) struct Frames<T> {
    connection: T,
    context: WebSocketContext,
    /// Frames to be written.
    waiting: Vec<u8>,
    /// Number of their bytes that are written.
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

    /// The connection beneath the frames.
    pub(super) fn connection(&mut self) -> &mut T {
        &mut self.connection
    }

    /// Queues a text.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.queue(OpCode::Data(Data::Text), text);
    }

    /// Queues a ping.
    pub(super) fn ping(&mut self) {
        self.queue(OpCode::Control(Control::Ping), &[]);
    }

    fn queue(&mut self, opcode: OpCode, payload: &[u8]) {
        // A socket that is closing takes no more; its end is seen with the next step.
        if !self.context.can_write() {
            return;
        }
        let header = FrameHeader { opcode, ..FrameHeader::default() };
        let length = payload.len() as u64;
        self.waiting.reserve(header.len(length) + payload.len());
        header.format(length, &mut self.waiting).expect("memory takes every byte");
        self.waiting.extend_from_slice(payload);
    }

    /// Queues the frame that closes the socket, unless it is closing already.
    pub(super) fn close(&mut self, reason: CloseFrame) {
        let mut frame = Cursor::new(Vec::new());
        // The only error is that the socket is closed.
        let _closed = self.context.close(&mut frame, Some(reason));
        self.waiting.extend(frame.into_inner());
    }

    /// Ready once all queued frames are written.
    pub(super) fn poll_flush(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            let rest = &self.waiting[self.written..];
            match ready!(Pin::new(&mut self.connection).poll_write(task, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        // An idle socket keeps no memory for frames.
        (self.waiting, self.written) = (Vec::new(), 0);
        Pin::new(&mut self.connection).poll_flush(task)
    }

    /// The next message; its answer, if it is a ping or a close, is queued. After an error there is no next one.
    pub(super) fn poll_next(&mut self, task: &mut Task<'_>) -> Poll<Result<Message, Error>> {
        let Self { connection, context, waiting, .. } = self;
        let mut ends = Ends { connection, waiting, task };
        match context.read(&mut ends) {
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            read => {
                // The only error is that the socket is closed, as the next read says.
                let _closed = context.flush(&mut ends);
                Poll::Ready(read)
            }
        }
    }
}

/// The connection as tungstenite sees it: it reads what is there, and writes to the queue.
struct Ends<'a, 'b, T> {
    connection: &'a mut T,
    waiting: &'a mut Vec<u8>,
    task: &'a mut Task<'b>,
}

impl<T: AsyncRead + Unpin> Read for Ends<'_, '_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut bytes = ReadBuf::new(bytes);
        match Pin::new(&mut *self.connection).poll_read(self.task, &mut bytes) {
            Poll::Ready(read) => read.map(|()| bytes.filled().len()),
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl<T> Write for Ends<'_, '_, T> {
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
    use std::future::poll_fn;

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn frames_keep_their_order_and_take_no_memory_once_they_are_written() {
        let (server, mut client) = duplex(32 * 1024);
        let mut frames = Frames::new(server);
        frames.text(&[b'x'; 20_000]);
        // A masked ping.
        client.write_all(&[0x89, 0x81, 0, 0, 0, 0, b'y']).await.unwrap();
        let ping = poll_fn(|task| frames.poll_next(task)).await.unwrap();
        assert_eq!(ping, Message::Ping(Bytes::from_static(b"y")));
        frames.close(CloseFrame { code: 4001_u16.into(), reason: "z".into() });
        frames.text(b"too late");
        poll_fn(|task| frames.poll_flush(task)).await.unwrap();
        assert_eq!(frames.waiting.capacity(), 0);
        let mut read = vec![0; 20_012];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read[..5], [0x81, 126, 0x4e, 0x20, b'x']);
        assert_eq!(read[20_004..], [0x8a, 1, b'y', 0x88, 3, 0x0f, 0xa1, b'z']);
    }
}

//! Reads Server-Sent Events.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Response, header::HeaderMap};
use serde_json::Value;
use tokio::time::timeout;

use super::{SOON, text};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The cursor.
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    /// The data line as it came.
    pub(crate) raw: String,
    pub(crate) data: Value,
}

impl Frame {
    /// Its cursor.
    pub(crate) fn cursor(&self) -> &str {
        self.id.as_deref().expect("a frame with a cursor")
    }
}

/// An open stream.
pub(crate) struct Sse {
    response: Response,
    /// The answer's head.
    pub(crate) headers: HeaderMap,
    /// The last cursor that came without an event.
    pub(crate) stands_at: Option<String>,
    unread: Vec<u8>,
    frames: VecDeque<Frame>,
}

impl Sse {
    pub(super) fn new(response: Response) -> Self {
        let headers = response.headers().clone();
        assert_eq!(headers["content-type"], "text/event-stream");
        assert!(headers["x-service-request-id"].to_str().unwrap().starts_with("req_"));
        Self { response, headers, stands_at: None, unread: Vec::new(), frames: VecDeque::new() }
    }

    /// The next frame, or none at the end of the stream.
    pub(crate) async fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            self.unread.extend(self.response.chunk().await.ok()??);
            self.parse();
        }
    }

    fn parse(&mut self) {
        while let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.unread.drain(..end + 2).collect();
            let Some(frame) = parse(str::from_utf8(&block).unwrap()) else { continue };
            if frame.event == "stream.cursor" {
                self.stands_at = frame.id;
            } else {
                self.frames.push_back(frame);
            }
        }
    }

    /// The cursor that comes before all events; none if the stream ends before.
    pub(crate) async fn try_first_cursor(&mut self) -> Option<String> {
        while self.stands_at.is_none() {
            self.unread.extend(self.response.chunk().await.ok()??);
            self.parse();
        }
        self.stands_at.clone()
    }

    /// The cursor that comes before all events.
    pub(crate) async fn first_cursor(&mut self) -> String {
        let first = timeout(SOON, self.try_first_cursor()).await.expect("a cursor in time");
        first.expect("a cursor and not the end")
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> Frame {
        timeout(SOON, self.read()).await.expect("a frame in time").expect("a frame and not the end")
    }

    /// The next frames.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.len() < count {
            frames.push(self.next().await);
        }
        frames
    }

    /// The next frame of a type, others skipped.
    pub(crate) async fn next_of(&mut self, event: &str) -> Frame {
        loop {
            let frame = self.next().await;
            if frame.event == event {
                return frame;
            }
        }
    }

    /// Waits for the end of the stream; frames before it are skipped.
    pub(crate) async fn end(&mut self, within: Duration) {
        let rest = async { while self.read().await.is_some() {} };
        timeout(within, rest).await.expect("the end of the stream in time");
    }
}

/// A block's frame; none for comments and `retry`.
fn parse(block: &str) -> Option<Frame> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if block.lines().all(|line| line.is_empty() || line.starts_with(':') || line.starts_with("retry: ")) {
        return None;
    }
    let (event, raw) = (field("event").unwrap().to_owned(), field("data").unwrap().to_owned());
    let data: Value = serde_json::from_str(&raw).unwrap();
    let id = field("id").map(str::to_owned);
    if event == "stream.gap" {
        assert_eq!(block.lines().filter(|line| !line.is_empty()).count(), 3, "{block}");
        assert_eq!(id.as_deref(), Some(text(&data, "last_cursor")));
    } else if ["stream.cursor", "stream.end"].contains(&event.as_str()) {
        assert_eq!(data, serde_json::json!({"object": "stream_cursor", "cursor": id}));
    } else {
        assert_eq!(event, text(&data, "type"));
        assert_eq!(block, format!("id: {}\nevent: {event}\ndata: {raw}\n\n", id.as_deref().unwrap()));
    }
    Some(Frame { id, event, raw, data })
}

//! Server-Sent Events.

use std::{collections::VecDeque, mem, time::Duration};

/// Maximum length of a line, far above the longest line of the service.
const MAX_LINE: usize = 4 << 20;

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: String,
    pub(crate) retry: Option<Duration>,
}

/// Reads frames from pieces of a body. An empty line ends a frame; an incomplete frame at the end is dropped.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    ready: VecDeque<Frame>,
}

impl Frames {
    /// Adds a piece of the body. Returns false if a line is too long.
    #[must_use]
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                self.read_line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
            } else if self.line.len() > MAX_LINE {
                return false;
            }
        }
        true
    }

    /// Returns the next complete frame.
    pub(crate) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    fn read_line(&mut self, line: &str) {
        if line.is_empty() {
            let frame = mem::take(&mut self.frame);
            self.has_data = false;
            if frame != Frame::default() {
                self.ready.push_back(frame);
            }
            return;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "retry" => self.frame.retry = value.parse().ok().map(Duration::from_millis),
            // A comment, or a field of a later version.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_from_pieces_of_any_size() {
        let text = ": ping\n\nid: c1\nevent: a\ndata: {\"a\":\"ä\"}\ndata:  b\nretry: 12\n\nretry: x\r\nid: c2\r\n\r\n\
                    event: cut";
        for size in 1..text.len() {
            let mut frames = Frames::default();
            for piece in text.as_bytes().chunks(size) {
                assert!(frames.push(piece));
            }
            let first = frames.pop().unwrap();
            assert_eq!((first.id.as_deref(), first.event.as_str()), (Some("c1"), "a"));
            assert_eq!((first.data.as_str(), first.retry), ("{\"a\":\"ä\"}\n b", Some(Duration::from_millis(12))));
            assert_eq!(frames.pop(), Some(Frame { id: Some("c2".to_owned()), ..Frame::default() }));
            assert_eq!(frames.pop(), None);
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut frames = Frames::default();
        assert!(frames.push(&vec![b'a'; MAX_LINE]));
        assert!(!frames.push(b"a"));
    }
}

//! Parses Server-Sent Events from pieces of any size.

#[cfg(test)]
mod tests;

use std::{mem::take, sync::Arc};

/// One item of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// An event.
    Event(Event),
    /// The end of an event that was too long to be kept.
    TooLong {
        /// The last id that the stream sent.
        id: Option<Arc<str>>,
    },
    /// The reconnect wait in milliseconds.
    Retry(u64),
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The last id that the stream sent. Events share it: a long id before many short events would fill the memory.
    pub id: Option<Arc<str>>,
    /// Its type; empty when the stream sent none.
    pub kind: String,
    /// Its data, unchanged.
    pub data: Vec<u8>,
}

/// A parser with the part of the stream that forms no item yet.
#[derive(Debug)]
pub struct Parser {
    /// Maximum bytes of an event's data and the current line, the field's name included.
    max_bytes: usize,
    line: Vec<u8>,
    /// True while the rest of the line is dropped.
    skips_line: bool,
    /// True if the last byte was a CR: an LF after it ends no other line.
    after_cr: bool,
    /// True once the first line has ended; a byte order mark may precede it.
    began: bool,
    id: Option<Arc<str>>,
    kind: String,
    /// None before the event's first line of data.
    data: Option<Vec<u8>>,
    is_too_long: bool,
}

impl Parser {
    /// A parser of a new stream. It keeps at most `max_bytes` of an event.
    pub const fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            skips_line: false,
            after_cr: false,
            began: false,
            id: None,
            kind: String::new(),
            data: None,
            is_too_long: false,
        }
    }

    /// Reads the next piece of the stream; returns the completed items.
    pub fn read(&mut self, piece: &[u8]) -> Vec<StreamItem> {
        let mut items = Vec::new();
        let mut rest = piece;
        while let Some(first) = rest.first() {
            if take(&mut self.after_cr) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.keep(rest);
                break;
            };
            self.keep(&rest[..end]);
            self.after_cr = rest[end] == b'\r';
            items.extend(self.end_line());
            rest = &rest[end + 1..];
        }
        items
    }

    /// Keeps a part of a line. A later line of an event that is too long may still have an id.
    fn keep(&mut self, part: &[u8]) {
        if self.skips_line {
            return;
        }
        let length = self.line.len() + part.len();
        if length + self.data.as_ref().map_or(0, Vec::len) > self.max_bytes {
            self.is_too_long = true;
            self.data = None;
        }
        if length > self.max_bytes {
            self.skips_line = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) -> Option<StreamItem> {
        let line = take(&mut self.line);
        let is_first = !self.began;
        self.began = true;
        if take(&mut self.skips_line) {
            return None;
        }
        let mut rest = line.as_slice();
        if is_first {
            rest = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
        }
        if rest.is_empty() {
            return self.end_event();
        }
        let (field, value) = match rest.iter().position(|byte| *byte == b':') {
            Some(colon) => (&rest[..colon], &rest[colon + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" if self.is_too_long => {}
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.kind = text(value),
            b"id" if !value.contains(&0) => self.id = Some(text(value).into()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => return text(value).parse().ok().map(StreamItem::Retry),
            // A comment, whose field is empty, or a field of the future.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<StreamItem> {
        let kind = take(&mut self.kind);
        if take(&mut self.is_too_long) {
            return Some(StreamItem::TooLong { id: self.id.clone() });
        }
        let data = self.data.take()?;
        Some(StreamItem::Event(Event { id: self.id.clone(), kind, data }))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

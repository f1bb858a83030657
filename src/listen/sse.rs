//! Reads Server-Sent Events, whatever the pieces in which they come.

#[cfg(test)]
mod tests;

use std::mem::take;

/// Most bytes of one event: 4 MiB.
const MOST: usize = 4 * 1024 * 1024;

/// What a stream tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// An event.
    Event(Event),
    /// Milliseconds to wait before the stream is opened again.
    Retry(u64),
}

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The last id that the stream told.
    pub(super) id: Option<String>,
    /// Its type; empty when the stream told none.
    pub(super) kind: String,
    /// Its data, as it came.
    pub(super) data: Vec<u8>,
}

/// An event that is too long to be kept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream tells an event of more than 4 MiB")]
pub(super) struct TooLong;

/// The part of a stream that was read and not yet told.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// Whether the last byte was a CR: an LF after it ends no other line.
    after_cr: bool,
    /// Whether the first line, before which a byte order mark may stand, has ended.
    began: bool,
    id: Option<String>,
    kind: String,
    /// None before the event's first line of data.
    data: Option<Vec<u8>>,
}

impl Parser {
    /// Reads the next piece of the stream; gives what is whole by then.
    pub(super) fn read(&mut self, piece: &[u8]) -> Result<Vec<Told>, TooLong> {
        let mut told = Vec::new();
        for &byte in piece {
            match byte {
                b'\n' if self.after_cr => {}
                b'\n' | b'\r' => told.extend(self.end_line()),
                _ => self.line.push(byte),
            }
            self.after_cr = byte == b'\r';
            if self.line.len() + self.data.as_ref().map_or(0, Vec::len) > MOST {
                return Err(TooLong);
            }
        }
        Ok(told)
    }

    fn end_line(&mut self) -> Option<Told> {
        let line = take(&mut self.line);
        let mut rest = line.as_slice();
        if !self.began {
            self.began = true;
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
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.kind = text(value),
            b"id" if !value.contains(&0) => self.id = Some(text(value)),
            b"retry" if value.iter().all(u8::is_ascii_digit) => return text(value).parse().ok().map(Told::Retry),
            // A comment, whose field is empty, or a field of the future.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Told> {
        let kind = take(&mut self.kind);
        let data = self.data.take()?;
        Some(Told::Event(Event { id: self.id.clone(), kind, data }))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

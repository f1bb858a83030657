//! Stream cursors: opaque text that names a position in each log a key reads, the same on every replica and transport.
//!
//! A log's name includes its generation, which changes when a store is restored or a log is copied. So a cursor of another
//! generation is as invalid as one of another view.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use sha2::{Digest as _, Sha256};

const VERSION: u8 = 1;
const TAG_LEN: usize = 8;
const VARINT_MAX: usize = 10;

/// Positions in the logs of a view, in the view's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    /// The sequence number of the last entry read, per log.
    pub positions: Vec<u64>,
}

impl StreamCursor {
    /// The cursor's text. A view is the names of the logs that are read, generations included.
    #[must_use]
    pub fn encode(&self, view: &[String]) -> String {
        CursorEncoder::new(view).encode(&self.positions)
    }

    /// Reads a cursor; none if it is malformed or of another view.
    #[must_use]
    pub fn decode(text: &str, view: &[String]) -> Option<Self> {
        let max_bytes = 1 + TAG_LEN + VARINT_MAX * view.len();
        if text.len() > max_bytes.div_ceil(3) * 4 {
            return None;
        }
        let bytes = BASE64.decode(text).ok()?;
        let mut rest = bytes.strip_prefix(&CursorEncoder::new(view).head)?;
        let positions = view.iter().map(|_| read_varint(&mut rest)).collect::<Option<_>>()?;
        rest.is_empty().then_some(Self { positions })
    }
}

/// Writes cursors of one view.
#[derive(Clone, Debug)]
pub struct CursorEncoder {
    /// Version and the view's tag.
    head: [u8; 1 + TAG_LEN],
}

impl CursorEncoder {
    /// For a view: the names of the logs that are read.
    #[must_use]
    pub fn new(view: &[String]) -> Self {
        let hash = Sha256::digest(view.join("\n"));
        let mut head = [VERSION; 1 + TAG_LEN];
        head[1..].copy_from_slice(&hash[..TAG_LEN]);
        Self { head }
    }

    /// The text of a cursor with one position per log, in the view's order.
    #[must_use]
    pub fn encode(&self, positions: &[u64]) -> String {
        let mut text = String::new();
        self.encode_to(positions, &mut text);
        text
    }

    /// Appends the text of a cursor.
    pub fn encode_to(&self, positions: &[u64], text: &mut String) {
        let mut bytes = Vec::with_capacity(self.head.len() + VARINT_MAX * positions.len());
        bytes.extend_from_slice(&self.head);
        for &position in positions {
            write_varint(position, &mut bytes);
        }
        BASE64.encode_string(bytes, text);
    }
}

fn write_varint(mut value: u64, bytes: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).expect("7 bits");
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

/// Reads a LEB128 number in its shortest form, so that each cursor has one text.
fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && low > 1 {
            return None;
        }
        value |= low << shift;
        if byte & 0x80 == 0 {
            return (byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn view(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn raw(view: &[String], tail: &[u8]) -> String {
        let mut bytes = CursorEncoder::new(view).head.to_vec();
        bytes.extend_from_slice(tail);
        BASE64.encode(bytes)
    }

    #[test]
    fn has_one_form() {
        let live = view(&["live"]);
        let cursor = StreamCursor { positions: vec![300] };
        assert_eq!(cursor.encode(&live), "ASR2EPTe3Uq3rAI");
        assert_eq!(StreamCursor::decode("ASR2EPTe3Uq3rAI", &live), Some(cursor));
    }

    #[test]
    fn refuses_foreign_cursors() {
        let live = view(&["live"]);
        let text = StreamCursor { positions: vec![5] }.encode(&live);
        assert!(StreamCursor::decode(&text, &live).is_some());
        assert_eq!(StreamCursor::decode(&text, &view(&["sandbox"])), None);
        assert_eq!(StreamCursor::decode(&text, &view(&["live", "sandbox"])), None);
        assert_eq!(StreamCursor::decode(&text, &view(&["live@gen_2"])), None);
        assert_eq!(StreamCursor::decode("", &live), None);
        assert_eq!(StreamCursor::decode(&format!("{text}="), &live), None);
        assert_eq!(StreamCursor::decode(&format!("{text} "), &live), None);
        assert_eq!(StreamCursor::decode(&"A".repeat(100_000), &live), None);
        for (tail, expected) in [
            (&[][..], None),
            (&[0], Some(0)),
            (&[0x80, 0], None),
            (&[0x80], None),
            (&[5, 5], None),
            (&[0x85, 0x00], None),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some(u64::MAX)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], None),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00], None),
        ] {
            let decoded = StreamCursor::decode(&raw(&live, tail), &live);
            assert_eq!(decoded.map(|cursor| cursor.positions[0]), expected, "{tail:?}");
        }
        let mut other_version = CursorEncoder::new(&live).head.to_vec();
        other_version[0] = 2;
        other_version.push(5);
        assert_eq!(StreamCursor::decode(&BASE64.encode(other_version), &live), None);
    }

    proptest! {
        #[test]
        fn round_trips(logs in prop::collection::vec(("[a-z/0-9]{1,12}", any::<u64>()), 1..6)) {
            let (view, positions): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
            let cursor = StreamCursor { positions };
            let text = cursor.encode(&view);
            prop_assert!(text.len() <= 512);
            prop_assert_eq!(StreamCursor::decode(&text, &view), Some(cursor));
        }

        #[test]
        fn what_decodes_is_canonical(tail in prop::collection::vec(any::<u8>(), 0..24)) {
            let view = view(&["sandbox", "project/a"]);
            let text = raw(&view, &tail);
            if let Some(cursor) = StreamCursor::decode(&text, &view) {
                prop_assert_eq!(cursor.encode(&view), text);
            }
        }

        #[test]
        fn garbage_is_refused(text in "\\PC{0,60}|[A-Za-z0-9_-]{0,60}") {
            prop_assert_eq!(StreamCursor::decode(&text, &view(&["live"])), None);
        }
    }
}

//! Keys as bytes that sort as their columns do.
//!
//! A text is its UTF-8 closed by 0, with 0 and 1 escaped; an integer is 8 bytes, big endian, its sign flipped. No column's
//! bytes are the beginning of another's, so a prefix of the columns is a prefix of the bytes.

use std::ops::Bound;

use crate::store::{Column, ColumnKind, Scan, Value};

const END: u8 = 0;
const ESCAPE: u8 = 1;

pub(super) fn encode(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 40);
    append(&mut bytes, values);
    bytes
}

fn append(bytes: &mut Vec<u8>, values: &[Value]) {
    for value in values {
        match value {
            Value::Text(text) => {
                let text = text.as_bytes();
                if text.iter().all(|byte| *byte > ESCAPE) {
                    bytes.extend_from_slice(text);
                } else {
                    for &byte in text {
                        match byte {
                            END | ESCAPE => bytes.extend([ESCAPE, byte + 1]),
                            _ => bytes.push(byte),
                        }
                    }
                }
                bytes.push(END);
            }
            Value::Int(int) => bytes.extend((int ^ i64::MIN).to_be_bytes()),
        }
    }
}

/// The columns back from their bytes; `None` if these are no such columns.
pub(super) fn decode<'c>(mut bytes: &[u8], columns: impl IntoIterator<Item = &'c Column>) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for column in columns {
        match column.kind {
            ColumnKind::Int => {
                let (int, rest) = bytes.split_first_chunk()?;
                values.push(Value::Int(i64::from_be_bytes(*int) ^ i64::MIN));
                bytes = rest;
            }
            ColumnKind::Text => {
                let end = bytes.iter().position(|byte| *byte == END)?;
                let mut text = Vec::with_capacity(end);
                let mut escaped = bytes[..end].iter();
                while let Some(&byte) = escaped.next() {
                    text.push(if byte == ESCAPE { escaped.next()?.checked_sub(1)? } else { byte });
                }
                values.push(Value::Text(String::from_utf8(text).ok()?));
                bytes = &bytes[end + 1..];
            }
        }
    }
    bytes.is_empty().then_some(values)
}

/// The first key above all that begin with this one; `None` where there is no such.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// First key and the bound above the last of a slice; `None` if nothing can lie in it.
pub(super) fn range(scan: &Scan) -> Option<(Vec<u8>, Bound<Vec<u8>>)> {
    let partition = encode(&scan.partition);
    let below = |prefix: &[Value]| {
        let mut bytes = partition.clone();
        append(&mut bytes, prefix);
        bytes
    };
    let above = |bytes| successor(bytes).map_or(Bound::Unbounded, Bound::Excluded);
    let from = match &scan.from {
        Bound::Unbounded => partition.clone(),
        Bound::Included(prefix) => below(prefix),
        Bound::Excluded(prefix) => successor(below(prefix))?,
    };
    let to = match &scan.to {
        Bound::Unbounded => above(partition.clone()),
        Bound::Included(prefix) => above(below(prefix)),
        Bound::Excluded(prefix) => Bound::Excluded(below(prefix)),
    };
    match &to {
        Bound::Excluded(end) if *end <= from => None,
        _ => Some((from, to)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    static COLUMNS: [Column; 3] = [
        Column { name: "a", kind: ColumnKind::Text },
        Column { name: "b", kind: ColumnKind::Int },
        Column { name: "c", kind: ColumnKind::Text },
    ];

    fn key() -> impl Strategy<Value = Vec<Value>> {
        let text = "[\u{0}-\u{3}aé\u{ffff}]{0,3}";
        let int = prop_oneof![any::<i64>(), -2..2i64, Just(i64::MAX), Just(i64::MIN)];
        (text, int, text).prop_map(|(a, b, c)| vec![a.into(), b.into(), c.into()])
    }

    proptest! {
        #[test]
        fn bytes_sort_as_columns_do_and_decode(one in key(), other in key()) {
            prop_assert_eq!(encode(&one).cmp(&encode(&other)), one.cmp(&other));
            prop_assert_eq!(decode(&encode(&one), &COLUMNS), Some(one));
        }
    }

    #[test]
    fn what_is_no_key_does_not_decode() {
        for bytes in [&b""[..], b"a", b"a\0\0\0", b"\x01\0", b"a\0\x80\0\0\0\0\0\0\x01c\0more"] {
            assert_eq!(decode(bytes, &COLUMNS), None, "{bytes:?}");
        }
    }
}

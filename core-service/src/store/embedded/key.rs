//! Keys as bytes that sort as their columns do.
//!
//! `text_encoding` encodes texts. An integer is 8 bytes, big endian, with a flipped sign bit. No column's bytes are a
//! prefix of another's, so a prefix of the columns is a prefix of the bytes.

use std::ops::Bound;

use super::text_encoding;
use crate::store::{Column, ColumnKind, Scan, Value};

pub(super) fn encode(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 24);
    append(&mut bytes, values);
    bytes
}

fn append(bytes: &mut Vec<u8>, values: &[Value]) {
    for value in values {
        match value {
            Value::Text(text) => text_encoding::append_text(bytes, text),
            Value::Int(int) => bytes.extend((int ^ i64::MIN).to_be_bytes()),
        }
    }
}

/// Decodes columns; `None` if the bytes do not hold these columns.
pub(super) fn decode<'c>(mut bytes: &[u8], columns: impl IntoIterator<Item = &'c Column>) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for column in columns {
        values.push(match column.kind {
            ColumnKind::Int => {
                let (int, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Value::Int(i64::from_be_bytes(*int) ^ i64::MIN)
            }
            ColumnKind::Text => Value::Text(text_encoding::take_text(&mut bytes)?),
        });
    }
    bytes.is_empty().then_some(values)
}

/// The first key above every key that begins with these bytes; `None` if none is.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// The first key of a slice and the bound above its last; `None` if it must be empty.
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
        let whole = encode(&["a".into(), 1.into(), "c".into()]);
        assert!(decode(&whole, &COLUMNS).is_some());
        for end in 0..whole.len() {
            assert_eq!(decode(&whole[..end], &COLUMNS), None, "{end}");
        }
        assert_eq!(decode(&[whole.as_slice(), b"more"].concat(), &COLUMNS), None);
    }
}

//! Keys as bytes that sort as their columns do.
//!
//! `text_encoding` encodes texts. An integer is its bytes, big endian, without those that only repeat the sign. A byte
//! before them has their number: 0x80 plus it, or 0x7f minus it for a negative integer. No column's bytes are a prefix
//! of another's, so a prefix of the columns is a prefix of the bytes.
//!
//! A dataset at the beginning of a key is encoded as its number. So partitions have another order than their columns,
//! which nothing depends on, since every read stays in one partition.

use std::ops::Bound;

use super::text_encoding;
use crate::store::{Column, ColumnKind, Scan, Table, Value};

/// The dataset with which a key of a table begins; none if the table's keys begin with something else.
pub(super) fn dataset<'v>(table: &Table, columns: &'v [Value]) -> Option<&'v str> {
    (table.partition[0].name == "dataset").then(|| columns.first().map(Value::text)).flatten()
}

/// Encodes columns. The number of a dataset replaces the first one.
pub(super) fn encode(dataset: Option<i64>, columns: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(columns.len() * 20);
    if let Some(number) = dataset {
        append_int(&mut bytes, number);
    }
    append(&mut bytes, &columns[usize::from(dataset.is_some())..]);
    bytes
}

/// The key with a partition's bytes and these clustering columns, or its beginning.
pub(super) fn within(partition: &[u8], clustering: &[Value]) -> Vec<u8> {
    let mut bytes = partition.to_vec();
    append(&mut bytes, clustering);
    bytes
}

fn append(bytes: &mut Vec<u8>, values: &[Value]) {
    for value in values {
        match value {
            Value::Text(text) => text_encoding::append_text(bytes, text),
            Value::Int(int) => append_int(bytes, *int),
        }
    }
}

fn append_int(bytes: &mut Vec<u8>, int: i64) {
    let whole = int.to_be_bytes();
    let sign = if int < 0 { 0xff } else { 0 };
    let first = whole.iter().position(|byte| *byte != sign).unwrap_or(whole.len());
    let rest = &whole[first..];
    bytes.push(if int < 0 { 0x7f - rest.len() as u8 } else { 0x80 + rest.len() as u8 });
    bytes.extend_from_slice(rest);
}

/// Decodes an integer at the beginning of some bytes and removes it; `None` if none begins there.
fn take_int(bytes: &mut &[u8]) -> Option<i64> {
    let (&first, rest) = bytes.split_first()?;
    let (sign, length) = if first < 0x80 { (0xff, 0x7f - first) } else { (0, first - 0x80) };
    let mut whole = [sign; 8];
    let place = whole.len().checked_sub(usize::from(length))?;
    let (int, rest) = rest.split_at_checked(usize::from(length))?;
    whole[place..].copy_from_slice(int);
    *bytes = rest;
    Some(i64::from_be_bytes(whole))
}

/// Decodes columns; `None` if the bytes do not hold these columns.
pub(super) fn decode<'c>(mut bytes: &[u8], columns: impl IntoIterator<Item = &'c Column>) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    for column in columns {
        values.push(match column.kind {
            ColumnKind::Int => Value::Int(take_int(&mut bytes)?),
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
pub(super) fn range(scan: &Scan, partition: &[u8]) -> Option<(Vec<u8>, Bound<Vec<u8>>)> {
    let below = |prefix: &[Value]| within(partition, prefix);
    let above = |bytes| successor(bytes).map_or(Bound::Unbounded, Bound::Excluded);
    let from = match &scan.from {
        Bound::Unbounded => partition.to_vec(),
        Bound::Included(prefix) => below(prefix),
        Bound::Excluded(prefix) => successor(below(prefix))?,
    };
    let to = match &scan.to {
        Bound::Unbounded => above(partition.to_vec()),
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
        (text, int(), text).prop_map(|(a, b, c)| vec![a.into(), b.into(), c.into()])
    }

    /// Integers of every length, and those beside the bounds of a length.
    fn int() -> impl Strategy<Value = i64> {
        let of_length = (0..64_u32, any::<i64>()).prop_map(|(bits, int)| int >> bits);
        let at_bound = (0..64_u32, -2..2_i64).prop_map(|(bits, beside)| (i64::MIN >> bits).wrapping_add(beside));
        prop_oneof![of_length, at_bound.clone(), at_bound.prop_map(|int| !int)]
    }

    proptest! {
        #[test]
        fn bytes_sort_as_columns_do_and_decode(one in key(), other in key()) {
            let (bytes, others) = (encode(None, &one), encode(None, &other));
            prop_assert_eq!(bytes.cmp(&others), one.cmp(&other));
            prop_assert_eq!(decode(&bytes, &COLUMNS), Some(one));
        }

        #[test]
        fn integers_sort_and_none_is_a_prefix_of_another(one in int(), other in int()) {
            let (bytes, others) = (encode(None, &[one.into()]), encode(None, &[other.into()]));
            prop_assert_eq!(bytes.cmp(&others), one.cmp(&other));
            prop_assert!(one == other || !bytes.starts_with(&others));
        }

        #[test]
        fn the_number_of_a_dataset_replaces_its_name(number in 0..i64::MAX, columns in key()) {
            static NUMBER: Column = Column { name: "dataset", kind: ColumnKind::Int };
            let mut expected = columns.clone();
            expected[0] = number.into();
            let numbered = std::iter::once(&NUMBER).chain(&COLUMNS[1..]);
            prop_assert_eq!(decode(&encode(Some(number), &columns), numbered), Some(expected));
        }
    }

    #[test]
    fn small_integers_are_short() {
        let lengths = [(0, 1), (-1, 1), (255, 2), (256, 3), (-256, 2), (-257, 3), (i64::MAX, 9), (i64::MIN, 9)];
        for (int, length) in lengths {
            assert_eq!(encode(None, &[int.into()]).len(), length, "{int}");
        }
    }

    #[test]
    fn what_is_no_key_does_not_decode() {
        let whole = encode(None, &["a".into(), 1.into(), "c".into()]);
        assert!(decode(&whole, &COLUMNS).is_some());
        for end in 0..whole.len() {
            assert_eq!(decode(&whole[..end], &COLUMNS), None, "{end}");
        }
        assert_eq!(decode(&[whole.as_slice(), b"more"].concat(), &COLUMNS), None);
    }
}

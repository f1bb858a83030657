//! A row's value: version, expiry time (0 for none), body. The two numbers are LEB128, the version in zigzag form.

use bytes::Bytes;
use prost::encoding::{decode_varint, encode_varint};

pub(super) struct StoredRow<'a> {
    pub(super) version: i64,
    pub(super) expires_ms: i64,
    pub(super) body: &'a [u8],
}

impl<'a> StoredRow<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, redb::Error> {
        let mut rest = bytes;
        let mut number = || {
            let number = decode_varint(&mut rest);
            number.map_err(|_| redb::Error::Corrupted(format!("a row of {} bytes", bytes.len())))
        };
        let (version, expires) = (number()?, number()?);
        let version = (version >> 1).cast_signed() ^ -(version & 1).cast_signed();
        Ok(Self { version, expires_ms: expires.cast_signed(), body: rest })
    }
}

pub(super) fn encode(version: i64, expires_ms: i64, body: &Bytes) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + body.len());
    encode_varint((version << 1 ^ version >> 63).cast_unsigned(), &mut bytes);
    encode_varint(expires_ms.cast_unsigned(), &mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

/// The version at the beginning of a value, for tools that examine a file.
#[must_use]
pub fn version_of(value: &[u8]) -> Option<i64> {
    StoredRow::decode(value).ok().map(|stored| stored.version)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(version: i64, expires_ms: i64, body in prop::collection::vec(any::<u8>(), 0..9)) {
            let value = encode(version, expires_ms, &Bytes::from(body.clone()));
            let stored = StoredRow::decode(&value).unwrap();
            prop_assert_eq!((stored.version, stored.expires_ms, stored.body), (version, expires_ms, body.as_slice()));
        }
    }

    #[test]
    fn what_is_cut_off_is_no_row() {
        assert!(StoredRow::decode(&[]).is_err());
        assert!(StoredRow::decode(&[2]).is_err());
        assert!(StoredRow::decode(&[0x80; 30]).is_err());
        assert!(StoredRow::decode(&[2, 0]).is_ok());
    }
}

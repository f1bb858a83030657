//! A row's value: version, time of expiry (0 for none), body.

use bytes::Bytes;

const HEAD: usize = 16;

/// A row as stored.
pub(super) struct Stored<'a> {
    pub(super) version: i64,
    pub(super) expires_ms: i64,
    pub(super) body: &'a [u8],
}

impl<'a> Stored<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, redb::Error> {
        let parts = bytes.split_first_chunk().and_then(|(version, rest)| Some((version, rest.split_first_chunk()?)));
        let Some((version, (expires, body))) = parts else {
            return Err(redb::Error::Corrupted(format!("a row of {} bytes", bytes.len())));
        };
        Ok(Self { version: i64::from_be_bytes(*version), expires_ms: i64::from_be_bytes(*expires), body })
    }
}

pub(super) fn encode(version: i64, expires_ms: i64, body: &Bytes) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend(version.to_be_bytes());
    bytes.extend(expires_ms.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

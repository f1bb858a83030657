//! W3C Trace Context: the ids under which one request is found in the logs of all roles, and the spans of those
//! requests that are sampled.
//!
//! A trace gives no rights, so a caller's own id is taken. Its *sampled* flag costs work: only a few a second are
//! obeyed.

mod span;
#[cfg(test)]
mod tests;

use std::{fmt, str};

use http::HeaderMap;
use sha2::{Digest as _, Sha256};

pub use opentelemetry::trace::SpanKind;

pub use self::span::{Sampling, Span, current, enter, install, is_exported, of_delivery, take_dropped, within};
use crate::clock::IdSource;

/// The header, and the metadata, of a trace.
pub const TRACEPARENT: &str = "traceparent";
/// Characters of a header of version 00.
const LENGTH: usize = 55;
/// The flag bit of a recorded trace.
const SAMPLED: u8 = 1;
/// Bytes of a trace as entries of logs keep it, and of randomness for a new one.
pub const STORED: usize = 24;

/// A request's place in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its id, which all roles share.
    pub id: [u8; 16],
    /// The span in which the request was sent, or which it is.
    pub span: [u8; 8],
    /// True if spans are recorded and sent to a collector.
    pub sampled: bool,
}

impl Trace {
    /// Reads `traceparent` as the recommendation says: a header that is wrong in any way counts as none.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let [version] = hex_bytes::<1>(header.get(..2)?)?;
        let is_whole = match version {
            0 => header.len() == LENGTH,
            0xff => false,
            // A future version adds its fields after a dash.
            _ => header.len() == LENGTH || header.get(LENGTH) == Some(&b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|&place| header.get(place) == Some(&b'-'));
        if !is_whole || !dashes {
            return None;
        }
        let (id, span) = (hex_bytes(&header[3..35])?, hex_bytes(&header[36..52])?);
        let [flags] = hex_bytes::<1>(&header[53..LENGTH])?;
        let is_zero = id == [0; 16] || span == [0; 8];
        (!is_zero).then_some(Self { id, span, sampled: flags & SAMPLED != 0 })
    }

    /// Reads the trace of a request's headers. Several of them count as none.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(TRACEPARENT).iter();
        let first = given.next()?;
        if given.next().is_some() { None } else { Self::parse(first.as_bytes()) }
    }

    /// A new trace with a first span, which is not sampled.
    pub fn new(ids: &dyn IdSource) -> Self {
        let mut random = [0; STORED];
        ids.fill(&mut random);
        Self::random(random)
    }

    /// A new trace of random bytes.
    #[must_use]
    pub fn random(mut random: [u8; STORED]) -> Self {
        // Zeros alone would be no id; they come once in 2^64.
        random[0] |= u8::from(random[..16] == [0; 16]);
        random[STORED - 1] |= u8::from(random[16..] == [0; 8]);
        Self::split(&random, false)
    }

    /// The trace of a delivery whose event came with none: the same for all its attempts.
    #[must_use]
    pub fn of_delivery(delivery_id: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(delivery_id.as_bytes()).into();
        Self::split(hash.first_chunk().expect("a hash has 32 bytes"), false)
    }

    /// The header's text.
    #[must_use]
    pub fn header(&self) -> [u8; LENGTH] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut text[3..35], &self.id);
        write_hex(&mut text[36..52], &self.span);
        text[54] |= u8::from(self.sampled);
        text
    }

    /// The header's text, as a string.
    #[must_use]
    pub fn to_header(&self) -> String {
        String::from_utf8_lossy(&self.header()).into_owned()
    }

    /// The bytes that stored rows keep of it: none unless it is sampled.
    #[must_use]
    pub fn to_stored(&self) -> Vec<u8> {
        if self.sampled { [&self.id[..], &self.span].concat() } else { Vec::new() }
    }

    /// The trace that a stored row kept, if any.
    #[must_use]
    pub fn from_stored(stored: &[u8]) -> Option<Self> {
        Some(Self::split(stored.try_into().ok()?, true))
    }

    fn split(bytes: &[u8; STORED], sampled: bool) -> Self {
        let (id, span) = (bytes.first_chunk().expect("16 of 24"), bytes.last_chunk().expect("8 of 24"));
        Self { id: *id, span: *span, sampled }
    }
}

/// The trace's id, as logs name it.
impl fmt::Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        write_hex(&mut text, &self.id);
        formatter.write_str(str::from_utf8(&text).expect("digits are UTF-8"))
    }
}

/// Bytes of lower-case hexadecimal digits; none if they are not `N`.
fn hex_bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower_case = !text.iter().any(u8::is_ascii_uppercase);
    (is_lower_case && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

fn write_hex(text: &mut [u8], bytes: &[u8]) {
    hex::encode_to_slice(bytes, text).expect("two digits a byte");
}

//! W3C Trace Context: the ids under which one request is found in the logs of all roles, and the spans of those
//! requests that are sampled.
//!
//! A trace gives no rights, so a caller's own id is taken. Its *sampled* flag costs work: only a few a second are
//! obeyed.
//!
//! The entry of a request decides whether its trace is sampled, and everything after it follows that decision. Between
//! processes the trace is metadata beside the service credential. From a thesis in a sampled trace it continues in
//! `NewThesis`, `Entry`, `EventRef`, `Delivery` and `ClaimResponse`. Work in another task, such as a writer's, has no
//! separate spans.

mod span;
#[cfg(test)]
mod tests;

use std::{fmt, str};

use http::HeaderMap;
use sha2::{Digest as _, Sha256};

pub use opentelemetry::trace::SpanKind;

pub use self::span::{Sampling, Span, current, enter, install, is_exported, of_delivery, take_dropped, within};
use crate::clock::{IdSource, random};

/// The header, and the metadata, of a trace.
pub const TRACEPARENT: &str = "traceparent";
/// The flag bit of a recorded trace.
const SAMPLED: u8 = 1;
/// Bytes of a trace as entries of logs keep it, and of randomness for a new one.
pub const STORED: usize = 24;

/// A request's place in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its id, which all roles share.
    pub id: u128,
    /// The span in which the request was sent, or which it is.
    pub span: u64,
    /// True if spans are recorded and sent to a collector.
    pub sampled: bool,
}

impl Trace {
    /// Reads `traceparent` as the recommendation says: a header that is wrong in any way counts as none.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let mut fields = str::from_utf8(header).ok()?.splitn(5, '-');
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let mut digits = |length| fields.next().filter(|field| field.len() == length && field.bytes().all(is_digit));
        let (version, id, span, flags) = (digits(2)?, digits(32)?, digits(16)?, digits(2)?);
        // A future version adds its fields after a dash.
        if version == "ff" || version == "00" && fields.next().is_some() {
            return None;
        }
        let (id, span) = (u128::from_str_radix(id, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (id != 0 && span != 0).then_some(Self { id, span, sampled: flags & SAMPLED != 0 })
    }

    /// Reads the trace of a request's headers. Several of them count as none.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(TRACEPARENT).iter();
        let first = given.next()?;
        if given.next().is_some() { None } else { Self::parse(first.as_bytes()) }
    }

    /// A new trace with a first span, which is not sampled.
    pub fn new(ids: &dyn IdSource) -> Self {
        Self::random(random(ids))
    }

    /// A new trace of random bytes.
    pub fn random(mut random: [u8; STORED]) -> Self {
        // Zeros alone would be no id; they come once in 2^64.
        random[0] |= u8::from(random[..16] == [0; 16]);
        random[STORED - 1] |= u8::from(random[16..] == [0; 8]);
        Self::split(&random, false)
    }

    /// The trace of a delivery whose event came with none: the same for all its attempts.
    pub fn of_delivery(delivery_id: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(delivery_id.as_bytes()).into();
        Self::split(hash.first_chunk().expect("a hash has 32 bytes"), false)
    }

    /// The header's text.
    pub fn header(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.id, self.span, u8::from(self.sampled))
    }

    /// The bytes that stored rows keep of it: none unless it is sampled.
    pub fn to_stored(&self) -> Vec<u8> {
        if self.sampled { [&self.id.to_be_bytes()[..], &self.span.to_be_bytes()].concat() } else { Vec::new() }
    }

    /// The trace that a stored row kept, if any.
    pub fn from_stored(stored: &[u8]) -> Option<Self> {
        Some(Self::split(stored.try_into().ok()?, true))
    }

    fn split(bytes: &[u8; STORED], sampled: bool) -> Self {
        let (id, span) = (bytes.first_chunk().expect("16 of 24"), bytes.last_chunk().expect("8 of 24"));
        Self { id: u128::from_be_bytes(*id), span: u64::from_be_bytes(*span), sampled }
    }
}

/// The trace's id, as logs name it.
impl fmt::Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.id)
    }
}

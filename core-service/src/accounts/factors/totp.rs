//! Codes of authenticator apps: RFC 6238 with SHA-1, six digits and steps of 30 seconds, which every app knows.

use ring::hmac;
use subtle::ConstantTimeEq as _;

/// Bytes of a secret, as RFC 4226 recommends.
pub const SECRET: usize = 20;
const STEP_MS: i64 = 30_000;
/// Number of steps before and after the current one whose codes are accepted, because clocks differ.
const TOLERANCE: i64 = 1;
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The code of a step.
pub(super) fn code(secret: &[u8], step: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let hash = tag.as_ref();
    let offset = hash.last().map_or(0, |byte| usize::from(byte & 15));
    let number = hash[offset..offset + 4].iter().fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    format!("{:06}", (number & 0x7fff_ffff) % 1_000_000)
}

/// Finds the step of a code, if it is later than the step of the last used code.
pub fn matching_step(secret: &[u8], given: &str, now_ms: i64, last_step: i64) -> Option<i64> {
    let given: String = given.chars().filter(|letter| !letter.is_whitespace()).collect();
    let now = now_ms.div_euclid(STEP_MS);
    let is_it = |step: &i64| bool::from(code(secret, *step).as_bytes().ct_eq(given.as_bytes()));
    (now - TOLERANCE..=now + TOLERANCE).filter(|step| *step > last_step).find(is_it)
}

/// The secret in Base32, as people type it into an app.
pub fn base32(secret: &[u8]) -> String {
    let mut text = String::new();
    for chunk in secret.chunks(5) {
        let mut bytes = [0; 8];
        bytes[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(bytes);
        let digits = (chunk.len() * 8).div_ceil(5);
        text.extend((0..digits).map(|at| char::from(BASE32[((bits >> (35 - 5 * at)) & 31) as usize])));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the test vectors in RFC 6238.
    const SECRET: &[u8] = b"12345678901234567890";

    #[test]
    fn codes_are_those_of_the_standard() {
        for (seconds, expected) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code(SECRET, seconds / 30), expected);
        }
    }

    #[test]
    fn a_code_works_once_and_up_to_half_a_minute_early_or_late() {
        let now_ms = 1_111_111_111_000;
        let step = now_ms / STEP_MS;
        for (at, is_right) in [(-2, false), (-1, true), (0, true), (1, true), (2, false)] {
            let given = code(SECRET, step + at);
            assert_eq!(matching_step(SECRET, &given, now_ms, 0), is_right.then_some(step + at), "{at}");
        }
        assert_eq!(matching_step(SECRET, " 050 471 ", now_ms, step - 1), Some(step));
        assert_eq!(matching_step(SECRET, "050471", now_ms, step), None, "it was used");
        for wrong in ["", "50471", "0504710", "abcdef", "０５０４７１"] {
            assert_eq!(matching_step(SECRET, wrong, now_ms, 0), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_written_in_base32() {
        assert_eq!(base32(SECRET), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!((base32(b"f").as_str(), base32(b"foob").as_str()), ("MY", "MZXW6YQ"));
    }
}

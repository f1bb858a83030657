//! Ids. Wherever possible they derive from the thing that they name, so that a repeated action gives the same id.

use sha2::{Digest as _, Sha256};
use thesis_net::clock::IdSource;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Bytes of an id; 15 give 24 characters without padding and 120 bits.
const BYTES: usize = 15;

/// Derives an id from its parts; parts are length-prefixed, so that no two lists of parts collide.
#[must_use]
pub fn derive(prefix: &str, parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(prefix);
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    encode(prefix, &hasher.finalize()[..BYTES])
}

/// Creates a random id.
pub fn random(prefix: &str, ids: &dyn IdSource) -> String {
    let mut bytes = [0; BYTES];
    ids.fill(&mut bytes);
    encode(prefix, &bytes)
}

/// Derives an id from a seed; without one it is random.
pub fn seeded(prefix: &str, seed: Option<&str>, ids: &dyn IdSource) -> String {
    seed.map_or_else(|| random(prefix, ids), |seed| derive(prefix, &[seed]))
}

/// The id of the profile with an upstream user id.
#[must_use]
pub fn of_profile(dataset: &str, upstream_id: &str) -> String {
    derive("fp_", &[dataset, "upstream", upstream_id])
}

/// The id of the token at an address.
#[must_use]
pub fn of_token(dataset: &str, chain: &str, address: &str) -> String {
    derive("tk_", &[dataset, chain, address])
}

/// The id of the thesis with an upstream id.
#[must_use]
pub fn of_thesis(dataset: &str, upstream_id: &str) -> String {
    derive("th_", &[dataset, "upstream", upstream_id])
}

/// Creates a unique seed. It contains its time, in unix milliseconds.
pub fn seed(now_ms: i64, ids: &dyn IdSource) -> String {
    format!("{}_{}", random("seed_", ids), number(now_ms, 10))
}

/// Parses the time of a seed; none if the seed has another form.
#[must_use]
pub fn time_of_seed(seed: &str) -> Option<i64> {
    read_number(seed.strip_prefix("seed_")?.split_once('_')?.1)
}

/// A number of at most `chars` × 5 bits as text that sorts as the numbers do; a negative one counts as 0.
#[must_use]
pub fn number(value: i64, chars: usize) -> String {
    let value = value.max(0).unsigned_abs();
    (0..chars).rev().map(|position| char::from(ALPHABET[(value >> (5 * position)) as usize & 31])).collect()
}

/// Parses a number that [`number`] wrote.
#[must_use]
pub fn read_number(text: &str) -> Option<i64> {
    text.bytes().try_fold(0_i64, |value, byte| {
        let digit = ALPHABET.iter().position(|letter| *letter == byte)?;
        value.checked_mul(32)?.checked_add(i64::try_from(digit).ok()?)
    })
}

/// Writes each five bytes as eight characters. The number of bytes must be a multiple of five.
pub(super) fn encode(prefix: &str, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(prefix.len() + bytes.len() * 8 / 5);
    text.push_str(prefix);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[((held >> bits) & 31) as usize]));
        }
    }
    text
}

/// Reads the bytes that [`encode`] wrote; none for a text of another length or with other characters.
pub(super) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() * 5 != N * 8 {
        return None;
    }
    let mut bytes = [0; N];
    for (group, part) in bytes.chunks_mut(5).enumerate() {
        let value = read_number(text.get(8 * group..8 * (group + 1))?)?;
        part.copy_from_slice(&value.to_be_bytes()[3..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_and_sort() {
        for value in [0, 1, 31, 32, 1_780_315_200_123] {
            assert_eq!(read_number(&number(value, 10)), Some(value));
        }
        assert!(number(31, 10) < number(32, 10));
        assert_eq!((read_number("u"), read_number("zzzzzzzzzzzzzz")), (None, None));
    }

    #[test]
    fn derived_ids_are_stable_and_depend_on_every_part() {
        let id = derive("th_", &["live", "42"]);
        assert_eq!(id, derive("th_", &["live", "42"]));
        assert_eq!(id.len(), 3 + 24);
        assert_ne!(id, derive("th_", &["live4", "2"]));
        assert_ne!(id, derive("th_", &["live", "42", ""]));
    }
}

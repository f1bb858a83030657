//! Ids as two numbers that sort like their texts: 24 characters of 5 bits.

/// The characters of an id, sorted by byte.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Number of characters of a half.
const HALF: usize = 12;

/// Splits an id without its prefix. None when the text is not an id of this service.
pub(super) fn halves(text: &str) -> Option<(u64, u64)> {
    if text.len() != 2 * HALF {
        return None;
    }
    let number = |half: &[u8]| {
        half.iter().try_fold(0, |number, character| Some(number << 5 | ALPHABET.binary_search(character).ok()? as u64))
    };
    let (high, low) = text.as_bytes().split_at(HALF);
    Some((number(high)?, number(low)?))
}

/// Joins the halves of an id.
pub(super) fn join(prefix: &str, (high, low): (u64, u64)) -> String {
    let mut text = String::with_capacity(prefix.len() + 2 * HALF);
    text.push_str(prefix);
    for half in [high, low] {
        text.extend((0..HALF).rev().map(|place| char::from(ALPHABET[(half >> (5 * place) & 31) as usize])));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::derive;

    #[test]
    fn halves_read_back_and_sort_as_the_ids_do() {
        let mut ids: Vec<String> = (0..500).map(|n| derive("th_", &[&n.to_string()])).collect();
        let mut sorted: Vec<(u64, u64)> = ids.iter().map(|id| halves(&id[3..]).unwrap()).collect();
        ids.sort();
        sorted.sort();
        let back: Vec<String> = sorted.into_iter().map(|id| join("th_", id)).collect();
        assert_eq!(back, ids);
        for wrong in ["", "1", "ILOU00000000000000000000", "0000000000000000000000000", "é0000000000000000000000"] {
            assert_eq!(halves(wrong), None, "{wrong}");
        }
    }
}

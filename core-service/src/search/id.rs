//! Ids as two numbers that sort like their texts: 24 characters of 5 bits.

use crate::domain::id::{number, read_number};

/// Number of characters of a half.
const HALF: usize = 12;

/// Splits an id without its prefix. None when the text is not an id of this service.
pub(super) fn halves(text: &str) -> Option<(u64, u64)> {
    let (high, low) = text.split_at_checked(HALF).filter(|(_, low)| low.len() == HALF)?;
    Some((read_number(high)?.unsigned_abs(), read_number(low)?.unsigned_abs()))
}

pub(super) fn join(prefix: &str, (high, low): (u64, u64)) -> String {
    let [high, low] = [high, low].map(|half| number(half.cast_signed(), HALF));
    [prefix, &high, &low].concat()
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

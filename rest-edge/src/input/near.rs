//! Finds the known name that an almost right one means.

/// Most characters by which a name may differ from the one that is meant.
const MOST: usize = 2;

/// The known name that is nearest to a given one, case aside: at most every third character may differ.
pub(super) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.to_lowercase().chars().collect();
    let near = known.into_iter().filter_map(|name| {
        let wanted: Vec<char> = name.to_lowercase().chars().collect();
        let most = MOST.min(given.len().max(wanted.len()) / 3);
        // A name that is much longer or shorter need not be compared.
        (given.len().abs_diff(wanted.len()) <= most)
            .then(|| distance(&given, &wanted))
            .filter(|distance| *distance <= most)
            .map(|distance| (distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How many characters have to be added, left out, replaced or swapped with their neighbour (Damerau and Levenshtein,
/// no stretch changed twice).
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before_last = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, a) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let replaced = last[column] + usize::from(a != b);
            let mut least = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *a == other[column - 1] && one[row - 1] == *b {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = last;
        last = current;
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: [&str; 7] = ["id", "token", "limit", "cursor", "created_after", "created_before", "from_cursor"];

    #[test]
    fn slips_are_near() {
        for (given, meant) in [
            ("tokens", "token"),
            ("Token", "token"),
            ("tokne", "token"),
            ("oken", "token"),
            ("limits", "limit"),
            ("lmit", "limit"),
            ("curser", "cursor"),
            ("createdAfter", "created_after"),
            ("created_befor", "created_before"),
            ("ids", "id"),
        ] {
            assert_eq!(nearest(given, KNOWN), Some(meant), "{given}");
        }
        for other in ["", "x", "q", "is", "from", "colour", "after", "handle", "token_address", &"token".repeat(9_999)]
        {
            assert_eq!(nearest(other, KNOWN), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn one_slip_is_one(name in "[a-zé]{3,9}", place in 0..9_usize, letter in "[a-zé]") {
            let (name, letter): (Vec<char>, char) = (name.chars().collect(), letter.chars().next().unwrap());
            let place = place % name.len();
            let [mut longer, mut shorter, mut other, mut swapped] = [(); 4].map(|()| name.clone());
            longer.insert(place, letter);
            shorter.remove(place);
            other[place] = letter;
            swapped.swap(place, place.saturating_sub(1));
            prop_assert_eq!(distance(&name, &name), 0);
            prop_assert_eq!((distance(&name, &longer), distance(&longer, &name)), (1, 1));
            prop_assert_eq!((distance(&name, &shorter), distance(&shorter, &name)), (1, 1));
            prop_assert!(distance(&name, &other) <= 1 && distance(&name, &swapped) <= 1);
        }
    }
}

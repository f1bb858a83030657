//! Finds the known names that are near to a mistyped one.

/// Maximum number of slips between a given name and the name that was meant.
const MAX_SLIPS: usize = 2;
/// Minimum characters of a prefix that matches a whole name.
pub const MIN_PREFIX: usize = 3;

/// The known name that is nearest to a given one, case aside: at most every third character may differ.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().filter_map(|name| Some((slips(given, name)?, name)));
    near.min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

/// The slips between a given name and a known one, case aside; `None` when they differ too much. A slip adds, omits or
/// replaces a character, or swaps two neighbours.
fn slips(given: &str, known: &str) -> Option<usize> {
    // A text of this length is no name, so the function skips it.
    if given.len() > 4 * (known.len() + MAX_SLIPS) {
        return None;
    }
    let [given, known] = [given, known].map(str::to_lowercase);
    let [length, known_length] = [&given, &known].map(|name| name.chars().count());
    let max_slips = MAX_SLIPS.min(length.max(known_length) / 3);
    // A name that is much longer or shorter need not be compared.
    (length.abs_diff(known_length) <= max_slips)
        .then(|| strsim::osa_distance(&given, &known))
        .filter(|slips| *slips <= max_slips)
}

/// The rank of a known name: its slips from the given one; a name that begins with the given one ranks after those.
/// `None` when they differ too much.
#[must_use]
pub fn rank(given: &str, known: &str) -> Option<usize> {
    let begins = || {
        let given = given.to_lowercase();
        given.chars().nth(MIN_PREFIX - 1).is_some() && known.to_lowercase().starts_with(&given)
    };
    slips(given, known).or_else(|| begins().then_some(MAX_SLIPS + 1))
}

/// A rule with the known name that is nearest to a given one, if one is near.
#[must_use]
pub fn with_nearest<'a>(rule: &str, given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(given, known) {
        Some(meant) => format!("{rule}; did you mean `{meant}`?"),
        None => rule.to_owned(),
    }
}

/// Names as a text: `a`, `a or b`, `a, b or c`.
#[must_use]
pub fn one_of(names: &[String]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
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

    #[test]
    fn a_beginning_is_further_than_a_slip() {
        assert_eq!((rank("alice", "Alice"), rank("alcie", "alice"), rank("ali", "alice")), (Some(0), Some(1), Some(3)));
        assert_eq!((rank("al", "alice"), rank("lice1", "alice"), rank("ice", "alice")), (None, None, None));
    }

    #[test]
    fn a_near_name_is_suggested() {
        let rule = |given| with_nearest("must be of: up, limit", given, ["up", "limit"]);
        assert_eq!(rule("Limits"), "must be of: up, limit; did you mean `limit`?");
        assert_eq!(rule("down"), "must be of: up, limit");
        let listed = |names: &[&str]| one_of(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!((listed(&[]), listed(&["a"])), (String::new(), "a".to_owned()));
        assert_eq!((listed(&["a", "b"]), listed(&["a", "b", "c"])), ("a or b".to_owned(), "a, b or c".to_owned()));
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
            let [name, longer, shorter, other, swapped] =
                [name, longer, shorter, other, swapped].map(|name| name.into_iter().collect::<String>());
            prop_assert_eq!(slips(&name, &name), Some(0));
            prop_assert_eq!((slips(&name, &longer), slips(&longer, &name)), (Some(1), Some(1)));
            prop_assert_eq!((slips(&name, &shorter), slips(&shorter, &name)), (Some(1), Some(1)));
            let is_one = |changed: &str| slips(&name, changed).is_some_and(|slips| slips <= 1);
            prop_assert!(is_one(&other) && is_one(&swapped));
        }
    }
}

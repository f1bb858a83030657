//! Filters of events by text match the same theses as the search.

use thesis_proto::search::{TextFilter, TextIndex};

use super::*;

const TEXT_PIECES: &[&str] = &[
    "a", "b", "ab", "$a", "@b", "to", "moon", "Moon!", "moo", "比特", "币", "👍", "👍🏽", "❤️", "-", "é", "e\u{301}",
    "x.y",
];
const SEARCH_PIECES: &[&str] = &[
    "a",
    "b",
    "a*",
    "ab",
    "-b",
    "$a",
    "to",
    "moon",
    "MOO*",
    "OR",
    "\"a b\"",
    "-\"to moon\"",
    "a-b",
    "a-mo*",
    "比特币",
    "币*",
    "👍",
    "👍🏽",
    "👍*",
    "❤",
    "é",
    "x.y",
    "\"x\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_filter_matches_the_theses_that_the_search_finds(
        texts in prop::collection::vec(prop::collection::vec(prop::sample::select(TEXT_PIECES), 0..7), 1..12),
        searches in prop::collection::vec(prop::collection::vec(prop::sample::select(SEARCH_PIECES), 1..6), 1..16),
    ) {
        let texts: Vec<String> = texts.iter().map(|pieces| pieces.join(" ")).collect();
        let numbers: Vec<String> = (0..texts.len()).map(|number| number.to_string()).collect();
        let known: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let mut log = Log::new();
        for ((name, text), at) in known.iter().zip(&texts).zip(0..) {
            log.say(&Dataset::Live, name, text, at);
        }
        log.index.commit().unwrap();
        for pieces in searches {
            let search = pieces.join(" ");
            let Ok(parsed) = parse(&search) else { continue };
            let mut found = look(&log, &search, &known);
            found.sort();
            let filter = TextFilter::new(std::slice::from_ref(&parsed));
            let mut matched: Vec<String> = known.iter().zip(&texts)
                .filter(|(_, text)| filter.matches(&TextIndex::new(text)))
                .map(|(name, _)| (*name).to_owned())
                .collect();
            matched.sort();
            prop_assert_eq!(found, matched, "{} in {:?}", search, texts);
        }
    }
}

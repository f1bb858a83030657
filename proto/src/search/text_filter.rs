//! The searches of a filter, compiled to be matched with many texts.
//!
//! The searches share a list of their terms. So a term is looked up in a text once, when an item first needs it. An
//! item compares the positions of its terms as bits, those of long words first because long words are rare, and ends as
//! soon as they cannot stand side by side.

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use super::{Item, ParsedSearch, TextIndex, TextKey};

/// The searches of a filter. A text must match any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextFilter {
    /// The words of all terms, one after another.
    words: String,
    terms: Vec<Term>,
    /// The terms of each item, with their places in it.
    places: Vec<Place>,
    items: Vec<CompiledItem>,
    /// The items of each alternative of each search.
    alternatives: Vec<Range<usize>>,
    /// The key that each alternative demands.
    needed_keys: Vec<TextKey>,
}

/// A word, or all words that begin with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// Its bytes in [`TextFilter::words`].
    word: Range<usize>,
    is_prefix: bool,
}

/// A term of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    term: u32,
    /// Number of words before it in the item.
    distance: u32,
}

/// An item of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CompiledItem {
    places: Range<usize>,
    is_excluded: bool,
}

impl TextFilter {
    /// Compiles searches.
    #[must_use]
    pub fn new(searches: &[ParsedSearch]) -> Self {
        let (mut filter, mut known) = (Self::default(), HashMap::new());
        for items in searches.iter().flat_map(|search| &search.alternatives) {
            let first = filter.items.len();
            items.iter().for_each(|item| filter.add_item(item, &mut known));
            filter.alternatives.push(first..filter.items.len());
            filter.needed_keys.push(needed_key(items));
        }
        filter
    }

    fn add_item<'a>(&mut self, item: &'a Item, known: &mut HashMap<(&'a str, bool), u32>) {
        let (first, last) = (self.places.len(), item.words.len() - 1);
        for (index, word) in item.words.iter().enumerate() {
            let (word, is_prefix) = (word.text.as_str(), item.prefix && index == last);
            let term = *known.entry((word, is_prefix)).or_insert_with(|| {
                let start = self.words.len();
                self.words.push_str(word);
                self.terms.push(Term { word: start..self.words.len(), is_prefix });
                self.terms.len() as u32 - 1
            });
            self.places.push(Place { term, distance: index as u32 });
        }
        // Equal terms come one after another: a text that has a term once cannot have it at two places.
        let order = |place: &Place| (Reverse(self.terms[place.term as usize].word.len()), place.term, place.distance);
        self.places[first..].sort_unstable_by_key(order);
        self.items.push(CompiledItem { places: first..self.places.len(), is_excluded: item.excluded });
    }

    /// True if it has no search.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.alternatives.is_empty()
    }

    /// True if one of the searches finds a thesis with this text.
    #[must_use]
    pub fn matches(&self, text: &TextIndex) -> bool {
        let mut positions = TermPositions::new(self, text);
        self.alternatives.iter().any(|items| {
            let mut items = self.items[items.clone()].iter();
            items.all(|item| positions.are_side_by_side(&self.places[item.places.clone()]) != item.is_excluded)
        })
    }

    /// Returns keys such that each matching text has at least one.
    #[must_use]
    pub fn needed_keys(&self) -> &[TextKey] {
        &self.needed_keys
    }

    fn word(&self, term: &Term) -> &str {
        &self.words[term.word.clone()]
    }
}

/// Returns the longest run of words that an alternative demands, or else the longest beginning of a word.
fn needed_key(items: &[Item]) -> TextKey {
    let keys = items.iter().filter(|item| !item.excluded).map(TextKey::needed_by);
    let longest = keys.max_by_key(|(size, key)| (key.is_of_whole_words(), *size));
    longest.expect("a search demands an item in each alternative").1
}

/// A term's positions in a text, as far as they are known.
#[derive(Clone, Copy)]
enum Known {
    Nothing,
    /// The text does not have it.
    Absent,
    /// Its bits begin here in [`TermPositions::bits`].
    At(usize),
}

/// The positions of a filter's terms in one text.
struct TermPositions<'a> {
    filter: &'a TextFilter,
    text: &'a TextIndex,
    /// By term.
    known: Vec<Known>,
    /// For each term that the text has, one bit for each word of the text.
    bits: Vec<u64>,
    /// The positions at which an item may begin.
    begins: Vec<u64>,
}

impl<'a> TermPositions<'a> {
    fn new(filter: &'a TextFilter, text: &'a TextIndex) -> Self {
        let known = vec![Known::Nothing; filter.terms.len()];
        Self { filter, text, known, bits: Vec::new(), begins: Vec::new() }
    }

    /// Returns the place of a term's bits, if the text has the term.
    fn find(&mut self, term: u32) -> Option<usize> {
        let index = term as usize;
        if let Known::Nothing = self.known[index] {
            let (start, term) = (self.bits.len(), &self.filter.terms[index]);
            let is_there = self.text.push_positions(self.filter.word(term), term.is_prefix, &mut self.bits);
            self.known[index] = if is_there { Known::At(start) } else { Known::Absent };
        }
        if let Known::At(start) = self.known[index] { Some(start) } else { None }
    }

    /// True if the text has terms side by side. There is at least one.
    fn are_side_by_side(&mut self, places: &[Place]) -> bool {
        if let [alone] = places {
            return self.find(alone.term).is_some();
        }
        let count = self.text.position_words();
        self.begins.clear();
        self.begins.resize(count, u64::MAX);
        places.iter().all(|place| {
            let Some(start) = self.find(place.term) else { return false };
            keep_before(&mut self.begins, &self.bits[start..start + count], place.distance as usize)
        })
    }
}

/// Keeps a bit only if the bit at this distance after it is in `bits`. Returns whether any is left.
fn keep_before(kept: &mut [u64], bits: &[u64], distance: usize) -> bool {
    let (whole, rest) = (distance / 64, distance % 64);
    let part = |index: usize| bits.get(index).copied().unwrap_or_default();
    let mut left = 0;
    for (index, kept) in kept.iter_mut().enumerate() {
        let next = if rest == 0 { 0 } else { part(index + whole + 1) << (64 - rest) };
        *kept &= (part(index + whole) >> rest) | next;
        left |= *kept;
    }
    left != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            parse,
            words::{Word, words},
        },
        *,
    };

    fn compiled(search: &str) -> TextFilter {
        TextFilter::new(&[parse(search).unwrap()])
    }

    fn matches(search: &str, text: &str) -> bool {
        compiled(search).matches(&TextIndex::new(text))
    }

    /// The rule in its plainest form: an item is words side by side.
    fn plainly_matches(searches: &[ParsedSearch], text: &str) -> bool {
        let said = words(text);
        let is_said = |said: &Word, wanted: &str, is_prefix: bool| {
            let mut forms = [Some(&said.text), said.variant.as_ref()].into_iter().flatten();
            forms.any(|form| if is_prefix { form.starts_with(wanted) } else { form == wanted })
        };
        let has = |item: &Item| {
            said.windows(item.words.len()).any(|side_by_side| {
                let mut pairs = side_by_side.iter().zip(&item.words).zip(1..);
                pairs.all(|((said, wanted), place)| {
                    is_said(said, &wanted.text, item.prefix && place == item.words.len())
                })
            })
        };
        let mut alternatives = searches.iter().flat_map(|search| &search.alternatives);
        alternatives.any(|items| items.iter().all(|item| has(item) != item.excluded))
    }

    #[test]
    fn a_text_is_found_by_its_words() {
        let text = "Buy $RUN at the 比特币 dip, to the 🚀 with 👍🏽!";
        for search in [
            "run",
            "$RUN buy",
            "\"at the\"",
            "\"the 比特\"",
            "特币",
            "di*",
            "\"nope\" OR dip",
            "run -sell",
            "👍",
            "👍🏽",
            "🚀",
            "r*",
            "to-th*",
            "RUN-at",
            "Ｄｉｐ",
        ] {
            assert!(matches(search, text), "{search}");
        }
        for search in [
            "runs",
            "ru",
            "\"the at\"",
            "币特",
            "run -dip",
            "sell OR nope",
            "\"buy at\"",
            "x*",
            "to-di*",
            "👍🏿",
            "buy sell",
        ] {
            assert!(!matches(search, text), "{search}");
        }
    }

    #[test]
    fn any_search_may_match() {
        let filter = |searches: &[&str]| {
            TextFilter::new(&searches.iter().map(|search| parse(search).unwrap()).collect::<Vec<_>>())
        };
        assert!(filter(&[]).is_empty() && !filter(&["a"]).is_empty());
        let text = TextIndex::new("to the moon");
        assert!(!filter(&[]).matches(&text));
        assert!(filter(&["sun", "\"the moon\""]).matches(&text));
        assert!(!filter(&["sun", "\"moon the\""]).matches(&text));
        assert!(!filter(&["to"]).matches(&TextIndex::new("")));
    }

    /// True if the text has a key that the filter needs.
    fn has_needed_key(filter: &TextFilter, text: &TextIndex) -> bool {
        filter.needed_keys().iter().any(|needed| text.keys(needed.kind).contains(needed))
    }

    #[test]
    fn a_search_needs_the_longest_key_of_each_alternative() {
        for (search, count, text, is_there) in [
            ("a moon -everything OR \"to the\"", 2, "a moon", true),
            ("a moon -everything OR \"to the\"", 2, "to the", true),
            ("a moon -everything OR \"to the\"", 2, "a to everything the", false),
            ("moon* sun", 1, "sun", true),
            ("moon* sun", 1, "moons", false),
            ("sun* moons*", 1, "moon", true),
            ("sun OR moo* -x", 2, "mops", true),
            ("sun OR moo* -x", 2, "maps", false),
            ("big-moo*", 1, "moon", false),
            ("\"to the moon\" sun", 1, "the moon", true),
            ("\"to the moon\" cryptocurrency", 1, "the moon", false),
            ("\"a moon\" sun", 1, "a b moon sun", false),
        ] {
            let filter = compiled(search);
            assert_eq!(filter.needed_keys().len(), count, "{search}");
            assert_eq!(has_needed_key(&filter, &TextIndex::new(text)), is_there, "{search} in {text}");
        }
        assert_eq!(TextFilter::new(&[]), TextFilter::default());
    }

    #[test]
    fn long_texts_have_phrases_as_short_ones_do() {
        let text = format!("{} b {}", "a ".repeat(150), "a ".repeat(150));
        let phrase = |before: usize, after: usize| format!("\"{}b {}\"", "a ".repeat(before), "a ".repeat(after));
        for (before, after) in [(0, 0), (63, 0), (64, 64), (0, 65), (128, 127), (150, 150)] {
            assert!(matches(&phrase(before, after), &text), "{before} {after}");
        }
        assert!(!matches(&phrase(151, 0), &text) && !matches(&phrase(0, 151), &text));
        assert!(matches(&format!("\"{}\"", "a ".repeat(150)), &text));
        assert!(!matches(&format!("\"{}\"", "a ".repeat(151)), &text));
    }

    proptest! {
        #[test]
        fn a_phrase_is_words_side_by_side(
            said in prop::collection::vec(prop::sample::select(vec!["a", "$a", "b", "👍🏽", "👍"]), 0..200),
            begin in 0..200_usize, length in 1..100_usize, changed in prop::option::of(0..100_usize),
        ) {
            let within = said.iter().skip(begin).take(length);
            let mut phrase: Vec<&str> = within.map(|word| word.trim_start_matches('$')).collect();
            if let Some(word) = changed.and_then(|place| phrase.get_mut(place)) {
                *word = "b";
            }
            let Ok(parsed) = parse(&format!("\"{}\"", phrase.join(" "))) else { return Ok(()) };
            let (text, searches) = (said.join(" "), [parsed]);
            let is_there = plainly_matches(&searches, &text);
            let (filter, index) = (TextFilter::new(&searches), TextIndex::new(&text));
            prop_assert_eq!(filter.matches(&index), is_there, "{:?} in {}", phrase, text);
            prop_assert!(!is_there || has_needed_key(&filter, &index), "{:?} in {}", phrase, text);
        }

        #[test]
        fn searches_together_match_as_each_one_does(
            searches in prop::collection::vec(
                "[ab]{1,2}( -?[ab]{1,2}| OR [ab]{1,2}|[ab]\\*| -?\"[ab]( [ab]{1,2}){1,3}\"| 👍){0,4}", 0..4,
            ),
            text in "[ab $👍🏽]{0,20}", times in 1..20_usize,
        ) {
            let searches: Vec<ParsedSearch> = searches.iter().filter_map(|search| parse(search).ok()).collect();
            let text = text.repeat(times);
            let (filter, index) = (TextFilter::new(&searches), TextIndex::new(&text));
            prop_assert_eq!(filter.matches(&index), plainly_matches(&searches, &text));
            prop_assert!(!filter.matches(&index) || has_needed_key(&filter, &index));
        }
    }
}

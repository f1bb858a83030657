//! The words of one text. A search matches them in the same way as it matches the index of all texts.

use super::{Item, ParsedSearch, words::words};

/// The words of a text, indexed by their forms.
#[derive(Clone, Debug)]
pub struct TextIndex {
    /// All forms, one after another.
    forms: String,
    /// The occurrences of the forms, sorted by form and position.
    occurrences: Vec<Occurrence>,
    /// Number of words.
    word_count: usize,
}

/// An occurrence of a form: its bytes in [`TextIndex::forms`], and the position of its word in the text.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    start: u32,
    end: u32,
    position: u32,
}

impl TextIndex {
    /// Reads the words of a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let words = words(text);
        let occurrences = Vec::with_capacity(words.len());
        let mut index = Self { forms: String::new(), occurrences, word_count: words.len() };
        for (position, word) in (0..).zip(&words) {
            for form in [Some(&word.text), word.variant.as_ref()].into_iter().flatten() {
                let start = index.forms.len() as u32;
                index.forms.push_str(form);
                index.occurrences.push(Occurrence { start, end: index.forms.len() as u32, position });
            }
        }
        let mut occurrences = std::mem::take(&mut index.occurrences);
        occurrences.sort_unstable_by_key(|occurrence| (index.form(*occurrence), occurrence.position));
        index.occurrences = occurrences;
        index
    }

    /// Returns every form, each once.
    pub fn forms(&self) -> impl Iterator<Item = &str> {
        let mut last = "";
        self.occurrences.iter().map(|occurrence| self.form(*occurrence)).filter(move |form| {
            let is_new = *form != last;
            last = *form;
            is_new
        })
    }

    fn form(&self, occurrence: Occurrence) -> &str {
        &self.forms[occurrence.start as usize..occurrence.end as usize]
    }

    /// Returns the occurrences of a form, sorted by position.
    fn occurrences_of(&self, form: &str) -> &[Occurrence] {
        let rest = &self.occurrences[self.occurrences.partition_point(|occurrence| self.form(*occurrence) < form)..];
        &rest[..rest.partition_point(|occurrence| self.form(*occurrence) == form)]
    }

    /// Returns the occurrences of all forms that begin with a prefix.
    fn occurrences_with_prefix(&self, prefix: &str) -> &[Occurrence] {
        let rest = &self.occurrences[self.occurrences.partition_point(|occurrence| self.form(*occurrence) < prefix)..];
        &rest[..rest.partition_point(|occurrence| self.form(*occurrence).starts_with(prefix))]
    }

    /// True if the text has the words of an item side by side.
    fn has(&self, item: &Item) -> bool {
        let Some((last, before)) = item.words.split_last() else { return false };
        let ends = if item.prefix { self.occurrences_with_prefix(&last.text) } else { self.occurrences_of(&last.text) };
        if before.is_empty() || ends.is_empty() {
            return !ends.is_empty();
        }
        // Text and phrase may repeat a word many times. So read the occurrences of each form once, and compare all
        // positions of the text together.
        let mut before: Vec<(&str, usize)> = before.iter().map(|word| word.text.as_str()).zip(0..).collect();
        before.sort_unstable();
        let mut begins = vec![u64::MAX; self.word_count.div_ceil(64)];
        keep_before(&mut begins, &self.bits(ends), item.words.len() - 1);
        for same in before.chunk_by(|one, other| one.0 == other.0) {
            let occurrences = self.occurrences_of(same[0].0);
            if occurrences.is_empty() {
                return false;
            }
            let bits = self.bits(occurrences);
            same.iter().for_each(|(_, distance)| keep_before(&mut begins, &bits, *distance));
        }
        begins.iter().any(|bits| *bits != 0)
    }

    /// Returns the positions of these occurrences as one bit for each word of the text.
    fn bits(&self, occurrences: &[Occurrence]) -> Vec<u64> {
        let mut bits = vec![0; self.word_count.div_ceil(64)];
        for occurrence in occurrences {
            bits[occurrence.position as usize / 64] |= 1 << (occurrence.position % 64);
        }
        bits
    }
}

/// Keeps a bit only if the bit at this distance after it is in `bits`.
fn keep_before(kept: &mut [u64], bits: &[u64], distance: usize) {
    let (whole, rest) = (distance / 64, distance % 64);
    let part = |index: usize| bits.get(index).copied().unwrap_or_default();
    for (index, kept) in kept.iter_mut().enumerate() {
        let next = if rest == 0 { 0 } else { part(index + whole + 1) << (64 - rest) };
        *kept &= (part(index + whole) >> rest) | next;
    }
}

impl ParsedSearch {
    /// True if the search finds a thesis with this text.
    #[must_use]
    pub fn matches(&self, text: &TextIndex) -> bool {
        self.alternatives.iter().any(|items| items.iter().all(|item| text.has(item) != item.excluded))
    }

    /// Returns words such that each matching text has at least one: the longest word of each alternative, because long
    /// words are rare. None if an alternative requires no whole word.
    #[must_use]
    pub fn needed_words(&self) -> Option<Vec<&str>> {
        let longest = self.alternatives.iter().map(|items| {
            let demanded = items.iter().filter(|item| !item.excluded && whole_words(item) > 0);
            demanded.map(longest_word).max_by_key(|word| word.len())
        });
        longest.collect()
    }
}

/// Returns the number of words of an item that a text must contain whole, not only as a prefix.
fn whole_words(item: &Item) -> usize {
    item.words.len() - usize::from(item.prefix)
}

/// Returns the longest whole word of an item, or an empty text if it has none.
fn longest_word(item: &Item) -> &str {
    let words = item.words[..whole_words(item)].iter().map(|word| word.text.as_str());
    words.max_by_key(|word| word.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::parse, *};

    fn matches(search: &str, text: &str) -> bool {
        parse(search).unwrap().matches(&TextIndex::new(text))
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
    fn a_search_needs_the_longest_whole_word_of_each_alternative() {
        let needed = |search: &str| {
            let parsed = parse(search).unwrap();
            parsed.needed_words().map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(needed("a moon -everything OR \"to the\""), Some(vec!["moon".to_owned(), "the".to_owned()]));
        assert_eq!(needed("moon* sun"), Some(vec!["sun".to_owned()]));
        assert_eq!(needed("big-moo*"), Some(vec!["big".to_owned()]));
        assert_eq!((needed("moon*"), needed("sun OR moon* -x")), (None, None));
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
            let (text, wanted) = (said.join(" "), words(&phrase.join(" ")));
            let is_there = words(&text).windows(wanted.len()).any(|side_by_side| {
                side_by_side.iter().zip(&wanted).all(|(word, wanted)| {
                    word.text == wanted.text || word.variant.as_ref() == Some(&wanted.text)
                })
            });
            prop_assert_eq!(parsed.matches(&TextIndex::new(&text)), is_there, "{:?} in {}", phrase, text);
        }

        #[test]
        fn a_text_that_matches_has_a_needed_word(
            search in "[ab]{1,2}( -?[ab]{1,2}| OR [ab]{1,2}|[ab]\\*| \"[ab] [ab]\"){0,4}", text in "[ab $👍🏽]{0,20}",
        ) {
            let Ok(parsed) = parse(&search) else { return Ok(()) };
            let index = TextIndex::new(&text);
            if parsed.matches(&index) && let Some(needed) = parsed.needed_words() {
                prop_assert!(needed.iter().any(|word| index.forms().any(|form| form == *word)), "{search} {text}");
            }
        }
    }
}

//! Words side by side, as numbers by which an event finds the filters that may match its text. Two runs of words may
//! have the same number: then a filter is compared in vain.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{Item, words::Word};

/// Number of lengths of runs: 1, 2, 4 and so on. So a text has few runs, however long it and the filters are.
pub(crate) const RUN_LENGTHS: usize = 7;
/// Factor of the rolling hash. It is odd, so that no bit of a word is lost.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A run of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WordRun {
    /// Its length is this power of two.
    pub(crate) exponent: u32,
    hash: u64,
}

impl WordRun {
    /// Returns a run that each text with the item has, with its size in bytes: the longest one, because long runs are
    /// rare. None if the item has no whole word.
    pub(super) fn needed_by(item: &Item) -> Option<(usize, Self)> {
        let whole = &item.words[..item.words.len() - usize::from(item.prefix)];
        let exponent = whole.len().checked_ilog2()?.min(RUN_LENGTHS as u32 - 1);
        let size = |run: &[Word]| run.iter().map(|word| word.text.len()).sum::<usize>();
        let (size, run) = whole.windows(1 << exponent).map(|run| (size(run), run)).max_by_key(|(size, _)| *size)?;
        Some((size, Self { exponent, hash: run.iter().fold(0, add_word) }))
    }
}

/// The words of a text, to find its runs.
#[derive(Clone, Debug)]
pub(super) struct TextRuns {
    /// The hashes of its first words: of none, of one, and so on up to all.
    beginnings: Vec<u64>,
}

impl TextRuns {
    pub(super) fn new(words: &[Word]) -> Self {
        let (mut beginnings, mut hash) = (Vec::with_capacity(words.len() + 1), 0);
        beginnings.push(hash);
        for word in words {
            hash = add_word(hash, word);
            beginnings.push(hash);
        }
        Self { beginnings }
    }

    /// Returns the runs of a length, each once.
    pub(super) fn of_length(&self, exponent: u32) -> impl Iterator<Item = WordRun> {
        let length = 1 << exponent;
        let factor = FACTOR.wrapping_pow(length);
        let ends = self.beginnings.iter().skip(length as usize);
        let hashes = self.beginnings.iter().zip(ends).map(|(begin, end)| end.wrapping_sub(begin.wrapping_mul(factor)));
        let mut hashes: Vec<u64> = hashes.collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.into_iter().map(move |hash| WordRun { exponent, hash })
    }
}

/// Returns the hash of words with one more word.
fn add_word(words: u64, word: &Word) -> u64 {
    // A search for an emoji finds it with any skin tone, but no search finds a sigil with its word.
    let plain = word.variant.as_deref().filter(|variant| !variant.starts_with(['@', '$']));
    let mut hasher = DefaultHasher::new();
    plain.unwrap_or(&word.text).hash(&mut hasher);
    words.wrapping_mul(FACTOR).wrapping_add(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::{super::words::words, *};

    /// True if a text has the run that each text with this item has.
    fn has(text: &str, item: &str, prefix: bool) -> bool {
        let item = Item { words: words(item), exact: None, excluded: false, prefix };
        let (_, needed) = WordRun::needed_by(&item).unwrap();
        TextRuns::new(&words(text)).of_length(needed.exponent).any(|run| run == needed)
    }

    #[test]
    fn a_text_has_runs_of_its_words_in_order() {
        let text = "the moon, the $SUN and 👍🏽 the moon";
        for item in ["moon", "the moon", "moon the sun", "sun and 👍", "and 👍🏽", "the moon the sun and"] {
            assert!(has(text, item, false), "{item}");
        }
        for item in ["mars", "moon moon", "sun the", "the sun moon", "and 👍 the sun"] {
            assert!(!has(text, item, false), "{item}");
        }
        assert!(has(text, "the moo", true) && !has("moo", "the moo", true), "the last word is a prefix");
    }

    #[test]
    fn an_item_needs_its_longest_run() {
        let needed = |item: &str, prefix| {
            let item = Item { words: words(item), exact: None, excluded: false, prefix };
            WordRun::needed_by(&item).map(|(size, run)| (size, run.exponent))
        };
        assert_eq!(needed("moon", false), Some((4, 0)));
        assert_eq!(needed("to the moon", false), Some((7, 1)));
        assert_eq!((needed("to the moon", true), needed("moon", true)), (Some((5, 1)), None));
        assert_eq!(needed(&"a ".repeat(200), false), Some((64, 6)));
    }

    #[test]
    fn a_text_has_each_run_once() {
        let count = |text: &str, exponent| TextRuns::new(&words(text)).of_length(exponent).count();
        let repeated = "a b ".repeat(100);
        assert_eq!([0, 1, 6].map(|exponent| count(&repeated, exponent)), [2, 2, 2]);
        assert_eq!([0, 1, 2].map(|exponent| count("a b c", exponent)), [3, 2, 0]);
        assert_eq!(count("", 0), 0);
    }
}

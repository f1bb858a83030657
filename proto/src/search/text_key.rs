//! Keys of texts. A key is the hash of words side by side, or of the first characters of a word. All texts that match
//! an alternative of a search have one key in common, by which an event finds the filters that may match its text. Two
//! keys may have the same hash: then a filter is compared in vain.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{
    Item,
    words::{Word, is_skin_tone},
};

/// Number of lengths of runs of words: 1, 2, 4 and so on. So a text has few keys, however long it and the filters are.
const RUN_LENGTHS: u32 = 7;
/// Number of lengths of beginnings in characters: 1, 2, 4 and so on.
const BEGINNING_LENGTHS: u32 = 8;
/// Number of kinds of keys: runs by their length, then beginnings by theirs.
pub(crate) const KEY_KINDS: usize = (RUN_LENGTHS + BEGINNING_LENGTHS) as usize;
/// Factor of the rolling hash. It is odd, so that no bit of a word is lost.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A run of words, or the beginning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextKey {
    /// Less than [`KEY_KINDS`].
    pub(crate) kind: u32,
    hash: u64,
}

impl TextKey {
    /// Returns a key that each text with the item has, with its size in bytes. It is the longest run of whole words,
    /// because long runs are rare, or else the beginning of the item's only word.
    pub(super) fn needed_by(item: &Item) -> (usize, Self) {
        let whole = &item.words[..item.words.len() - usize::from(item.prefix)];
        let size = |run: &[Word]| run.iter().map(|word| word.text.len()).sum::<usize>();
        let kind = whole.len().checked_ilog2().unwrap_or_default().min(RUN_LENGTHS - 1);
        let longest = whole.windows(1 << kind).map(|run| (size(run), run)).max_by_key(|(size, _)| *size);
        if let Some((size, run)) = longest {
            return (size, Self { kind, hash: run.iter().fold(0, add_word) });
        }
        let prefix = item.words[0].text.as_str();
        let exponent = prefix.chars().count().checked_ilog2().unwrap_or_default().min(BEGINNING_LENGTHS - 1);
        let beginning = beginning(prefix, exponent).unwrap_or_default();
        (beginning.len(), Self { kind: RUN_LENGTHS + exponent, hash: hash_of(beginning) })
    }

    /// True for a run of words, false for the beginning of one.
    pub(crate) const fn is_of_whole_words(&self) -> bool {
        self.kind < RUN_LENGTHS
    }

    /// Returns the keys of a kind that a text has, each once.
    pub(super) fn all_of<'a>(kind: u32, runs: &TextRuns, forms: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let mut hashes: Vec<u64> = match kind.checked_sub(RUN_LENGTHS) {
            None => runs.of_length(1 << kind),
            Some(exponent) => forms.filter_map(|form| beginning(form, exponent)).map(hash_of).collect(),
        };
        hashes.sort_unstable();
        hashes.dedup();
        hashes.into_iter().map(|hash| Self { kind, hash }).collect()
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

    /// Its size in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.beginnings.capacity() * size_of::<u64>()
    }

    /// Returns the hashes of the runs of a length.
    fn of_length(&self, length: u32) -> Vec<u64> {
        let factor = FACTOR.wrapping_pow(length);
        let ends = self.beginnings.iter().skip(length as usize);
        let runs = self.beginnings.iter().zip(ends);
        runs.map(|(begin, end)| end.wrapping_sub(begin.wrapping_mul(factor))).collect()
    }
}

/// Returns the first characters of a word, as many as this power of two. None if it has fewer.
fn beginning(word: &str, exponent: u32) -> Option<&str> {
    let mut ends = word.char_indices().map(|(at, _)| at).chain([word.len()]);
    Some(&word[..ends.nth(1 << exponent)?])
}

/// Returns the hash of words with one more word.
fn add_word(words: u64, word: &Word) -> u64 {
    let mut hasher = DefaultHasher::new();
    // A search for an emoji finds it with any skin tone.
    word.text.chars().filter(|c| !is_skin_tone(*c)).for_each(|c| c.hash(&mut hasher));
    words.wrapping_mul(FACTOR).wrapping_add(hasher.finish())
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{super::words::words, *};

    fn item(text: &str, prefix: bool) -> Item {
        Item { words: words(text), exact: None, excluded: false, prefix }
    }

    fn keys(text: &str, kind: u32) -> Vec<TextKey> {
        let words = words(text);
        let forms = words.iter().flat_map(|word| [Some(&word.text), word.variant.as_ref()]).flatten();
        TextKey::all_of(kind, &TextRuns::new(&words), forms.map(String::as_str))
    }

    /// True if a text has the key that each text with this item has.
    fn has(text: &str, item: &Item) -> bool {
        let (_, needed) = TextKey::needed_by(item);
        keys(text, needed.kind).contains(&needed)
    }

    #[test]
    fn a_text_has_runs_of_its_words_in_order() {
        let text = "the moon, the $SUN and 👍🏽 the moon";
        for run in ["moon", "the moon", "moon the sun", "sun and 👍", "and 👍🏽", "the moon the sun and"] {
            assert!(has(text, &item(run, false)), "{run}");
        }
        for run in ["mars", "moon moon", "sun the", "the sun moon", "and 👍 the sun"] {
            assert!(!has(text, &item(run, false)), "{run}");
        }
        // A symbol may have the character of a sigil.
        for run in ["a $\u{fe0f}", "$\u{fe0f} b", "a $\u{fe0f}\u{1f3fb} b"] {
            assert!(has("a $\u{fe0f}\u{1f3fb} b", &item(run, false)), "{run}");
        }
        assert!(has(text, &item("the moo", true)) && !has("moo", &item("the moo", true)), "the last word is a prefix");
    }

    #[test]
    fn a_text_has_beginnings_of_its_words() {
        let text = "to the $MOON with 👍🏽 über";
        for prefix in ["t", "moo", "moon", "wi", "👍", "👍🏽", "übe", "über"] {
            assert!(has(text, &item(prefix, true)), "{prefix}");
        }
        for prefix in ["x", "oon", "moos", "🚀", "ub"] {
            assert!(!has(text, &item(prefix, true)), "{prefix}");
        }
        assert!(has(text, &item("moonlit", true)), "only four characters are compared");
    }

    #[test]
    fn an_item_needs_its_longest_run() {
        let needed = |text: &str, prefix| {
            let (size, key) = TextKey::needed_by(&item(text, prefix));
            (size, key.kind)
        };
        assert_eq!(needed("moon", false), (4, 0));
        assert_eq!(needed("to the moon", false), (7, 1));
        assert_eq!(needed("to the moon", true), (5, 1));
        assert_eq!(needed(&"a ".repeat(200), false), (64, 6));
        assert_eq!([needed("m", true), needed("moons", true)], [(1, RUN_LENGTHS), (4, RUN_LENGTHS + 2)]);
        assert_eq!(needed(&"é".repeat(200), true), (256, RUN_LENGTHS + 7));
    }

    #[test]
    fn a_text_has_each_key_once() {
        let count = |text: &str, kind| keys(text, kind).len();
        let repeated = "a b ".repeat(100);
        assert_eq!([0, 1, 6].map(|kind| count(&repeated, kind)), [2, 2, 2]);
        assert_eq!([0, 1, 2].map(|kind| count("a b c", kind)), [3, 2, 0]);
        assert_eq!([0, 1, 2].map(|exponent| count("abc abd x", RUN_LENGTHS + exponent)), [2, 1, 0]);
        assert_eq!(count("", 0), 0);
    }
}

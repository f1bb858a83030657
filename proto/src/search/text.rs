//! The words of one text. A filter matches them in the same way as a search matches the index of all texts.

use super::{
    text_key::{TextKey, TextRuns},
    words::words,
};

/// The words of a text, indexed by their forms.
#[derive(Clone, Debug)]
pub struct TextIndex {
    /// All forms, one after another.
    forms: String,
    /// The occurrences of the forms, sorted by form and position.
    occurrences: Vec<Occurrence>,
    /// Number of words.
    word_count: usize,
    runs: TextRuns,
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
        let runs = TextRuns::new(&words);
        let mut index = Self { forms: String::new(), occurrences, word_count: words.len(), runs };
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
        // The index stays as long as its event does.
        index.forms.shrink_to_fit();
        index.occurrences.shrink_to_fit();
        index
    }

    /// Its size in bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.forms.capacity() + self.occurrences.capacity() * size_of::<Occurrence>() + self.runs.size()
    }

    /// Returns its keys of a kind, each once.
    pub(crate) fn keys(&self, kind: u32) -> Vec<TextKey> {
        TextKey::all_of(kind, &self.runs, self.occurrences.iter().map(|occurrence| self.form(*occurrence)))
    }

    fn form(&self, occurrence: Occurrence) -> &str {
        &self.forms[occurrence.start as usize..occurrence.end as usize]
    }

    /// Number of 64-bit words that have a bit for each word of the text.
    pub(super) const fn position_words(&self) -> usize {
        self.word_count.div_ceil(64)
    }

    /// Appends the positions of a form to `bits`, or those of all forms that begin with it, as one bit for each word of
    /// the text. Appends nothing and returns false if the text has none.
    pub(super) fn push_positions(&self, form: &str, is_prefix: bool, bits: &mut Vec<u64>) -> bool {
        let first = self.occurrences.partition_point(|occurrence| self.form(*occurrence) < form);
        let is_found = |occurrence: &&Occurrence| {
            let found = self.form(**occurrence);
            if is_prefix { found.starts_with(form) } else { found == form }
        };
        let mut found = self.occurrences[first..].iter().take_while(is_found).peekable();
        if found.peek().is_none() {
            return false;
        }
        let start = bits.len();
        bits.resize(start + self.position_words(), 0);
        for occurrence in found {
            bits[start + occurrence.position as usize / 64] |= 1 << (occurrence.position % 64);
        }
        true
    }
}

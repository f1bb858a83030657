//! The text of an event. Its words are read when a filter first needs them.

use std::sync::OnceLock;

use crate::search::TextIndex;

/// The text of an event's thesis.
#[derive(Clone, Debug)]
pub struct EventText {
    text: String,
    /// Empty for most events, because no filter reads their words.
    index: OnceLock<TextIndex>,
}

impl EventText {
    /// Keeps a text, without reading its words.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self { text, index: OnceLock::new() }
    }

    /// Returns its words.
    #[must_use]
    pub fn index(&self) -> &TextIndex {
        self.index.get_or_init(|| TextIndex::new(&self.text))
    }

    /// Approximate size in bytes of the text with its words, read or not. It is that of words of one letter with sigils
    /// and spaces. Usual words take half of it; few texts take more, such as one of mentions without spaces.
    #[must_use]
    pub const fn size(&self) -> usize {
        13 * self.text.len()
    }
}

impl PartialEq for EventText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_covers_the_words() {
        for words in ["$a ", "a ", "$RUN ", "to the moon ", "比特币"] {
            let text = EventText::new(words.repeat(1_000));
            assert!(text.text.len() + text.index().size() <= text.size(), "{words}");
        }
    }
}

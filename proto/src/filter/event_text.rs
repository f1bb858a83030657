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

    /// Approximate size in bytes of the text with its words.
    #[must_use]
    pub const fn size(&self) -> usize {
        5 * self.text.len()
    }
}

impl PartialEq for EventText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

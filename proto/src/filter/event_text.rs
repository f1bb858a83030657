//! The text of an event, with its words once a filter needs them.

use std::sync::OnceLock;

use crate::search::TextIndex;

/// The text of an event's thesis.
#[derive(Clone, Debug)]
pub struct EventText {
    text: String,
    /// Most events meet no filter by text.
    index: OnceLock<TextIndex>,
}

impl EventText {
    /// A text whose words nobody needs yet.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self { text, index: OnceLock::new() }
    }

    /// Its words.
    #[must_use]
    pub fn index(&self) -> &TextIndex {
        self.index.get_or_init(|| TextIndex::new(&self.text))
    }

    /// Approximate bytes of memory that the text takes with its words.
    #[must_use]
    pub const fn size(&self) -> usize {
        4 * self.text.len()
    }
}

impl PartialEq for EventText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

//! The erasure of a deleted thesis's text from the entries that hold it.

use std::{mem::take, ops::RangeInclusive};

use prost::Message as _;

use super::{Entry, EntryOutline, Kind, ThesisChanged, ThesisCreated, ThesisDeleted, ThesisEdited};
use crate::domain::row::Thesis;

/// The tag of [`Kind::Engagement`].
const ENGAGEMENT: u32 = 9;

/// True for the stored form of an entry that begins or ends an erasure: the row of a deleted thesis without its text.
/// An erasure appends two such entries, and replaces earlier entries in between.
#[must_use]
pub fn marks_erasure(stored: &[u8]) -> bool {
    erased_entries(stored).is_some()
}

/// Returns the sequence numbers between which an erasure replaces entries, from the creation of the thesis to its
/// deletion; none if the stored entry neither begins nor ends an erasure.
#[must_use]
pub fn erased_entries(stored: &[u8]) -> Option<RangeInclusive<u64>> {
    // Most entries are of another kind, and need not be decoded.
    if !EntryOutline::read(stored).is_ok_and(|outline| outline.kind == ENGAGEMENT) {
        return None;
    }
    let Some(Kind::Engagement(ThesisChanged { thesis })) = Entry::decode(stored).ok()?.kind else { return None };
    let is_erased = thesis.deleted_at.is_some() && thesis.text.is_empty();
    // A thesis that was deleted before its observation has no creation.
    is_erased.then(|| thesis.sequence.unwrap_or_default()..=thesis.changed_in.unwrap_or(u64::MAX))
}

impl Entry {
    fn thesis_mut(&mut self) -> Option<&mut Thesis> {
        match &mut self.kind {
            Some(
                Kind::ThesisCreated(ThesisCreated { thesis, .. })
                | Kind::ThesisEdited(ThesisEdited { thesis, .. })
                | Kind::ThesisDeleted(ThesisDeleted { thesis, .. })
                | Kind::Engagement(ThesisChanged { thesis })
                | Kind::ThesisAwaited(ThesisChanged { thesis }),
            ) => Some(thesis),
            _ => None,
        }
    }

    /// Erases the text of a thesis, and the salt: without it nobody can check a guess of the text against the leaf.
    /// `leaf` is the leaf of the original entry, which the tree keeps. Returns whether the entry had a text of this
    /// thesis.
    pub fn erase_text_of(&mut self, thesis_id: &str, leaf: &[u8]) -> bool {
        let thesis = self.thesis_mut().filter(|thesis| thesis.id == thesis_id);
        let text = thesis.map(|thesis| take(&mut thesis.text)).unwrap_or_default();
        if text.is_empty() {
            return false;
        }
        self.leaf = leaf.to_vec();
        self.salt.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::entry::{ProfileObserved, TokenObserved};

    fn thesis(text: &str) -> Thesis {
        Thesis { id: "th_1".to_owned(), text: text.to_owned(), sequence: Some(1), ..Thesis::default() }
    }

    fn kinds(text: &str) -> [Kind; 5] {
        let thesis = thesis(text);
        [
            Kind::ThesisCreated(ThesisCreated { thesis: thesis.clone(), ..ThesisCreated::default() }),
            Kind::ThesisEdited(ThesisEdited { thesis: thesis.clone(), ..ThesisEdited::default() }),
            Kind::ThesisDeleted(ThesisDeleted { thesis: thesis.clone(), ..ThesisDeleted::default() }),
            Kind::Engagement(ThesisChanged { thesis: thesis.clone() }),
            Kind::ThesisAwaited(ThesisChanged { thesis }),
        ]
    }

    fn entry(kind: Kind) -> Entry {
        Entry { id: "evt_1".to_owned(), kind: Some(kind), salt: vec![7; Entry::SALT_BYTES], ..Entry::default() }
    }

    #[test]
    fn an_erasure_begins_and_ends_with_the_row_of_a_deleted_thesis_without_its_text() {
        let stored = |kind: Kind| entry(kind).stored(7);
        let changed = |text: &str, deleted_at| {
            let thesis = Thesis { deleted_at, ..thesis(text) };
            [Kind::Engagement(ThesisChanged { thesis: thesis.clone() }), Kind::ThesisAwaited(ThesisChanged { thesis })]
        };
        let [erased, awaited] = changed("", Some(1));
        assert!(marks_erasure(&stored(erased)) && !marks_erasure(&stored(awaited)));
        for kind in [changed("text", Some(1)), changed("", None)].into_iter().flatten().chain(kinds("")) {
            assert!(!marks_erasure(&stored(kind.clone())), "{kind:?}");
        }
        assert!(!marks_erasure(b"no entry") && !marks_erasure(b""));
    }

    #[test]
    fn an_erasure_replaces_the_entries_from_the_creation_to_the_deletion() {
        let range = |sequence, changed_in| {
            let thesis = Thesis { deleted_at: Some(1), sequence, changed_in, ..thesis("") };
            erased_entries(&entry(Kind::Engagement(ThesisChanged { thesis })).stored(7))
        };
        assert_eq!(range(Some(3), Some(5)), Some(3..=5));
        assert_eq!(range(None, Some(5)), Some(0..=5));
        assert_eq!(range(Some(3), None), Some(3..=u64::MAX));
    }

    #[test]
    fn an_erased_entry_keeps_its_leaf_and_loses_text_and_salt() {
        for (with_text, without) in kinds("secret").into_iter().zip(kinds("")) {
            let mut erased = entry(with_text);
            assert!(!erased.erase_text_of("th_2", &[9]) && erased.leaf.is_empty());
            assert!(erased.erase_text_of("th_1", &[9]));
            assert_eq!(erased, Entry { leaf: vec![9], salt: Vec::new(), ..entry(without) });
            assert!(!erased.erase_text_of("th_1", &[8]), "erased twice");
            assert_eq!(erased.leaf, [9]);
        }
        let others = [Kind::ProfileObserved(ProfileObserved::default()), Kind::TokenObserved(TokenObserved::default())];
        for kind in others {
            assert!(!entry(kind).erase_text_of("", &[9]));
        }
    }
}

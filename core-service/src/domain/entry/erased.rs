//! The erasure of a deleted thesis's text from the entries that hold it.

use std::mem::take;

use super::{Entry, Kind, ThesisChanged, ThesisCreated, ThesisDeleted, ThesisEdited};
use crate::domain::row::Thesis;

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

    /// Erases the text of a thesis, and the salt: without it nobody can guess the text by the leaf. `leaf` is the leaf
    /// of the entry as it was, which the tree keeps. Returns whether the entry had a text of this thesis.
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

//! The theses that a token's derived events count. A task beside the writer loads them, so no append waits for them.
//! The writer then keeps them up to date with the log until it writes the events. The log may be ahead of the rows, so
//! new theses are kept apart from the loaded day, which readers may share.

use crate::{
    domain::{
        derivation::{Counts, TokenTheses},
        row::Thesis,
    },
    tables::recent_theses::TokenDay,
};

/// A thesis that was added or removed while the others were loaded.
pub(super) struct ThesisChange {
    created_at: i64,
    id: String,
    /// None when it was removed.
    author: Option<String>,
}

#[derive(Default)]
pub(super) enum TokenCounts {
    #[default]
    Unknown,
    /// The load of this number reads them.
    Loading { number: u64, changes: Vec<ThesisChange> },
    /// The last day, the newest thesis if that is older, and the theses that were added since then.
    Loaded { day: TokenDay, latest: Option<(i64, String)>, added: TokenTheses },
}

impl TokenCounts {
    pub(super) fn loading(number: u64) -> Self {
        Self::Loading { number, changes: Vec::new() }
    }

    /// True while the load of this number runs.
    pub(super) fn is_load(&self, of: u64) -> bool {
        matches!(self, Self::Loading { number, .. } if *number == of)
    }

    pub(super) const fn is_loading(&self) -> bool {
        matches!(self, Self::Loading { .. })
    }

    /// Ends the load of this number with its result, unless another load was begun.
    pub(super) fn finish_load(&mut self, of: u64, read: Option<(TokenDay, Option<(i64, String)>)>) {
        let Self::Loading { number, changes } = self else { return };
        if *number != of {
            return;
        }
        let changes = std::mem::take(changes);
        let loaded = |(day, latest)| Self::Loaded { day, latest, added: TokenTheses::default() };
        *self = read.map_or(Self::Unknown, loaded);
        for change in changes {
            self.apply(change);
        }
    }

    pub(super) fn add_thesis(&mut self, thesis: &Thesis) {
        self.apply(ThesisChange::of(thesis, Some(thesis.profile_id.clone())));
    }

    pub(super) fn remove_thesis(&mut self, thesis: &Thesis) {
        self.apply(ThesisChange::of(thesis, None));
    }

    fn apply(&mut self, change: ThesisChange) {
        match self {
            Self::Unknown => {}
            Self::Loading { changes, .. } => changes.push(change),
            Self::Loaded { day, latest, added } => match change.author {
                Some(author) => {
                    added.insert(change.created_at, change.id.clone(), author);
                    *latest = latest.take().max(Some((change.created_at, change.id)));
                }
                None => {
                    day.remove_thesis(change.created_at, &change.id);
                    added.remove(change.created_at, &change.id);
                    if latest.as_ref().is_some_and(|(_, id)| *id == change.id) {
                        // The thesis before it is not known.
                        *self = Self::Unknown;
                    }
                }
            },
        }
    }

    /// The counts at `at` and the newest thesis, if they are known.
    pub(super) fn count_at(&self, at: i64) -> Option<(Option<(i64, String)>, Counts)> {
        let Self::Loaded { day, latest, added } = self else { return None };
        let counts = day.counts_with(added, at);
        let latest = counts.newest().or_else(|| latest.clone());
        // A thesis of a later time hides the newest one at `at`.
        (latest.as_ref().is_none_or(|(created_at, _)| *created_at <= at)).then_some((latest, counts))
    }
}

impl ThesisChange {
    fn of(thesis: &Thesis, author: Option<String>) -> Self {
        Self { created_at: thesis.created_at, id: thesis.id.clone(), author }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::dataset::Dataset,
        tables::theses::{ThesisStore, creation_changes},
        tests::harness::{ManualClock, NOON, new_thesis, shared_memory},
    };

    fn thesis(id: &str, created_at: i64) -> Thesis {
        let thesis = new_thesis(&Dataset::Live, 1).thesis;
        Thesis { id: id.to_owned(), created_at, ..thesis }
    }

    #[tokio::test]
    async fn what_moves_while_theses_are_read_is_counted_once() {
        let store = ThesisStore::new(shared_memory(&ManualClock::new()));
        let (one, two, three) = (thesis("th_1", NOON - 3), thesis("th_2", NOON - 2), thesis("th_3", NOON - 1));
        let mut changes = Vec::new();
        for (version, thesis) in (1..).zip([&one, &two]) {
            creation_changes("live", thesis, version, |_, _| true, &mut changes);
        }
        store.apply(changes).await.unwrap();
        let mut counts = TokenCounts::loading(1);
        // The second is among the rows already, the first will be removed, the third is added after the load.
        counts.add_thesis(&two);
        counts.remove_thesis(&one);
        counts.finish_load(7, None);
        assert!(counts.is_loading(), "the end of another load");
        counts.finish_load(1, Some(store.day(&Dataset::Live, &one.token_id, NOON).await.unwrap()));
        counts.add_thesis(&three);
        let (latest, totals) = counts.count_at(NOON).unwrap();
        assert_eq!((totals.last_24h, latest), (2, Some((NOON - 1, "th_3".to_owned()))));
    }

    #[tokio::test]
    async fn an_old_newest_thesis_that_goes_is_looked_for_again() {
        let store = ThesisStore::new(shared_memory(&ManualClock::new()));
        let old = thesis("th_1", 5);
        let mut changes = Vec::new();
        creation_changes("live", &old, 1, |_, _| true, &mut changes);
        store.apply(changes).await.unwrap();
        let mut counts = TokenCounts::loading(1);
        counts.finish_load(1, Some(store.day(&Dataset::Live, &old.token_id, NOON).await.unwrap()));
        assert_eq!(counts.count_at(NOON).unwrap().0, Some((5, "th_1".to_owned())));
        counts.add_thesis(&thesis("th_2", 6));
        assert_eq!(counts.count_at(NOON).unwrap().0, Some((6, "th_2".to_owned())));
        counts.remove_thesis(&thesis("th_2", 6));
        assert!(counts.count_at(NOON).is_none());
    }
}

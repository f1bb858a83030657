//! The theses that a token's derived events count. They are read beside the writer, so that no append waits for them, and
//! kept up to date with the log until the events are made.

use crate::{
    domain::{derivation::Counts, row::Thesis},
    tables::recent_theses::TokenDay,
};

/// A thesis that came or went while the others were read.
pub(super) struct Move {
    created_at: i64,
    id: String,
    /// None when it went.
    author: Option<String>,
}

/// What is known of a token's theses.
#[derive(Default)]
pub(super) enum Look {
    /// Nothing.
    #[default]
    None,
    /// They are being read, by the look of this number.
    UnderWay { number: u64, moves: Vec<Move> },
    /// The last day, and the newest thesis if that is older.
    Done { day: TokenDay, latest: Option<(i64, String)> },
}

impl Look {
    pub(super) fn under_way(number: u64) -> Self {
        Self::UnderWay { number, moves: Vec::new() }
    }

    /// Whether this is the look of a number.
    pub(super) fn is(&self, of: u64) -> bool {
        matches!(self, Self::UnderWay { number, .. } if *number == of)
    }

    pub(super) const fn is_under_way(&self) -> bool {
        matches!(self, Self::UnderWay { .. })
    }

    /// Ends the look of this number with what was read, unless another one was begun.
    pub(super) fn end(&mut self, of: u64, read: Option<(TokenDay, Option<(i64, String)>)>) {
        let Self::UnderWay { number, moves } = self else { return };
        if *number != of {
            return;
        }
        let moves = std::mem::take(moves);
        *self = read.map_or(Self::None, |(day, latest)| Self::Done { day, latest });
        for made in moves {
            self.take(made);
        }
    }

    /// A thesis came on the token.
    pub(super) fn came(&mut self, thesis: &Thesis) {
        self.take(Move::of(thesis, Some(thesis.profile_id.clone())));
    }

    /// A thesis on the token went.
    pub(super) fn went(&mut self, thesis: &Thesis) {
        self.take(Move::of(thesis, None));
    }

    fn take(&mut self, made: Move) {
        match self {
            Self::None => {}
            Self::UnderWay { moves, .. } => moves.push(made),
            Self::Done { day, latest } => match &made.author {
                Some(author) => {
                    day.came(made.created_at, &made.id, author);
                    *latest = latest.take().max(Some((made.created_at, made.id)));
                }
                None => {
                    day.went(made.created_at, &made.id);
                    if latest.as_ref().is_some_and(|(_, id)| *id == made.id) {
                        // The one before it is not known.
                        *self = Self::None;
                    }
                }
            },
        }
    }

    /// The counts at `at` and the newest thesis, if they are known.
    pub(super) fn counts(&self, at: i64) -> Option<(Option<(i64, String)>, Counts)> {
        let Self::Done { day, latest } = self else { return None };
        let counts = day.counts(at);
        let latest = counts.newest().or_else(|| latest.clone());
        // One that came while it lay ahead hides the newest at `at`.
        (latest.as_ref().is_none_or(|(created_at, _)| *created_at <= at)).then_some((latest, counts))
    }
}

impl Move {
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
        testing::{ManualClock, NOON, new_thesis, shared_memory},
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
        let mut look = Look::under_way(1);
        // The second is among the rows already, the first will go, the third comes after they are read.
        look.came(&two);
        look.went(&one);
        look.end(7, None);
        assert!(look.is_under_way(), "the end of another look");
        look.end(1, Some(store.day(&Dataset::Live, &one.token_id, NOON).await.unwrap()));
        look.came(&three);
        let (latest, counts) = look.counts(NOON).unwrap();
        assert_eq!((counts.last_24h, latest), (2, Some((NOON - 1, "th_3".to_owned()))));
    }

    #[tokio::test]
    async fn an_old_newest_thesis_that_goes_is_looked_for_again() {
        let store = ThesisStore::new(shared_memory(&ManualClock::new()));
        let old = thesis("th_1", 5);
        let mut changes = Vec::new();
        creation_changes("live", &old, 1, |_, _| true, &mut changes);
        store.apply(changes).await.unwrap();
        let mut look = Look::under_way(1);
        look.end(1, Some(store.day(&Dataset::Live, &old.token_id, NOON).await.unwrap()));
        assert_eq!(look.counts(NOON).unwrap().0, Some((5, "th_1".to_owned())));
        look.came(&thesis("th_2", 6));
        assert_eq!(look.counts(NOON).unwrap().0, Some((6, "th_2".to_owned())));
        look.went(&thesis("th_2", 6));
        assert!(look.counts(NOON).is_none());
    }
}

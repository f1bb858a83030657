//! Counts the theses and authors of each token in each hour of a day.

use std::{cmp::Ordering, collections::HashMap};

use sha2::{Digest as _, Sha256};

use crate::domain::{
    row::{Thesis, Token},
    window::HOUR_MS,
};

/// Bytes of an author's hash: so many that no two of a day's authors have the same.
const AUTHOR_BYTES: usize = 16;

/// A token as the counts name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedToken {
    pub(super) id: String,
    pub(super) symbol: String,
    pub(super) chain: String,
    pub(super) address: String,
}

/// One thesis: the start of its hour, the number of its token, and its author.
type Posted = (i64, u32, [u8; AUTHOR_BYTES]);

/// The theses of a day, 32 bytes each.
#[derive(Default)]
pub(super) struct HourCounts {
    numbers: HashMap<String, u32>,
    tokens: Vec<CountedToken>,
    posted: Vec<Posted>,
}

/// The counts of a token in an hour.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenHour<'a> {
    pub(super) token: &'a CountedToken,
    /// The start of the hour.
    pub(super) hour: i64,
    pub(super) theses: i64,
    pub(super) unique_authors: i64,
}

impl HourCounts {
    /// Counts a thesis.
    pub(super) fn add(&mut self, thesis: &Thesis, token: &Token) {
        let number = match self.numbers.get(&token.id) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.tokens.len()).unwrap_or(u32::MAX);
                self.numbers.insert(token.id.clone(), number);
                let (id, symbol) = (token.id.clone(), token.symbol.clone());
                self.tokens.push(CountedToken {
                    id,
                    symbol,
                    chain: token.chain.clone(),
                    address: token.address.clone(),
                });
                number
            }
        };
        let mut author = [0; AUTHOR_BYTES];
        author.copy_from_slice(&Sha256::digest(&thesis.profile_id)[..AUTHOR_BYTES]);
        self.posted.push((thesis.created_at - thesis.created_at.rem_euclid(HOUR_MS), number, author));
    }

    /// Sorts the theses by hour, then by the token's id. Call it before [`Self::rows`].
    pub(super) fn sort(&mut self) {
        let Self { tokens, posted, .. } = self;
        let id = |number: u32| tokens.get(number as usize).map(|token| &token.id);
        let order = |left: &Posted, right: &Posted| -> Ordering {
            (left.0, id(left.1), left.2).cmp(&(right.0, id(right.1), right.2))
        };
        posted.sort_unstable_by(order);
    }

    /// The counts, in the order of [`Self::sort`].
    pub(super) fn rows(&self) -> impl Iterator<Item = TokenHour<'_>> {
        let groups = self.posted.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1));
        groups.filter_map(|group| {
            let (hour, number, _) = group.first()?;
            let authors = group.chunk_by(|left, right| left.2 == right.2).count();
            Some(TokenHour {
                token: self.tokens.get(*number as usize)?,
                hour: *hour,
                theses: i64::try_from(group.len()).unwrap_or(i64::MAX),
                unique_authors: i64::try_from(authors).unwrap_or(i64::MAX),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theses_and_authors_are_counted_for_each_token_and_hour() {
        let mut counts = HourCounts::default();
        for (token, author, at) in [
            ("tk_b", "fp_1", 5),
            ("tk_a", "fp_1", HOUR_MS),
            ("tk_b", "fp_2", 6),
            ("tk_b", "fp_1", 7),
            ("tk_b", "fp_1", HOUR_MS - 1),
        ] {
            let thesis = Thesis { profile_id: author.to_owned(), created_at: at, ..Thesis::default() };
            counts.add(&thesis, &Token { id: token.to_owned(), ..Token::default() });
        }
        counts.sort();
        let rows: Vec<_> =
            counts.rows().map(|row| (row.token.id.as_str(), row.hour, row.theses, row.unique_authors)).collect();
        assert_eq!(rows, [("tk_b", 0, 4, 2), ("tk_a", HOUR_MS, 1, 1)]);
    }
}

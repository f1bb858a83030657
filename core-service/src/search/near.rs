//! Finds rows whose handle or symbol is similar to a given one.

use std::ops::RangeInclusive;

use tantivy::query::{BooleanQuery, FuzzyTermQuery, Query};
use thesis_proto::near::{MAX_SLIPS, MIN_PREFIX};
use tokio::time::Instant;

use super::{
    SearchError, SearchIndex,
    best::{Best, Order},
    compile::{begins, has},
    id,
    schema::{Kind, Terms},
    words::exact,
};
use crate::domain::dataset::{Dataset, View};

/// Maximum number of characters of a searched name: no handle has more.
const MAX_NAME_LENGTH: usize = 41;

/// Matching rows by dataset and id.
pub type NearMatches = Result<Vec<(Dataset, String)>, SearchError>;

/// A rule by which a name matches.
#[derive(Clone, Copy)]
enum MatchRule {
    /// The names differ by at most this number of slips.
    Slips(usize),
    /// The found name begins with the searched one.
    Begins,
}

/// The rules, nearest first.
const RULES: [MatchRule; 3] = [MatchRule::Slips(1), MatchRule::Slips(MAX_SLIPS), MatchRule::Begins];

impl MatchRule {
    /// The lengths of searched names that the rule suits.
    fn lengths(self) -> RangeInclusive<usize> {
        match self {
            // At most every third character of the longer name may differ.
            Self::Slips(slips) => 2 * slips..=MAX_NAME_LENGTH,
            Self::Begins => MIN_PREFIX..=MAX_NAME_LENGTH,
        }
    }

    fn query(self, terms: &Terms, name: &str) -> Box<dyn Query> {
        let field = terms.fields.name;
        match self {
            Self::Slips(slips) => {
                let slips = u8::try_from(slips).unwrap_or(u8::MAX);
                Box::new(FuzzyTermQuery::new(terms.term(field, name), slips, true))
            }
            Self::Begins => Box::new(begins(terms, field, name)),
        }
    }
}

impl SearchIndex {
    /// Finds the ids of the profiles whose handle is similar to a given one: the handles with one slip, otherwise those
    /// with two, otherwise those that begin with it. The search stops at `until` and returns the rows found by then.
    pub fn near_profiles(&self, view: &View, name: &str, limit: usize, until: Instant) -> NearMatches {
        self.near(Kind::Profile, view, name, limit, until)
    }

    /// Finds the ids of the tokens whose symbol is similar to a given one, by the rules of [`Self::near_profiles`].
    pub fn near_tokens(&self, view: &View, name: &str, limit: usize, until: Instant) -> NearMatches {
        self.near(Kind::Token, view, name, limit, until)
    }

    fn near(&self, kind: Kind, view: &View, name: &str, limit: usize, until: Instant) -> NearMatches {
        let mut found = Vec::new();
        let name = exact(name);
        let length = name.chars().count();
        let searcher = self.reader.searcher();
        'rules: for rule in RULES.iter().filter(|rule| rule.lengths().contains(&length)) {
            for dataset in view.datasets() {
                if Instant::now() >= until {
                    break 'rules;
                }
                let terms = Terms::new(self.fields, dataset);
                // A slip may hit the dataset's name in the term, so a second condition requires rows of the dataset.
                let own = has(terms.term(self.fields.kind, kind.prefix()));
                let query = BooleanQuery::intersection(vec![rule.query(&terms, &name), own]);
                let ranks = searcher.search(&query, &Best::new(Order::Newest, None, limit))?;
                found.extend(ranks.into_iter().map(|rank| (dataset.clone(), id::join(kind.prefix(), rank.id))));
            }
            if !found.is_empty() {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}

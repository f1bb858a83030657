//! Finds rows whose handle or symbol is similar to a given one.

use tantivy::query::{BooleanQuery, FuzzyTermQuery, Query};
use thesis_proto::{near::MIN_PREFIX, search::words::exact};
use tokio::time::Instant;

use super::{
    SearchError, SearchFilter, SearchIndex,
    best::{Best, Order},
    compile::{begins, has},
    id,
    schema::{Kind, Terms},
};
use crate::domain::dataset::{Dataset, View};

/// Maximum number of characters of a searched name. Longer names get no suggestions.
const MAX_NAME_LENGTH: usize = 41;

/// Matching rows by dataset and id.
pub type NearMatches = Result<Vec<(Dataset, String)>, SearchError>;

/// The rules by which a name matches, nearest first. Each has the shortest searched name that it suits and the slips that
/// it allows, since at most every third character of the longer name may be a slip. `None` allows the names that begin
/// with the searched one.
const RULES: [(usize, Option<u8>); 3] = [(2, Some(1)), (4, Some(2)), (MIN_PREFIX, None)];

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
        let searchers = self.searchers(view, kind, &SearchFilter::default())?;
        let rules = RULES.into_iter().filter(|(shortest, _)| (*shortest..=MAX_NAME_LENGTH).contains(&length));
        'rules: for (_, slips) in rules {
            for (dataset, searchers) in view.datasets().iter().zip(&searchers) {
                if Instant::now() >= until {
                    break 'rules;
                }
                let (terms, field) = (Terms::new(self.fields, dataset), self.fields.name);
                let similar: Box<dyn Query> = match slips {
                    Some(slips) => Box::new(FuzzyTermQuery::new(terms.term(field, &name), slips, true)),
                    None => Box::new(begins(&terms, field, &name)),
                };
                // A slip may hit the dataset's name in the term, so a second condition requires rows of the dataset.
                let own = has(terms.term(self.fields.kind, kind.prefix()));
                let query = BooleanQuery::intersection(vec![similar, own]);
                for searcher in searchers {
                    let ranks = searcher.search(&query, &Best::new(Order::Newest, None, limit))?;
                    found.extend(ranks.into_iter().map(|rank| (dataset.clone(), id::join(kind.prefix(), rank.id))));
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}

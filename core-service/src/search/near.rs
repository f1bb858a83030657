//! Rows whose handle or symbol is nearly a given one.

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

/// Most characters of a name that is looked for: handles have no more.
const LONGEST: usize = 41;

/// Rows by dataset and id.
pub type Near = Result<Vec<(Dataset, String)>, SearchError>;

/// How a name is looked for.
#[derive(Clone, Copy)]
enum Look {
    /// With at most this many slips.
    Slips(usize),
    /// As the beginning of a name.
    Begins,
}

/// The nearest first.
const LOOKS: [Look; 3] = [Look::Slips(1), Look::Slips(MAX_SLIPS), Look::Begins];

impl Look {
    /// The lengths of names for which it makes sense.
    fn lengths(self) -> RangeInclusive<usize> {
        match self {
            // At most every third character of the longer name may differ.
            Self::Slips(slips) => 2 * slips..=LONGEST,
            Self::Begins => MIN_PREFIX..=LONGEST,
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
    /// The ids of the profiles whose handle is nearly a given one: those with one slip, or else those with two, or else
    /// those that begin with it. After `until` it looks no further, and gives what it has.
    ///
    /// # Errors
    /// When the index fails.
    pub fn near_profiles(&self, view: &View, name: &str, limit: usize, until: Instant) -> Near {
        self.near(Kind::Profile, view, name, limit, until)
    }

    /// The ids of the tokens whose symbol is nearly a given one, likewise.
    ///
    /// # Errors
    /// When the index fails.
    pub fn near_tokens(&self, view: &View, name: &str, limit: usize, until: Instant) -> Near {
        self.near(Kind::Token, view, name, limit, until)
    }

    fn near(&self, kind: Kind, view: &View, name: &str, limit: usize, until: Instant) -> Near {
        let mut found = Vec::new();
        let name = exact(name);
        let length = name.chars().count();
        let searcher = self.reader.searcher();
        'looks: for look in LOOKS.iter().filter(|look| look.lengths().contains(&length)) {
            for dataset in view.datasets() {
                if Instant::now() >= until {
                    break 'looks;
                }
                let terms = Terms::new(self.fields, dataset);
                // A slip may fall on the dataset's name in the term, so the rows must be the dataset's in any case.
                let own = has(terms.term(self.fields.kind, kind.prefix()));
                let query = BooleanQuery::intersection(vec![look.query(&terms, &name), own]);
                let ranks = searcher.search(&query, &Best::new(Order::Newest, None, limit))?;
                found.extend(ranks.into_iter().map(|rank| (dataset.clone(), id::whole(kind.prefix(), rank.id))));
            }
            if !found.is_empty() {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}

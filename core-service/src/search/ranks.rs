//! Finds the rows of the highest ranks.

use std::{ops::RangeInclusive, sync::Arc};

use tantivy::{
    Searcher,
    collector::Collector as _,
    query::{Bm25StatisticsProvider, BooleanQuery, EnableScoring, Query},
};

use super::{
    ParsedSearch, SearchError, SearchFilter, SearchIndex,
    best::{Best, Rank},
    cancel::{Cancellable, Cancellation},
    compile::{self, Frequencies, MAX_EXPANSIONS, TermsAndShards, count_expansions, has, has_one},
    schema::{Kind, Terms},
    segments::{self, Source},
    statistics::Statistics,
};
use crate::domain::dataset::{Dataset, View};

impl SearchIndex {
    /// The highest ranks in the shards of a view's window, which must all be here.
    pub(super) fn best(
        &self,
        view: &View,
        kind: Kind,
        parsed: Option<&ParsedSearch>,
        narrow: &SearchFilter,
        best: Best,
    ) -> Result<Vec<(Rank, Dataset)>, SearchError> {
        let searchers = if best.limit == 0 { Vec::new() } else { self.searchers(view, kind, narrow)? };
        self.best_among((view, searchers), kind, parsed, narrow, best, None)
    }

    /// The highest ranks in some shards of each dataset of a view. Scores follow from given statistics, or else from
    /// those of these shards.
    pub(super) fn best_among(
        &self,
        (view, searchers): (&View, Vec<Vec<Searcher>>),
        kind: Kind,
        parsed: Option<&ParsedSearch>,
        narrow: &SearchFilter,
        mut best: Best,
        statistics: Option<&Statistics>,
    ) -> Result<Vec<(Rank, Dataset)>, SearchError> {
        if best.limit == 0 {
            return Ok(Vec::new());
        }
        let terms = view.datasets().iter().map(|dataset| Terms::new(self.fields, dataset));
        let datasets: Vec<TermsAndShards> = terms.zip(searchers).collect();
        let counts_here = best.requires_scoring() && statistics.is_none();
        let frequencies = counts_here.then(|| Frequencies::new(&datasets, kind)).transpose()?;
        let mut left = MAX_EXPANSIONS;
        if let (Some(parsed), None) = (parsed, statistics) {
            datasets.iter().try_for_each(|dataset| count_expansions(dataset, kind, parsed, &mut left))?;
        }
        let scored_by: Option<&dyn Bm25StatisticsProvider> = match (statistics, &frequencies) {
            (Some(statistics), _) if best.requires_scoring() => Some(statistics),
            (_, Some(frequencies)) => Some(frequencies),
            _ => None,
        };
        best.cancellation = narrow.cancellation.clone();
        let mut sources = Vec::new();
        for ((terms, searchers), dataset) in datasets.iter().zip(view.datasets()) {
            if kind == Kind::Thesis {
                (best.from, best.to) = (narrow.floor.bound_for(dataset), narrow.to);
            }
            for searcher in searchers {
                let query = query(terms, kind, parsed, narrow, segments::days_of(searcher, best.from, best.to)?);
                let weight = query.weight(match scored_by {
                    Some(statistics) => EnableScoring::enabled_from_statistics_provider(statistics, searcher),
                    None => EnableScoring::disabled_from_searcher(searcher),
                })?;
                sources.push(Source { dataset, searcher, weight, wanted: best.clone() });
            }
        }
        let found = segments::search(&sources, best.limit, best.lowest)?;
        if narrow.cancellation.is_exhausted() {
            return Err(SearchError::Exhausted);
        }
        if narrow.cancellation.is_cancelled() {
            return Err(SearchError::Cancelled);
        }
        Ok(found.into_iter().map(|(rank, dataset)| (rank, dataset.clone())).collect())
    }
}

/// Matches the rows of one dataset and kind that a search and its filter match. `days` are those of the window.
fn query(
    terms: &Terms,
    kind: Kind,
    parsed: Option<&ParsedSearch>,
    narrow: &SearchFilter,
    days: Option<RangeInclusive<i64>>,
) -> BooleanQuery {
    let fields = &terms.fields;
    // A profile or a token has fewer theses than most days.
    let days = days.filter(|_| kind == Kind::Thesis && narrow.profile.is_none() && narrow.tokens.is_none());
    let rows = match (parsed, days) {
        (Some(parsed), _) => compile::query(terms, kind, parsed, &narrow.cancellation),
        (None, Some(days)) => cancellable(has_one(days.map(|day| terms.day(day))), &narrow.cancellation),
        (None, None) => cancellable(has(terms.term(fields.kind, kind.prefix())), &narrow.cancellation),
    };
    let mut clauses = vec![rows];
    let (profile, token) = match kind {
        Kind::Thesis => (fields.author, fields.about),
        Kind::Profile | Kind::Token => (fields.id, fields.id),
    };
    if let Some(id) = narrow.profile.as_ref().filter(|_| kind != Kind::Token) {
        clauses.push(has(terms.term(profile, id)));
    }
    if let Some(ids) = narrow.tokens.as_ref().filter(|_| kind != Kind::Profile) {
        clauses.push(has_one(ids.iter().map(|id| terms.term(token, id))));
    }
    if let Some(chain) = narrow.chain.as_ref().filter(|_| kind != Kind::Profile) {
        clauses.push(has(terms.term(fields.chain, chain)));
    }
    BooleanQuery::intersection(clauses)
}

fn cancellable(query: Box<dyn Query>, cancellation: &Cancellation) -> Box<dyn Query> {
    Box::new(Cancellable::new(Arc::<dyn Query>::from(query), cancellation))
}

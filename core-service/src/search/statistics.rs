//! The counts from which the scores of a search of theses follow, when several cores have its shards. Each core counts
//! its own shards, and the sum is that of an index with all of them. A deleted thesis counts until its segment is
//! merged, so scores may differ a little between the copies of a shard.

use std::{collections::HashMap, str};

use tantivy::{
    Searcher, Term,
    query::{Bm25StatisticsProvider, EnableScoring},
    schema::Field,
};
use thesis_proto::v1;

use super::{
    Cancellation, ParsedSearch, SearchError, SearchIndex,
    compile::{self, Frequencies, MAX_EXPANSIONS, count_words, prefixes, spend_expansions, tokens_of},
    schema::{Kind, Terms},
};
use crate::domain::dataset::Dataset;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Statistics {
    theses: u64,
    frequencies: HashMap<Term, u64>,
    /// The number of words that each prefix matches, in the part of the index that has the most.
    expansions: Vec<u32>,
}

impl SearchIndex {
    /// Counts some shards of `live` for a search.
    pub(super) fn statistics(&self, shards: Vec<Searcher>, parsed: &ParsedSearch) -> Result<Statistics, SearchError> {
        let terms = Terms::new(self.fields, &Dataset::Live);
        let query = compile::query(&terms, Kind::Thesis, parsed, &Cancellation::default());
        let datasets = [(terms, shards)];
        let expansions = prefixes(parsed).map(|prefix| count_words(&datasets[0], Kind::Thesis, prefix, MAX_EXPANSIONS));
        let expansions = expansions.collect::<tantivy::Result<Vec<u32>>>()?;
        let frequencies = Frequencies::new(&datasets, Kind::Thesis)?;
        // The weight of a query requests each frequency that its scores need. It reads nothing of the common shard,
        // which is here although all months may be elsewhere.
        query.weight(EnableScoring::enabled_from_statistics_provider(&frequencies, &self.common_searcher()?))?;
        let (theses, frequencies) = frequencies.into_counts();
        Ok(Statistics { theses, frequencies, expansions })
    }
}

impl Statistics {
    /// Adds the counts of other shards for the same search.
    pub(super) fn add(&mut self, other: Self) {
        self.theses += other.theses;
        for (term, theses) in other.frequencies {
            *self.frequencies.entry(term).or_default() += theses;
        }
        self.expansions.resize(self.expansions.len().max(other.expansions.len()), 0);
        for (largest, words) in self.expansions.iter_mut().zip(other.expansions) {
            *largest = words.max(*largest);
        }
    }

    /// Refuses a search whose prefixes match too many words.
    pub(super) fn check_expansions(&self, parsed: &ParsedSearch) -> Result<(), SearchError> {
        let mut left = MAX_EXPANSIONS;
        let mut counted = prefixes(parsed).zip(&self.expansions);
        counted.try_for_each(|(prefix, words)| spend_expansions(&mut left, prefix, *words))
    }

    pub(super) fn to_message(&self) -> v1::SearchStatistics {
        let terms = self.frequencies.iter().filter_map(|(term, theses)| {
            let text = str::from_utf8(term.serialized_value_bytes()).ok()?.to_owned();
            Some(v1::TermFrequency { field: term.field().field_id(), term: text, theses: *theses })
        });
        let (terms, expansions) = (terms.collect(), self.expansions.clone());
        v1::SearchStatistics { theses: self.theses, terms, expansions }
    }

    pub(super) fn from_message(message: v1::SearchStatistics) -> Self {
        let frequency = |counted: v1::TermFrequency| {
            (Term::from_field_text(Field::from_field_id(counted.field), &counted.term), counted.theses)
        };
        let v1::SearchStatistics { theses, terms, expansions } = message;
        Self { theses, frequencies: terms.into_iter().map(frequency).collect(), expansions }
    }
}

impl Bm25StatisticsProvider for Statistics {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(tokens_of(self.theses))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.theses.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        // The score rejects a frequency above the number of theses.
        Ok(self.frequencies.get(term).copied().unwrap_or_default().min(self.theses))
    }
}

//! Compiles a search into a query over the terms of one dataset, and provides the frequencies for scores.

use std::{cell::RefCell, collections::HashMap, ops::Bound, sync::Arc};

use tantivy::{
    Searcher, Term,
    query::{
        Bm25StatisticsProvider, BooleanQuery, ConstScoreQuery, InvertedIndexRangeQuery, Occur, PhraseQuery, Query,
        RegexPhraseQuery, TermQuery,
    },
    schema::{Field, IndexRecordOption},
};
use thesis_proto::search::{Item, words::Word};

use super::{
    ParsedSearch, SearchError,
    cancel::{Cancellable, Cancellation},
    schema::{Kind, Terms},
};

/// Added score of a handle, symbol or address that equals the word. It ranks before every other match.
const EXACT_SCORE: f32 = 10_000.0;
/// Assumed average number of words of a text in every dataset: no score may depend on rows that the caller cannot see.
const AVERAGE_WORDS: u64 = 24;

/// Maximum number of words that the prefixes of one search may match. Parts of the index are searched one after
/// another, so only the part with the most words counts. The time and memory of a search grow with them: ten thousand
/// take some milliseconds and megabytes.
pub(super) const MAX_EXPANSIONS: u32 = 10_000;

/// The terms of a dataset, and the shards that a search reads for it.
pub(super) type TermsAndShards = (Terms, Vec<Searcher>);

type Clause = (Occur, Box<dyn Query>);

/// Matches rows with exactly this term, and adds no score.
pub(super) fn has(term: Term) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(Box::new(TermQuery::new(term, IndexRecordOption::Basic)), 0.0))
}

/// Matches rows with one of these terms, and adds no score.
pub(super) fn has_one(terms: impl Iterator<Item = Term>) -> Box<dyn Query> {
    Box::new(BooleanQuery::union(terms.map(has).collect()))
}

/// Matches a search among a dataset's rows of a kind, until it is cancelled.
pub(super) fn query(terms: &Terms, kind: Kind, parsed: &ParsedSearch, cancellation: &Cancellation) -> Box<dyn Query> {
    let alternatives = parsed.alternatives.iter().map(|items| -> Box<dyn Query> {
        let clause = |item: &Item| -> Clause {
            let occur = if item.excluded { Occur::MustNot } else { Occur::Must };
            (occur, Box::new(Cancellable::new(Arc::from(self::item(terms, kind, item)), cancellation)))
        };
        Box::new(BooleanQuery::new(items.iter().map(clause).collect()))
    });
    Box::new(BooleanQuery::union(alternatives.collect()))
}

fn item(terms: &Terms, kind: Kind, item: &Item) -> Box<dyn Query> {
    let field = terms.fields.words_of(kind);
    let mut words: Vec<Term> = item.words.iter().map(|word| terms.term(field, &word.text)).collect();
    let found: Box<dyn Query> = match (words.len(), item.prefix) {
        (1, false) => Box::new(TermQuery::new(words.remove(0), IndexRecordOption::WithFreqs)),
        (_, false) => Box::new(PhraseQuery::new(words)),
        (1, true) => Box::new(begins(terms, field, &item.words[0].text)),
        (_, true) => {
            let last = words.len() - 1;
            let pattern = |(place, word): (usize, &Word)| {
                let whole = escaped(&terms.value(&word.text));
                (place, if place == last { format!("{whole}.*") } else { whole })
            };
            let patterns = item.words.iter().enumerate().map(pattern).collect();
            let mut phrase = RegexPhraseQuery::new_with_offset(field, patterns);
            // `count_expansions` has counted the words that match the prefix.
            phrase.set_max_expansions(u32::MAX);
            // A phrase with a score would count the words of every dataset.
            Box::new(ConstScoreQuery::new(Box::new(phrase), 1.0))
        }
    };
    let mut clauses = vec![(Occur::Must, found)];
    if let [word] = item.words.as_slice()
        && let Some(variant) = word.variant.as_ref().filter(|_| !item.prefix)
    {
        let variant = TermQuery::new(terms.term(field, variant), IndexRecordOption::WithFreqs);
        clauses.push((Occur::Should, Box::new(variant)));
    }
    if let Some(exact) = item.exact.as_ref().filter(|_| kind != Kind::Thesis) {
        let exact = TermQuery::new(terms.term(terms.fields.exact, exact), IndexRecordOption::Basic);
        clauses.push((Occur::Should, Box::new(ConstScoreQuery::new(Box::new(exact), EXACT_SCORE))));
    }
    Box::new(BooleanQuery::new(clauses))
}

/// The prefixes of a search.
pub(super) fn prefixes(parsed: &ParsedSearch) -> impl Iterator<Item = &str> {
    let prefixes = parsed.alternatives.iter().flatten().filter(|item| item.prefix);
    prefixes.filter_map(|item| item.words.last()).map(|word| word.text.as_str())
}

/// Subtracts the words that a prefix matches from a budget. The search is refused when they are too many.
pub(super) fn spend_expansions(left: &mut u32, prefix: &str, words: u32) -> Result<(), SearchError> {
    *left = left.checked_sub(words).ok_or_else(|| SearchError::TooBroad(prefix.to_owned()))?;
    Ok(())
}

/// Counts the words of a dataset that the prefixes of a search match, and subtracts them from the budget `left`.
pub(super) fn count_expansions(
    dataset: &TermsAndShards,
    kind: Kind,
    parsed: &ParsedSearch,
    left: &mut u32,
) -> Result<(), SearchError> {
    prefixes(parsed).try_for_each(|prefix| {
        let words = count_words(dataset, kind, prefix, *left)?;
        spend_expansions(left, prefix, words)
    })
}

/// Counts the words that begin with a prefix in the part of the index that has the most, up to one more than `limit`.
pub(super) fn count_words(
    (terms, searchers): &TermsAndShards,
    kind: Kind,
    prefix: &str,
    limit: u32,
) -> tantivy::Result<u32> {
    let field = terms.fields.words_of(kind);
    let (start, end) = (terms.term(field, prefix), end_of(terms, field, prefix));
    let mut largest = 0;
    for segment in searchers.iter().flat_map(Searcher::segment_readers) {
        let index = segment.inverted_index(field)?;
        let range = index.terms().range().without_keys();
        let range = range.ge(start.serialized_value_bytes()).lt(end.serialized_value_bytes());
        let (mut words, mut count) = (range.into_stream()?, 0);
        while count <= limit && words.advance() {
            count += 1;
        }
        largest = largest.max(count);
    }
    Ok(largest)
}

/// Escapes a text to a pattern that only this text matches.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// The upper bound of the terms that begin with `prefix`.
fn end_of(terms: &Terms, field: Field, prefix: &str) -> Term {
    let mut end = terms.term(field, prefix);
    // No UTF-8 text has a byte as high as this.
    end.append_bytes(&[0xff]);
    end
}

/// Matches words that begin with `prefix`: the first [`MAX_EXPANSIONS`] of each part of the index.
pub(super) fn begins(terms: &Terms, field: Field, prefix: &str) -> InvertedIndexRangeQuery {
    let (start, end) = (terms.term(field, prefix), end_of(terms, field, prefix));
    let mut query = InvertedIndexRangeQuery::new(Bound::Included(start), Bound::Excluded(end));
    query.limit(MAX_EXPANSIONS.into());
    query
}

/// Frequencies of terms within the searched shards of the datasets of one view. Each is counted once, though the query
/// of every shard needs it.
pub(super) struct Frequencies<'a> {
    datasets: &'a [TermsAndShards],
    /// Number of rows of the searched kind.
    rows: u64,
    counted: RefCell<HashMap<Term, u64>>,
}

impl<'a> Frequencies<'a> {
    pub(super) fn new(datasets: &'a [TermsAndShards], kind: Kind) -> tantivy::Result<Self> {
        let rows = count(datasets, |terms| Some(terms.term(terms.fields.kind, kind.prefix())))?;
        Ok(Self { datasets, rows, counted: RefCell::default() })
    }

    /// The number of rows, and the frequencies that were requested.
    pub(super) fn into_counts(self) -> (u64, HashMap<Term, u64>) {
        (self.rows, self.counted.into_inner())
    }
}

/// Adds up the frequencies of each dataset's term.
fn count(datasets: &[TermsAndShards], term_of: impl Fn(&Terms) -> Option<Term>) -> tantivy::Result<u64> {
    let each = datasets.iter().filter_map(|(terms, searchers)| Some((term_of(terms)?, searchers)));
    each.flat_map(|(term, searchers)| searchers.iter().map(move |searcher| searcher.doc_freq(&term))).sum()
}

impl Bm25StatisticsProvider for Frequencies<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(tokens_of(self.rows))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.rows.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut counted = self.counted.borrow_mut();
        let frequency = match counted.get(term) {
            Some(frequency) => *frequency,
            None => {
                let frequency = count(self.datasets, |terms| terms.own(term))?;
                counted.insert(term.clone(), frequency);
                frequency
            }
        };
        // The score rejects a frequency above the number of rows.
        Ok(frequency.min(self.rows))
    }
}

/// The assumed number of words of some rows.
pub(super) fn tokens_of(rows: u64) -> u64 {
    rows.max(1) * AVERAGE_WORDS
}

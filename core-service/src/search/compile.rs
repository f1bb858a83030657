//! What is looked for, as a query over the terms of one dataset; and the frequencies that scores are made of.

use std::ops::Bound;

use tantivy::{
    Searcher, Term,
    query::{
        Bm25StatisticsProvider, BooleanQuery, ConstScoreQuery, InvertedIndexRangeQuery, Occur, PhraseQuery, Query,
        RegexPhraseQuery, TermQuery,
    },
    schema::{Field, IndexRecordOption},
};

use super::{
    schema::{Kind, Terms},
    syntax::{Item, Looked},
    words::Word,
};

/// A handle or symbol that is the whole word stands before every other match, whatever its score.
const EXACT: f32 = 10_000.0;
/// Words of a text, taken as the average in every dataset, so that no score depends on rows that its reader cannot see.
const AVERAGE_WORDS: u64 = 24;

type Clause = (Occur, Box<dyn Query>);

/// Matches what holds this very term; says nothing of how well.
pub(super) fn has(term: Term) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(Box::new(TermQuery::new(term, IndexRecordOption::Basic)), 0.0))
}

/// Matches what holds one of these terms; says nothing of how well.
pub(super) fn has_one(terms: impl Iterator<Item = Term>) -> Box<dyn Query> {
    Box::new(BooleanQuery::union(terms.map(has).collect()))
}

/// Matches what is looked for among a dataset's rows of a kind.
pub(super) fn query(terms: &Terms, kind: Kind, looked: &Looked) -> Box<dyn Query> {
    let alternatives = looked.alternatives.iter().map(|items| -> Box<dyn Query> {
        let clause = |item: &Item| -> Clause {
            let occur = if item.excluded { Occur::MustNot } else { Occur::Must };
            (occur, self::item(terms, kind, item))
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
            phrase.set_max_expansions(u32::MAX);
            // One that counts its words would count those of every dataset.
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
        clauses.push((Occur::Should, Box::new(ConstScoreQuery::new(Box::new(exact), EXACT))));
    }
    Box::new(BooleanQuery::new(clauses))
}

/// A pattern that only this text matches.
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

/// Matches words that begin so.
fn begins(terms: &Terms, field: Field, prefix: &str) -> InvertedIndexRangeQuery {
    // No text goes on with a byte above those of UTF-8.
    let mut end = terms.term(field, prefix);
    end.append_bytes(&[0xff]);
    InvertedIndexRangeQuery::new(Bound::Included(terms.term(field, prefix)), Bound::Excluded(end))
}

/// Frequencies in the datasets of a view alone.
pub(super) struct Frequencies<'a> {
    pub(super) searcher: &'a Searcher,
    pub(super) datasets: &'a [Terms],
    pub(super) kind: Kind,
}

impl Frequencies<'_> {
    fn rows(&self) -> tantivy::Result<u64> {
        let kinds = self.datasets.iter().map(|terms| terms.term(terms.fields.kind, self.kind.prefix()));
        kinds.map(|term| self.searcher.doc_freq(&term)).sum()
    }
}

impl Bm25StatisticsProvider for Frequencies<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        Ok(self.total_num_docs()? * AVERAGE_WORDS)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.rows()?.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let each = self.datasets.iter().filter_map(|terms| terms.own(term));
        let rows: u64 = each.map(|term| self.searcher.doc_freq(&term)).sum::<tantivy::Result<u64>>()?;
        // More of them than rows would be an error to the score.
        Ok(rows.min(self.rows()?))
    }
}

//! Ends a search whose request has ended, or that matches too many documents.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use tantivy::{
    DocId, DocSet, Score, SeekDangerResult, SegmentReader, TERMINATED,
    query::{EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight},
};

/// Maximum number of documents that the searches of one request may match. They take 0.7 to 1.4 seconds of processor
/// time, so a search that matches more is refused with advice before it is too slow.
pub(super) const MAX_DOCUMENTS: u64 = 30_000_000;

/// Signals the searches of a request that no client waits for them any more, or that they have matched too many
/// documents.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    documents: AtomicU64,
}

impl Cancellation {
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Relaxed)
    }

    /// Counts documents that match the query of a segment, and ends the search when they are too many.
    pub(super) fn count_documents(&self, number: u64) {
        self.0.documents.fetch_add(number, Relaxed);
        if self.is_exhausted() {
            self.cancel();
        }
    }

    /// The number of counted documents.
    pub(super) fn documents(&self) -> u64 {
        self.0.documents.load(Relaxed)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.documents() > MAX_DOCUMENTS
    }
}

pub(super) struct CancelOnDrop(pub(super) Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A query that finds no more rows once its search is cancelled. The rows found by then are not used.
#[derive(Clone, Debug)]
pub(super) struct Cancellable<T> {
    inner: T,
    cancellation: Cancellation,
}

impl<T> Cancellable<T> {
    pub(super) fn new(inner: T, cancellation: &Cancellation) -> Self {
        Self { inner, cancellation: cancellation.clone() }
    }
}

impl Query for Cancellable<Arc<dyn Query>> {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(Cancellable::new(self.inner.weight(scoring)?, &self.cancellation)))
    }
}

impl Weight for Cancellable<Box<dyn Weight>> {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        if self.cancellation.is_cancelled() {
            return Ok(Box::new(EmptyScorer));
        }
        Ok(Box::new(Cancellable::new(self.inner.scorer(segment, boost)?, &self.cancellation)))
    }

    fn scorer_danger(
        &self,
        segment: &SegmentReader,
        target: DocId,
        boost: Score,
    ) -> tantivy::Result<(SeekDangerResult, Box<dyn Scorer>)> {
        if self.cancellation.is_cancelled() {
            return Ok((SeekDangerResult::SeekLowerBound(TERMINATED), Box::new(EmptyScorer)));
        }
        let (result, scorer) = self.inner.scorer_danger(segment, target, boost)?;
        Ok((result, Box::new(Cancellable::new(scorer, &self.cancellation))))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.inner.explain(segment, doc)
    }
}

impl DocSet for Cancellable<Box<dyn Scorer>> {
    fn advance(&mut self) -> DocId {
        if self.cancellation.is_cancelled() { self.inner.seek(TERMINATED) } else { self.inner.advance() }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.inner.seek(if self.cancellation.is_cancelled() { TERMINATED } else { target })
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        self.inner.seek_danger(if self.cancellation.is_cancelled() { TERMINATED } else { target })
    }

    fn doc(&self) -> DocId {
        self.inner.doc()
    }

    fn size_hint(&self) -> u32 {
        self.inner.size_hint()
    }

    fn cost(&self) -> u64 {
        self.inner.cost()
    }
}

impl Scorer for Cancellable<Box<dyn Scorer>> {
    fn score(&mut self) -> Score {
        self.inner.score()
    }
}

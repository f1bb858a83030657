//! The bounds of one search, and of the searches of one organization.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use tantivy::{
    DocId, DocSet, Score, SegmentReader, TERMINATED,
    query::{BooleanQuery, EnableScoring, Explanation, Query, Scorer, Weight},
};
use thesis_proto::error::ErrorCode;
use tokio::time::timeout;

use super::*;
use crate::search::{cancel::Cancellable, compile::MAX_EXPANSIONS, run::run_in_turn};

fn find(log: &Log, text: &str, narrow: &SearchFilter) -> Result<usize, SearchError> {
    let parsed = parse(text).unwrap();
    log.index.find(Kind::Thesis, &View::live(), &parsed, narrow, Order::Relevance, 50).map(|found| found.len())
}

#[test]
fn a_prefix_matches_a_bounded_number_of_words() {
    let mut log = Log::new();
    let half = MAX_EXPANSIONS / 2;
    let words = |first: &str, count: u32| (0..count).map(|n| format!("{first}{n} ")).collect::<String>();
    log.say(&Dataset::Live, "half", &words("a start b", half), 1);
    log.say(&Dataset::Live, "other half", &words("c", half), 2);
    log.say(&Dataset::Live, "more", &words("d", MAX_EXPANSIONS + 1), 3);
    log.say(&project("one"), "hidden", &words("e", MAX_EXPANSIONS + 1), 4);
    log.index.commit().unwrap();
    let any = SearchFilter::default();
    for (text, expected) in [("b*", 1), ("b* OR c*", 2), ("start-b1*", 1), ("e*", 0), ("d1*", 1)] {
        assert_eq!(find(&log, text, &any).unwrap(), expected, "{text}");
    }
    for (text, named) in [("d*", "d"), ("start-d*", "d"), ("b* OR c* OR b*", "b"), ("half d* b*", "d")] {
        let refused = find(&log, text, &any);
        assert!(matches!(&refused, Err(SearchError::TooBroad(prefix)) if prefix == named), "{text}: {refused:?}");
    }
    let error = crate::error::Error::from(SearchError::TooBroad("d".to_owned())).api;
    assert_eq!((error.code, error.param.as_deref()), (ErrorCode::ValidationFailed, Some("q")));
    assert!(error.field_errors().any(|field| field.message.contains("`d*`")), "{error:?}");
}

#[test]
fn a_cancelled_search_finds_nothing() {
    let mut log = Log::new();
    for n in 0..100 {
        log.say(&Dataset::Live, &format!("{n}"), "some word", n);
    }
    log.index.commit().unwrap();
    for text in ["word", "some-wor*", "wo*", "\"some word\" OR -none some"] {
        let narrow = SearchFilter::default();
        assert_eq!(find(&log, text, &narrow).unwrap(), 50, "{text}");
        narrow.cancellation.cancel();
        assert!(matches!(find(&log, text, &narrow), Err(SearchError::Cancelled)), "{text}");
    }
    let narrow = SearchFilter::default();
    narrow.cancellation.cancel();
    assert!(matches!(log.index.likes_page(&View::live(), &narrow, None, 9), Err(SearchError::Cancelled)));
}

/// A query that matches every document, counts the steps over them, and cancels the search at one of its steps.
#[derive(Clone, Debug)]
struct Watched {
    cancellation: Cancellation,
    cancels_at: usize,
    /// Scorers that were built, and steps of all of them.
    steps: Arc<AtomicUsize>,
    doc: DocId,
    end: DocId,
}

impl Watched {
    fn step(&self) {
        if self.steps.fetch_add(1, Relaxed) == self.cancels_at {
            self.cancellation.cancel();
        }
    }
}

impl Query for Watched {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for Watched {
    fn scorer(&self, segment: &SegmentReader, _: Score) -> tantivy::Result<Box<dyn Scorer>> {
        self.step();
        Ok(Box::new(Self { end: segment.max_doc(), ..self.clone() }))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Ok(Explanation::new("watched", 1.0))
    }
}

impl DocSet for Watched {
    fn advance(&mut self) -> DocId {
        self.step();
        self.doc = if self.doc + 1 < self.end { self.doc + 1 } else { TERMINATED };
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.step();
        self.doc = if target < self.end { target } else { TERMINATED };
        self.doc
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.end
    }
}

impl Scorer for Watched {
    fn score(&mut self) -> Score {
        1.0
    }
}

#[test]
fn a_search_stops_where_it_is_cancelled() {
    let mut log = Log::new();
    for n in 0..1_000 {
        log.say(&Dataset::Live, &format!("{n}"), "word", n);
    }
    log.index.commit().unwrap();
    let searchers = log.index.searchers(&View::live(), Kind::Thesis, &SearchFilter::default()).unwrap();
    let searcher = &searchers[0][0];
    let search = |combine: fn(Vec<Box<dyn Query>>) -> BooleanQuery, cancels_at: usize| {
        let watched =
            Watched { cancellation: Cancellation::default(), cancels_at, steps: Arc::default(), doc: 0, end: 0 };
        let part = || -> Box<dyn Query> {
            Box::new(Cancellable::new(Arc::new(watched.clone()) as Arc<dyn Query>, &watched.cancellation))
        };
        let query = combine(vec![part(), part(), part()]);
        searcher.search(&query, &Best::new(Order::Relevance, None, 9)).unwrap();
        watched.steps.load(Relaxed)
    };
    let segments = searcher.segment_readers().len();
    for combine in [BooleanQuery::intersection, BooleanQuery::union] {
        assert!(search(combine, usize::MAX) >= 1_000);
        // While the first scorer is built: no other is, and one step ends that one.
        assert!(search(combine, 0) <= 2);
        let stopped = search(combine, 100);
        assert!(stopped <= 100 + 3 * (segments + 2), "{stopped}");
    }
}

/// Begins a search of an organization. It ends when the sender is dropped.
fn blocked(
    index: &Arc<SearchIndex>,
    organization: &'static str,
) -> (mpsc::Sender<()>, tokio::task::JoinHandle<crate::error::Result<()>>) {
    let (end, ended) = mpsc::channel::<()>();
    let index = Arc::clone(index);
    let searching = tokio::spawn(async move {
        run_in_turn(&index, organization, &Cancellation::default(), move |_| {
            let _ended = ended.recv();
            Ok(())
        })
        .await
    });
    (end, searching)
}

async fn finds(index: &Arc<SearchIndex>, organization: &str) -> crate::error::Result<()> {
    run_in_turn(index, organization, &Cancellation::default(), |_| Ok(())).await
}

#[tokio::test]
async fn one_organization_leaves_threads_and_places_to_others() {
    let index = Arc::new(SearchIndex::open(None).unwrap());
    let mut searches: Vec<_> = (0..16).map(|_| blocked(&index, "greedy")).collect();
    let refused = loop {
        tokio::task::yield_now().await;
        match timeout(Duration::from_millis(1), finds(&index, "greedy")).await {
            Ok(outcome) => break outcome.unwrap_err().api,
            Err(_) => continue,
        }
    };
    assert_eq!((refused.code, refused.retry_after), (ErrorCode::RateLimited, Some(1)));
    finds(&index, "other").await.unwrap();
    for (end, searching) in searches.drain(..) {
        drop(end);
        searching.await.unwrap().unwrap();
    }
    finds(&index, "greedy").await.unwrap();
}

#[tokio::test]
async fn a_search_that_takes_too_long_is_cancelled_and_refused() {
    let index = Arc::new(SearchIndex::open(None).unwrap());
    let cancellation = Cancellation::default();
    let seen = cancellation.clone();
    let (cancelled, was_cancelled) = mpsc::channel();
    let searching = run_in_turn(&index, "one", &cancellation, move |_| {
        while !seen.is_cancelled() {
            std::hint::spin_loop();
        }
        let _sent = cancelled.send(());
        Ok(())
    });
    let error = searching.await.unwrap_err().api;
    assert_eq!((error.code, error.retry_after), (ErrorCode::ServiceUnavailable, Some(1)));
    was_cancelled.recv_timeout(Duration::from_secs(10)).unwrap();
    finds(&index, "one").await.unwrap();
}

//! What one search, and the searches of one project, may cost.

use std::{sync::mpsc, time::Duration};

use thesis_proto::error::ErrorCode;
use tokio::time::timeout;

use super::*;
use crate::search::{Cancellation, ask::in_turn, compile::MAX_EXPANSIONS};

fn find(log: &Log, text: &str, narrow: &SearchFilter) -> Result<usize, SearchError> {
    let looked = parse(text).unwrap();
    log.index.theses(&View::live(), &looked, narrow, false, 50).map(|found| found.len())
}

#[test]
fn a_prefix_stands_for_a_bounded_number_of_words() {
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

/// Begins searches of a project that run until they are told to end.
fn blocked(
    index: &Arc<SearchIndex>,
    project: &'static str,
) -> (mpsc::Sender<()>, tokio::task::JoinHandle<crate::error::Result<()>>) {
    let (end, ended) = mpsc::channel::<()>();
    let index = Arc::clone(index);
    let searching = tokio::spawn(async move {
        in_turn(&index, project, &Cancellation::default(), move |_| {
            let _ended = ended.recv();
            Ok(())
        })
        .await
    });
    (end, searching)
}

async fn finds(index: &Arc<SearchIndex>, project: &str) -> crate::error::Result<()> {
    in_turn(index, project, &Cancellation::default(), |_| Ok(())).await
}

#[tokio::test]
async fn one_project_leaves_threads_and_places_to_others() {
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
    let searching = in_turn(&index, "one", &cancellation, move |_| {
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

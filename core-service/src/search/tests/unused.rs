//! Projects that nobody searches leave an index in memory, and come back whole.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

const HALF_HOUR_MS: i64 = 30 * 60_000;

/// An index with a thesis each of `live`, of the sandbox and of two projects. All were requested.
fn in_use(index: SearchIndex) -> Log {
    let mut log = Log::on(index);
    for dataset in [Dataset::Live, Dataset::Sandbox, project("prj_one"), project("prj_two")] {
        log.index.request_dataset(&dataset);
        log.index.set_start(&dataset, 1);
        log.say(&dataset, "a", "secret word", 0);
    }
    log.index.commit().unwrap();
    log
}

fn found(log: &Log, project: &str) -> usize {
    let (view, word) = (View::test(project), parse("secret").unwrap());
    log.index.find(Kind::Thesis, &view, &word, &SearchFilter::default(), Order::Relevance, 9).unwrap().len()
}

#[tokio::test]
async fn a_project_without_requests_for_half_an_hour_is_dropped_and_comes_back_whole() {
    let mut log = in_use(SearchIndex::open(None).unwrap());
    let (one, two) = (project("prj_one"), project("prj_two"));
    let handle = ProfileObserved { profile: profile("@alice", "x") };
    log.add(&one, EntryKind::ProfileObserved(handle));
    log.index.commit().unwrap();
    let near = |log: &Log| {
        let until = Instant::now() + Duration::from_mins(1);
        log.index.near_profiles(&View::test("prj_one"), "alcie", 9, until).unwrap().len()
    };
    assert_eq!((found(&log, "prj_one"), near(&log)), (2, 1));
    assert!(log.index.unused(0).is_empty());
    log.index.request_dataset(&two);
    assert!(log.index.unused(HALF_HOUR_MS - 1).is_empty());
    let unused = log.index.unused(HALF_HOUR_MS);
    assert_eq!(unused, std::slice::from_ref(&one), "the other had a request since, and two are everybody's");
    log.index.drop_datasets(&unused).unwrap();

    assert_eq!((found(&log, "prj_one"), near(&log), log.index.position(&one)), (1, 0, 0));
    assert_eq!((found(&log, "prj_two"), log.index.position(&two)), (2, 1));
    assert_eq!([&one, &two, &Dataset::Live].map(|dataset| log.index.follows(dataset)), [false, true, true]);
    assert!(log.index.unused(HALF_HOUR_MS).is_empty());

    // A part of it is no whole.
    log.index.request_dataset(&one);
    let mut whole = Box::pin(log.index.wait_until_complete(&one));
    assert!(futures::poll!(&mut whole).is_pending());
    assert_eq!(log.index.datasets_without_start(), std::slice::from_ref(&one));
    log.index.set_start(&one, 2);
    log.index.apply(&one, &log.entries["project/prj_one"][..1]).unwrap();
    log.index.commit().unwrap();
    assert!(futures::poll!(&mut whole).is_pending());
    log.index.apply(&one, &log.entries["project/prj_one"]).unwrap();
    log.index.commit().unwrap();
    whole.await;
    assert_eq!((found(&log, "prj_one"), near(&log)), (2, 1));
}

#[tokio::test]
async fn a_request_while_a_project_is_dropped_waits_until_it_is_whole_again() {
    let log = in_use(SearchIndex::open(None).unwrap());
    let one = project("prj_one");
    assert!(log.index.unused(0).is_empty());
    let unused = log.index.unused(HALF_HOUR_MS);
    assert_eq!(unused.len(), 2);
    log.index.request_dataset(&one);
    log.index.drop_datasets(&unused).unwrap();
    let mut whole = Box::pin(log.index.wait_until_complete(&one));
    assert!(futures::poll!(&mut whole).is_pending());
    log.index.set_start(&one, 1);
    log.index.apply(&one, &log.entries["project/prj_one"]).unwrap();
    log.index.commit().unwrap();
    whole.await;
    assert_eq!(found(&log, "prj_one"), 2);
}

#[test]
fn an_index_on_a_disk_drops_no_project_and_forgets_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let log = in_use(files::open(folder.path()));
    let one = project("prj_one");
    assert!(log.index.unused(0).is_empty());
    log.index.request_dataset(&one);
    assert!(log.index.datasets_without_start().is_empty(), "it is not the first request");
    // The next call dates that request.
    for now_ms in [0, HALF_HOUR_MS - 1] {
        assert!(log.index.unused(now_ms).is_empty());
    }
    assert_eq!(log.index.requests.lock().len(), 4);
    assert!(log.index.unused(HALF_HOUR_MS).is_empty());
    assert_eq!(log.index.requests.lock().len(), 2, "two are everybody's");
    assert!(log.index.follows(&project("prj_never_asked_for")));
    assert_eq!((found(&log, "prj_one"), log.index.position(&one)), (2, 1));

    // The next request finds out again how far the log reaches, and the index has all of it.
    log.index.request_dataset(&one);
    assert_eq!(log.index.datasets_without_start(), std::slice::from_ref(&one));
    log.index.set_start(&one, 1);
    assert!(log.index.datasets_without_start().is_empty());
    assert_eq!(found(&log, "prj_one"), 2);
}

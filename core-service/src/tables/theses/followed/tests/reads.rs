//! Reads of the position of a log that requests share.

use super::*;
use crate::tests::harness::give_up;

#[tokio::test]
async fn waiting_requests_share_one_read_of_the_position() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    writer.write(&[(0, 0)]).await;
    let (view, before) = (View::live(), store.calls(&schema::LOG_CHECKPOINT));
    let held = store.hold().await;
    let requests = join_all((0..20).map(|_| theses.reader(&view)));
    let release = async move {
        yield_now().await;
        drop(held);
    };
    let (readers, ()) = join(requests, release).await;
    assert!(readers.iter().all(Result::is_ok));
    // The first request began a read, and the others, which came during that read, share the next.
    assert_eq!(store.calls(&schema::LOG_CHECKPOINT) - before, 2);
    store.set_away(true);
    let readers = join_all((0..20).map(|_| theses.reader(&view))).await;
    assert!(readers.iter().all(Result::is_err));
    store.set_away(false);
    assert!(theses.reader(&view).await.is_ok());
}

#[test]
fn a_failed_read_fails_only_the_requests_that_wait_for_it() {
    let away = || Err(StoreError::Unavailable("away".to_owned()));
    let mut reads = PositionReads::default();
    for (number, outcome) in [(1, Ok(())), (2, away()), (3, away())] {
        assert_eq!(reads.begin(), Some(number));
        assert_eq!(reads.begin(), None, "the first is not slow");
        reads.end(number, &outcome);
    }
    assert!(matches!(reads.outcome(1), Some(Ok(()))));
    assert!(matches!(reads.outcome(3), Some(Err(_))));
    assert!(reads.outcome(4).is_none());
}

#[tokio::test]
async fn one_failed_read_fails_no_request() {
    let store = Slow::new(1);
    let theses = ThesisStore::new(store.clone());
    store.failing.store(1, Ordering::SeqCst);
    let view = View::live();
    let readers = join_all((0..20).map(|_| theses.reader(&view))).await;
    assert!(readers.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_does_not_end_holds_up_no_request() {
    let store = Slow::new(1);
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    writer.write(&[(0, 0)]).await;
    store.stuck.store(1, Ordering::SeqCst);
    let begun_at = Instant::now();
    assert_eq!(stamps(&theses, 0).await.unwrap(), [1, 0, 0]);
    assert!(begun_at.elapsed() < 2 * SLOW_READ, "{:?}", begun_at.elapsed());
}

#[tokio::test]
async fn a_read_goes_on_although_its_request_gives_up() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    writer.write(&[(0, 0)]).await;
    let view = View::live();
    let held = store.hold().await;
    give_up(theses.reader(&view)).await;
    let followed = theses.followed.as_ref().unwrap().view(&view);
    assert!(!followed.reads.borrow().running.is_empty());
    drop(held);
    let mut reads = followed.reads.subscribe();
    reads.wait_for(|reads| reads.running.is_empty()).await.unwrap();
    assert_eq!(followed.logs[0].cached.lock().position, 1);
}

#[tokio::test]
async fn a_log_that_cannot_be_read_makes_rows_be_read_again() {
    let store = Slow::new(1);
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    writer.write(&[(0, 0), (1, 0)]).await;
    assert_eq!(stamps(&theses, 0).await.unwrap(), [1, 2, 0]);
    writer.write(&[(0, 0)]).await;
    store.is_log_unreadable.store(true, Ordering::SeqCst);
    assert_eq!(stamps(&theses, 0).await.unwrap(), [3, 2, 0]);
}

#[tokio::test]
async fn entries_are_read_only_for_cached_rows() {
    let store = SharedMemory::new(&ManualClock::new());
    let backend: SharedBackend = store.clone();
    let (theses, mut writer) = (ThesisStore::new(Arc::clone(&backend)), OtherWriter::new(&backend));
    writer.write(&[(0, 0)]).await;
    let view = View::live();
    theses.reader(&view).await.unwrap();
    writer.write(&[(0, 0)]).await;
    let before = store.scans(&schema::EVENT_LOG);
    theses.reader(&view).await.unwrap();
    assert_eq!(store.scans(&schema::EVENT_LOG), before);
    assert_eq!(stamps(&theses, 0).await.unwrap(), [2, 0, 0]);
    writer.write(&[(0, 0)]).await;
    let before = store.scans(&schema::EVENT_LOG);
    assert_eq!(stamps(&theses, 0).await.unwrap(), [3, 0, 0]);
    assert_eq!(store.scans(&schema::EVENT_LOG) - before, 1);
}

#[tokio::test]
async fn a_core_follows_a_bounded_number_of_logs() {
    let theses = ThesisStore::new(SharedMemory::new(&ManualClock::new()));
    let followed = theses.followed.as_ref().unwrap();
    for number in 0..4 * MAX_LOGS {
        followed.catch_up(&View::test(&number.to_string())).await.unwrap();
    }
    let followed = [followed.logs.len(), followed.views.len()];
    assert!(followed.iter().all(|number| *number < 2 * MAX_LOGS), "{followed:?}");
}

//! The theses of a window, and the documents that finding them reads.

use thesis_proto::error::ErrorCode;

use super::*;
use crate::{domain::window::DAY_MS, search::cancel::MAX_DOCUMENTS};

fn since(day: i64) -> SearchFilter {
    SearchFilter { floor: Floor::first(Some(day * DAY_MS), 0).unwrap(), ..SearchFilter::default() }
}

/// Adds ten theses of a day. Each has as many likes as the day has.
fn say_ten(log: &mut Log, day: i64) {
    for number in 0..10 {
        let created_at = day * DAY_MS + number;
        let thesis = thesis(&Dataset::Live, &format!("{day} {number}"), "common word", created_at);
        log.add(&Dataset::Live, created(Thesis { likes: Some(day), ..thesis }));
    }
}

#[test]
fn a_list_by_likes_reads_the_days_of_its_window() {
    let mut log = Log::new();
    (0..28).for_each(|day| say_ten(&mut log, day));
    log.index.commit().unwrap();
    let narrow = since(21);
    assert_eq!(log.index.likes_page(&View::live(), &narrow, None, 100).unwrap().len(), 70);
    assert_eq!(narrow.cancellation.documents(), 70);
}

#[test]
fn segments_that_cannot_hold_a_result_are_skipped() {
    let mut log = Log::new();
    // So few segments are not merged.
    for day in 0..6 {
        say_ten(&mut log, day);
        log.index.commit().unwrap();
    }
    let find = |narrow: &SearchFilter, order| {
        let parsed = parse("common").unwrap();
        log.index.find(Kind::Thesis, &View::live(), &parsed, narrow, order, 5).unwrap();
        narrow.cancellation.documents()
    };
    assert_eq!(find(&since(0), Order::Relevance), 60);
    assert_eq!(find(&since(4), Order::Relevance), 20);
    assert_eq!(find(&SearchFilter { to: DAY_MS - 1, ..since(0) }, Order::Relevance), 10);
    assert_eq!(find(&since(0), Order::Newest), 10);
    let narrow = since(0);
    assert_eq!(log.index.likes_page(&View::live(), &narrow, None, 5).unwrap().len(), 5);
    assert_eq!(narrow.cancellation.documents(), 10);
}

#[test]
fn a_request_that_reads_too_many_documents_is_refused() {
    let mut log = Log::new();
    say_ten(&mut log, 0);
    log.index.commit().unwrap();
    let narrow = SearchFilter::default();
    narrow.cancellation.count_documents(MAX_DOCUMENTS - 10);
    let list = || log.index.likes_page(&View::live(), &narrow, None, 10);
    assert_eq!(list().unwrap().len(), 10);
    let refused = list().unwrap_err();
    assert!(matches!(refused, SearchError::Exhausted), "{refused:?}");
    let error = crate::error::Error::from(refused).api;
    assert_eq!((error.code, error.param.as_deref()), (ErrorCode::ValidationFailed, Some("created_after")));
}

#[test]
fn a_segment_that_holds_only_positions_has_no_times() {
    let mut log = Log::new();
    let sandbox = Dataset::Sandbox;
    log.say(&sandbox, "a", "words", 5 * DAY_MS);
    log.index.commit().unwrap();
    // The entry moves the position and has no row.
    let gone = ThesisDeleted { thesis: thesis(&sandbox, "b", "words", 5 * DAY_MS), ..ThesisDeleted::default() };
    log.add(&sandbox, EntryKind::ThesisDeleted(gone));
    log.index.commit().unwrap();
    let searchers = log.index.searchers(&View::test("none"), Kind::Thesis, &since(5)).unwrap();
    assert_eq!(searchers[0][0].segment_readers().len(), 2);
    assert_eq!(segments::days_of(&searchers[0][0], 5 * DAY_MS, i64::MAX).unwrap(), None);
    for (day, found) in [(0, 1), (5, 1), (6, 0)] {
        assert_eq!(liked(&log, &View::test("none"), &since(day), 5).len(), found, "{day}");
    }
}

/// A thesis of the property test: its dataset, its likes, its day, and whether it is deleted.
type Said = (usize, Option<i64>, i64, bool);

/// The theses that a list by likes shows, page by page.
pub(super) fn liked(log: &Log, view: &View, narrow: &SearchFilter, size: usize) -> Vec<(Option<i64>, i64, String)> {
    let mut found: Vec<(Option<i64>, i64, String)> = Vec::new();
    loop {
        let after = found.last().map(|(likes, created_at, id)| (*likes, *created_at, id.as_str()));
        let page = log.index.likes_page(view, narrow, after, size).unwrap();
        let full = page.len() == size;
        found.extend(page.into_iter().map(|liked| (liked.likes, liked.created_at, liked.id)));
        if !full {
            return found;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_window_shows_its_theses_in_order(
        said in prop::collection::vec((0..3_usize, prop::option::of(-2..3_i64), 0..150_i64, any::<bool>()), 0..40),
        (from, length) in (0..150_i64, 0..100_i64),
        size in 1..7_usize,
        commits in 1..9_usize,
        by_profile: bool,
    ) {
        let mut log = Log::new();
        let datasets = [Dataset::Live, Dataset::Sandbox, project("one")];
        let to = (from + length) * DAY_MS;
        let profile = by_profile.then(|| derive("fp_", &["ana"]));
        let narrow = SearchFilter { to, profile, ..since(from) };
        let mut expected = Vec::new();
        for (number, row) in said.iter().enumerate() {
            let (dataset, likes, day, is_deleted): Said = *row;
            let dataset = &datasets[dataset];
            let created_at = day * DAY_MS + i64::try_from(number).unwrap();
            let row = Thesis { likes, ..thesis(dataset, &number.to_string(), "some word", created_at) };
            log.add(dataset, created(row.clone()));
            if is_deleted {
                let deleted = ThesisDeleted { thesis: row, ..ThesisDeleted::default() };
                log.add(dataset, EntryKind::ThesisDeleted(deleted));
            } else if (from * DAY_MS..=to).contains(&created_at) {
                expected.push((dataset.clone(), (likes, created_at, row.id)));
            }
            if number % commits == 0 {
                log.index.commit().unwrap();
            }
        }
        log.index.commit().unwrap();
        for view in [View::live(), View::test("one")] {
            let of_view = expected.iter().filter(|(dataset, _)| view.datasets().contains(dataset));
            let mut of_view: Vec<_> = of_view.map(|(_, row)| row.clone()).collect();
            of_view.sort_by(|a, b| b.cmp(a));
            prop_assert_eq!(&liked(&log, &view, &narrow, size), &of_view);

            of_view.sort_by(|a, b| (b.1, &b.2).cmp(&(a.1, &a.2)));
            let ids: Vec<String> = of_view.into_iter().map(|(_, _, id)| id).collect();
            let find = |order, limit| {
                let found = log.index.find(Kind::Thesis, &view, &parse("word").unwrap(), &narrow, order, limit);
                found.unwrap().into_iter().map(|(_, id)| id).collect::<Vec<_>>()
            };
            prop_assert_eq!(find(Order::Newest, size), &ids[..size.min(ids.len())]);
            // All have equal scores.
            prop_assert_eq!(find(Order::Relevance, 50), ids);
        }
    }
}

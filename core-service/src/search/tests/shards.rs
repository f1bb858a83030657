//! The months of `live` together are one index, and each of them stands alone.

use std::{fs, path::Path};

use super::{
    files::{GENERATION, file, open},
    *,
};
use crate::domain::window::DAY_MS;

/// The start of a month of the index.
pub(super) fn month(number: i64) -> i64 {
    number * 30 * DAY_MS
}

/// Finds the theses since the start of a month, newest first.
pub(super) fn find_since(index: &SearchIndex, first: i64) -> Result<Vec<(Dataset, String)>, SearchError> {
    let floor = Floor::first(Some(month(first)), 0).unwrap();
    let narrow = SearchFilter { floor, ..SearchFilter::default() };
    index.find(Kind::Thesis, &View::live(), &parse("words").unwrap(), &narrow, Order::Newest, 50)
}

#[test]
fn a_window_reads_no_older_months() {
    let mut log = Log::new();
    let mut read = Vec::new();
    for number in (0..20).rev() {
        for thesis in 0..10 {
            log.say(&Dataset::Live, &format!("{number} {thesis}"), "words", month(number) + thesis);
        }
        log.index.commit().unwrap();
        let narrow = SearchFilter { floor: Floor::first(Some(month(18)), 0).unwrap(), ..SearchFilter::default() };
        let parsed = parse("words").unwrap();
        log.index.find(Kind::Thesis, &View::live(), &parsed, &narrow, Order::Relevance, 50).unwrap();
        read.push(narrow.cancellation.documents());
    }
    assert_eq!(read[0], 10);
    assert!(read[1..].iter().all(|documents| *documents == 20), "{read:?}");
}

/// An index in a folder with a thesis in each of five months and in the sandbox, closed.
pub(super) fn five_months(folder: &Path) -> Vec<SequencedEntry> {
    let mut log = Log::on(open(folder));
    for number in 0..5 {
        log.say(&Dataset::Live, &number.to_string(), "words", month(number));
    }
    log.say(&Dataset::Sandbox, "a", "words", 0);
    log.index.commit().unwrap();
    assert_eq!(find_since(&log.index, 0).unwrap().len(), 5);
    log.entries.remove("live").unwrap()
}

/// Ways to damage a month.
const HARMS: [fn(&Path); 4] = [
    |dir| fs::remove_dir_all(dir).unwrap(),
    |dir| fs::write(dir.join("meta.json"), "{}").unwrap(),
    |dir| fs::remove_file(file(dir, "term")).unwrap(),
    |dir| {
        let places = file(dir, "idx");
        let mut bytes = fs::read(&places).unwrap();
        bytes[0] ^= 1;
        fs::write(places, bytes).unwrap();
    },
];

#[test]
fn a_damaged_month_is_rebuilt_alone() {
    for harm in HARMS {
        let folder = tempfile::tempdir().unwrap();
        let entries = five_months(folder.path());
        harm(&folder.path().join("live-1"));
        let mut log = Log::on(open(folder.path()));
        assert_eq!((log.index.position(&Dataset::Live), log.index.position(&Dataset::Sandbox)), (5, 1));
        assert_eq!(log.index.rebuild_range().unwrap(), Some((0, 5)));
        assert_eq!(find_since(&log.index, 2).unwrap().len(), 3);
        assert!(matches!(find_since(&log.index, 1), Err(SearchError::Closed)), "a part would look like a whole");

        // New entries of that month and of another one arrive meanwhile.
        log.entries.insert("live".to_owned(), entries);
        log.say(&Dataset::Live, "5", "words", month(1) + 1);
        log.say(&Dataset::Live, "6", "words", month(2) + 1);
        log.index.commit().unwrap();
        assert_eq!(find_since(&log.index, 2).unwrap().len(), 4);
        let entries = log.entries.remove("live").unwrap();
        log.index.rebuild(&entries[..3]).unwrap();
        log.index.commit().unwrap();
        assert!(matches!(find_since(&log.index, 0), Err(SearchError::Closed)));
        drop(log);

        let index = open(folder.path());
        assert_eq!((index.position(&Dataset::Live), index.rebuild_range().unwrap()), (7, Some((3, 7))));
        index.rebuild(&entries[3..]).unwrap();
        index.commit().unwrap();
        assert_eq!(index.rebuild_range().unwrap(), None);
        let ids = |names: [&str; 7]| names.map(|name| (Dataset::Live, thesis(&Dataset::Live, name, "", 0).id));
        assert_eq!(find_since(&index, 0).unwrap(), ids(["4", "3", "6", "2", "5", "1", "0"]));
        drop(index);
        assert_eq!(find_since(&open(folder.path()), 0).unwrap().len(), 7);
    }
}

#[test]
fn months_are_opened_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    five_months(folder.path());
    let index = SearchIndex::open(Some(SearchFolder::lock(folder.path()).unwrap())).unwrap();
    index.reopen(GENERATION).unwrap();
    for first in (0..5).rev() {
        assert!(matches!(find_since(&index, first), Err(SearchError::Closed)), "{first}");
        assert!(index.open_month(0, false).unwrap());
        assert_eq!(find_since(&index, first).unwrap().len(), usize::try_from(5 - first).unwrap());
    }
    assert!(!index.open_month(0, false).unwrap());
}

#[test]
fn a_month_that_cannot_be_read_now_is_tried_again_and_lacks_nothing() {
    for restarts in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let entries = five_months(folder.path());
        let (words, aside) = (file(&folder.path().join("live-4"), "term"), folder.path().join("aside"));
        fs::rename(&words, &aside).unwrap();
        // A folder cannot be mapped into memory, as no file can when there is no memory.
        fs::create_dir(&words).unwrap();
        fs::write(words.join("content"), "").unwrap();
        let index = open(folder.path());
        let mut log = Log { index, entries: BTreeMap::from([("live".to_owned(), entries)]) };
        let find = |index: &SearchIndex, to: i64| {
            let narrow = SearchFilter { to, ..SearchFilter::default() };
            let parsed = parse("words").unwrap();
            index.find(Kind::Thesis, &View::live(), &parsed, &narrow, Order::Newest, 50).map(|found| found.len())
        };
        log.say(&Dataset::Live, "5", "words", month(4) + 1);
        log.say(&Dataset::Live, "6", "words", month(3) + 1);
        log.index.commit().unwrap();
        assert_eq!(find(&log.index, month(4) - 1).unwrap(), 5);
        assert!(matches!(find(&log.index, month(4)), Err(SearchError::Closed)) && !log.index.is_failing());

        fs::remove_dir_all(&words).unwrap();
        fs::rename(&aside, &words).unwrap();
        let Log { mut index, entries } = log;
        if restarts {
            drop(index);
            index = open(folder.path());
        } else {
            assert!(!index.open_month(29_999, false).unwrap());
            assert!(index.open_month(30_000, false).unwrap());
        }
        assert_eq!(index.rebuild_range().unwrap(), Some((5, 7)), "only what came meanwhile");
        index.rebuild(&entries["live"][5..]).unwrap();
        index.commit().unwrap();
        assert_eq!((find(&index, month(4) + 1).unwrap(), index.rebuild_range().unwrap()), (7, None));
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn months_that_were_committed_before_a_crash_get_their_entries_again() {
    let (folder, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (common, live) = (folder.path().join("common"), Dataset::Live);
    let entries = five_months(folder.path());
    copy_files(&common, aside.path());
    let mut log = Log { index: open(folder.path()), entries: BTreeMap::from([("live".to_owned(), entries)]) };
    let gone = ThesisDeleted { thesis: thesis(&live, "3", "words", month(3)), ..ThesisDeleted::default() };
    log.add(&live, EntryKind::ThesisDeleted(gone));
    log.say(&live, "5", "words", month(4) + 1);
    log.say(&live, "6", "words", month(5));
    log.index.commit().unwrap();
    let Log { index, entries } = log;
    let expected = find_since(&index, 0).unwrap();
    assert_eq!(expected.len(), 6);
    drop(index);
    // The core ended after the commits of the months and before that of the common shard.
    fs::remove_dir_all(&common).unwrap();
    copy_files(aside.path(), &common);

    let index = open(folder.path());
    assert_eq!((index.position(&live), index.rebuild_range().unwrap()), (5, None));
    assert!(!folder.path().join("live-5").exists());
    index.apply(&live, &entries["live"]).unwrap();
    index.commit().unwrap();
    assert_eq!((index.position(&live), find_since(&index, 0).unwrap()), (8, expected));
}

#[test]
fn changes_of_many_months_are_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::on(open(folder.path()));
    // More commits than segments that are merged at once.
    for round in 0..12 {
        for number in 0..10 {
            log.say(&Dataset::Live, &format!("{number} {round}"), "words", month(number) + round);
        }
        log.index.commit().unwrap();
        if round < 4 {
            // No merge has begun, so only the newest month has a writer with threads.
            assert_eq!(log.index.write(|writer| Ok(writer.open_writers())).unwrap(), 1);
        }
    }
    assert_eq!(find_since(&log.index, 0).unwrap().len(), 50);
    assert_eq!(windows::liked(&log, &View::live(), &SearchFilter::default(), 50).len(), 120);
    // A commit without changes closes all writers of months whose merges have ended.
    log.index.commit().unwrap();
    drop(log);
    let index = open(folder.path());
    assert_eq!((index.position(&Dataset::Live), find_since(&index, 9).unwrap().len()), (120, 12));
}

#[test]
fn a_month_behind_the_last_commit_of_the_positions_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    five_months(folder.path());
    // The core ended after it had created a month and before it committed its position.
    fs::create_dir(folder.path().join("live-5")).unwrap();
    let index = open(folder.path());
    assert_eq!((index.position(&Dataset::Live), index.rebuild_range().unwrap()), (5, None));
    assert!(!folder.path().join("live-5").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// `live` has a shard a month and the sandbox shares one. With the same theses, both give the same results, but not
    /// the same scores.
    #[test]
    fn months_give_what_one_shard_gives(
        said in prop::collection::vec((0..150_i64, prop::option::of(0..3_i64), "[abc]( [abc]){0,3}", 0..4_u8), 1..40),
        (from, length) in (0..150_i64, 0..160_i64),
        text in prop::sample::select(vec!["a", "a b", "a OR b", "\"a b\"", "b -c", "a*"]),
        size in 1..7_usize,
        commits in 1..9_usize,
    ) {
        let mut log = Log::new();
        let datasets = [Dataset::Live, Dataset::Sandbox];
        for (number, (day, likes, words, fate)) in said.iter().enumerate() {
            let created_at = day * DAY_MS + i64::try_from(number).unwrap();
            let row = thesis(&Dataset::Live, &number.to_string(), words, created_at);
            let row = Thesis { likes: *likes, ..row };
            for dataset in &datasets {
                log.add(dataset, created(row.clone()));
                match *fate {
                    0 => {
                        let deleted = ThesisDeleted { thesis: row.clone(), ..ThesisDeleted::default() };
                        log.add(dataset, EntryKind::ThesisDeleted(deleted));
                    }
                    1 => {
                        let liked = Thesis { likes: Some(9), ..row.clone() };
                        log.add(dataset, EntryKind::Engagement(ThesisChanged { thesis: liked }));
                    }
                    _ => {}
                }
            }
            if number % commits == 0 {
                log.index.commit().unwrap();
            }
        }
        log.index.commit().unwrap();
        let floor = Floor::first(Some(from * DAY_MS), 0).unwrap();
        let narrow = SearchFilter { floor, to: (from + length) * DAY_MS, ..SearchFilter::default() };
        let parsed = parse(text).unwrap();
        // No project of this name has theses.
        let [of_months, of_one] = [View::live(), View::test("none")].map(|view| {
            let find = |order, limit| {
                let found = log.index.find(Kind::Thesis, &view, &parsed, &narrow, order, limit).unwrap();
                found.into_iter().map(|(_, id)| id).collect::<Vec<String>>()
            };
            // The scores of a window follow from the frequencies in its months, so only the matches are the same.
            let mut relevant = find(Order::Relevance, 50);
            relevant.sort();
            (find(Order::Newest, size), windows::liked(&log, &view, &narrow, size), relevant)
        });
        prop_assert_eq!(of_months, of_one);
    }
}

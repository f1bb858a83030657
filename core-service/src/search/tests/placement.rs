//! Months that other cores have.

use std::fs;

use super::{
    files::{GENERATION, open},
    shards::{find_since, five_months, month},
    *,
};
use crate::{
    domain::window::{DAY_MS, MINUTE_MS},
    replicas::members::OtherCore,
    search::schema::VERSION,
    tables::members::SearchPart,
};

/// A time long after all theses.
const NOW_MS: i64 = 1_000 * DAY_MS;

/// Other cores with all months.
fn others() -> Vec<OtherCore> {
    let other = |number: usize| OtherCore {
        replica: format!("rep_{number}"),
        address: format!("http://core-{number}"),
        owns: true,
        search: Some(SearchPart { version: VERSION, months: (0..5).collect() }),
    };
    (1..9).map(other).collect()
}

fn place(index: &SearchIndex, others: Vec<OtherCore>, now_ms: i64) {
    index.place(&index.placement("http://core-0".to_owned(), others, now_ms)).unwrap();
}

#[test]
fn months_of_other_cores_are_deleted_and_come_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let entries = five_months(folder.path());
    let mut log = Log { index: open(folder.path()), entries: BTreeMap::from([("live".to_owned(), entries)]) };
    place(&log.index, others(), NOW_MS);
    place(&log.index, others(), NOW_MS + 10 * MINUTE_MS - 1);
    assert_eq!(log.index.searchable_part().months, [0, 1, 2, 3, 4]);
    place(&log.index, others(), NOW_MS + 10 * MINUTE_MS);
    let here = log.index.searchable_part().months;
    let away: Vec<i64> = (0..5).filter(|month| !here.contains(month)).collect();
    assert!(!away.is_empty(), "most of them belong to the other eight");
    let folder_of = |month: i64| folder.path().join(Shard::Month(month).to_string());
    assert!((0..5).all(|month| folder_of(month).exists() == here.contains(&month)));
    assert!(matches!(find_since(&log.index, 0), Err(SearchError::Closed)));

    // Entries of these months are for the other cores.
    for (name, number) in (5..).zip(&away) {
        log.say(&Dataset::Live, &name.to_string(), "words", month(*number) + 1);
    }
    log.index.commit().unwrap();
    let Log { index, entries } = log;
    drop(index);
    // The core ended before it had deleted a folder.
    fs::create_dir(folder_of(away[0])).unwrap();
    let index = open(folder.path());
    assert_eq!((index.searchable_part().months, index.rebuild_range().unwrap()), (here, None));
    assert!(away.iter().all(|month| !folder_of(*month).exists()));
    let note = fs::read_to_string(folder.path().join("common/meta.json")).unwrap();
    assert!(
        note.contains(GENERATION)
            && away.iter().all(|month| note.contains(&format!("[{{\\\"Month\\\":{month}}},null]")))
    );

    // The other cores are gone, and have left no copy.
    place(&index, Vec::new(), NOW_MS);
    place(&index, Vec::new(), NOW_MS + MINUTE_MS - 1);
    assert_eq!(index.month_to_copy().unwrap(), None);
    place(&index, Vec::new(), NOW_MS + MINUTE_MS);
    while let Some(month) = index.month_to_copy().unwrap() {
        index.give_up_copy(month).unwrap();
        assert!(index.open_month(0, true).unwrap());
    }
    index.rebuild(&entries["live"]).unwrap();
    index.commit().unwrap();
    assert_eq!(find_since(&index, 0).unwrap().len(), 5 + away.len());
}

#[test]
fn a_month_that_waits_for_a_copy_is_left_to_the_cores_to_which_it_belongs() {
    let folder = tempfile::tempdir().unwrap();
    five_months(folder.path());
    for number in 0..5 {
        fs::remove_dir_all(folder.path().join(Shard::Month(number).to_string())).unwrap();
    }
    let index = SearchIndex::open(Some(SearchFolder::lock(folder.path()).unwrap())).unwrap();
    index.reopen(GENERATION).unwrap();
    while index.open_month(0, true).unwrap() {}
    place(&index, others(), NOW_MS);
    let placement = index.placement("http://core-0".to_owned(), others(), NOW_MS);
    while let Some(Shard::Month(month)) = index.month_to_copy().unwrap() {
        assert!(!placement.is_elsewhere(month));
        index.give_up_copy(Shard::Month(month)).unwrap();
    }
    assert!((0..5).any(|month| placement.is_elsewhere(month)));
}

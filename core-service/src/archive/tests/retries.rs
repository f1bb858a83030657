//! Days that cannot be read or built.

use std::path::PathBuf;

use tracing::Level;

use super::*;
use crate::{
    domain::{entry::Entry, window::MINUTE_MS},
    log::writer::Import,
    tables::log::ImportMark,
    tests::harness::LogLines,
};

/// Calls the search, and returns the number of lines that it logged about failures of a day.
async fn count_failures(world: &World, search: &mut Search, log: &LogLines, day: Day) -> usize {
    let lines_about = |text: String| text.lines().filter(|line| line.contains(&format!(" day={day} "))).count();
    let before = lines_about(log.text());
    world.archive().build_missing(&LIVE, search).await.unwrap();
    lines_about(log.text()) - before
}

/// Puts a file where the folder of a day should be, and returns its path.
fn block(world: &World, day: Day) -> PathBuf {
    let folder = world.folder.path().join("live");
    fs::create_dir(&folder).unwrap();
    let blocked = folder.join(day.to_string());
    fs::write(&blocked, "").unwrap();
    blocked
}

#[tokio::test]
async fn a_day_that_cannot_be_built_holds_up_no_newer_one_and_is_tried_less_and_less_often() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, second) = two_days(&mut world).await;
    let blocked = block(&world, first);
    let (mut search, log) = (Search::default(), LogLines::at(Level::WARN));
    let logging = log.listen();
    assert_eq!(count_failures(&world, &mut search, &log, first).await, 1);
    let text = log.text();
    assert!(text.contains(&format!("dataset=live day={first} error=the archive's storage failed: ")), "{text}");
    assert!(!text.contains(&format!("day={second}")), "{text}");
    assert_eq!([world.listed(first).await.len(), world.listed(second).await.len()], [0, 4]);
    // The waits double up to an hour, also over midnight, when the search begins with the first day again.
    for minutes in [1, 2, 4, 8, 16, 32].into_iter().chain([60; 24]) {
        clock.advance(minutes * MINUTE_MS - 1);
        assert_eq!(count_failures(&world, &mut search, &log, first).await, 0, "before {minutes} minutes");
        clock.advance(1);
        assert_eq!(count_failures(&world, &mut search, &log, first).await, 1, "after {minutes} minutes");
    }
    fs::remove_file(blocked).unwrap();
    clock.advance(HOUR_MS);
    assert_eq!(count_failures(&world, &mut search, &log, first).await, 0);
    assert_eq!(world.listed(first).await.len(), 4);
    // After a success the first wait is a minute again, for files that cannot be checked too.
    fs::remove_dir_all(world.folder.path().join("live")).unwrap();
    fs::write(world.folder.path().join("live"), "").unwrap();
    clock.advance(DAY_MS);
    assert_eq!(count_failures(&world, &mut search, &log, first).await, 1);
    clock.advance(MINUTE_MS - 1);
    assert_eq!(count_failures(&world, &mut search, &log, first).await, 0, "its rows are as before");
    clock.advance(1);
    assert_eq!(count_failures(&world, &mut search, &log, first).await, 1);
    drop(logging);
    world.core.close().await;
}

#[tokio::test]
async fn a_postponed_day_that_an_operator_builds_is_noticed_at_the_next_search() {
    let clock = ManualClock::new();
    let mut world = World::start(memory(&clock), &clock).await;
    let (first, _) = two_days(&mut world).await;
    let blocked = block(&world, first);
    let mut search = Search::default();
    for minutes in [1, 2, 4, 8] {
        world.archive().build_missing(&LIVE, &mut search).await.unwrap();
        clock.advance(minutes * MINUTE_MS);
    }
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert_eq!(search.open.iter().collect::<Vec<_>>(), [&first]);
    fs::remove_file(blocked).unwrap();
    clock.advance(MINUTE_MS);
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert_eq!((search.open.len(), world.listed(first).await.len()), (1, 0), "its next try is later");
    world.archive().build(&LIVE, first).await.unwrap();
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert!(search.open.is_empty());
    world.core.close().await;
}

#[tokio::test]
async fn the_days_of_an_import_are_built_as_soon_as_it_is_whole() {
    let clock = ManualClock::new();
    let mut source = World::start(memory(&clock), &clock).await;
    let (first, second) = two_days(&mut source).await;
    let log = &source.core.shared.log;
    let head = log.head("live", 0, Consistency::Serial).await.unwrap();
    let copied = log.entries("live", 0, head).await.unwrap();
    let entries: Vec<Entry> = copied.into_iter().map(|sequenced| sequenced.entry).collect();
    let mark = ImportMark { entries: head, sha256: [1; 32] };
    let import = |upto: usize| Import { mark, after: 0, entries: entries[..upto].to_vec() };

    let world = World::start(memory(&clock), &clock).await;
    let mut search = Search::default();
    assert_eq!(world.core.datasets.import_here(&LIVE, import(2)).await.unwrap(), None);
    let log = LogLines::at(Level::WARN);
    let logging = log.listen();
    // The import is logged once.
    for lines in [1, 0] {
        assert_eq!(count_failures(&world, &mut search, &log, first).await, lines);
        assert_eq!(search.open.iter().collect::<Vec<_>>(), [&first, &second]);
    }
    drop(logging);
    assert_eq!(world.core.datasets.import_here(&LIVE, import(entries.len())).await.unwrap(), None);
    world.archive().build_missing(&LIVE, &mut search).await.unwrap();
    assert!(search.open.is_empty());
    assert_eq!([world.listed(first).await.len(), world.listed(second).await.len()], [4, 4]);
    for world in [source, world] {
        world.core.close().await;
    }
}

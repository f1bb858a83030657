//! A new core copies the search index of another core.

use std::{collections::HashSet, fs, path::Path};

use super::*;
use crate::{
    domain::dataset::View,
    search::{
        Kind, Order, SearchFilter, SearchFolder,
        follow::{Follower, copy_missing, round},
        parse,
    },
};

/// A core with a search index in a folder, which only the test brings up to date.
pub(super) async fn start_on(folder: &Path, backend: SharedBackend, number: u64, dial: Option<Dial>) -> Server {
    let search = SearchIndex::open(Some(SearchFolder::lock(folder).unwrap())).unwrap();
    start_with(search, backend, number, dial).await
}

/// Posts theses of `live` in three months of the index.
pub(super) async fn post(core: &Core, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut new = new_thesis(&Dataset::Live, number);
        new.thesis.created_at = i64::from(number % 3) * 35 * DAY_MS + i64::from(number);
        new.thesis.likes = Some(i64::from(number % 5));
        core.datasets.create_here(&Dataset::Live, new).await.unwrap();
    }
}

/// The number of theses that a search finds; none while the index is closed or a month of it is.
fn found(core: &Core) -> Option<usize> {
    let (view, parsed) = (View::live(), parse("thesis").unwrap());
    let found = core.search.find(Kind::Thesis, &view, &parsed, &SearchFilter::default(), Order::Newest, 500);
    found.ok().map(|found| found.len())
}

pub(super) async fn finds(follower: &Follower, core: &Core, theses: usize) {
    let mut checked = HashSet::new();
    until("all theses are found", async || {
        round(follower, &mut checked).await;
        copy_missing(follower).await;
        found(core) == Some(theses)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_core_copies_the_index_and_reads_only_newer_entries() {
    let (backend, folders) = (backend(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let one = start_on(folders[0].path(), backend.clone(), 1, None).await;
    post(&one.core, 0..200).await;
    finds(&one.core.follower(), &one.core, 200).await;
    let copied = one.core.search.position(&Dataset::Live);
    post(&one.core, 200..205).await;

    let beside = backend.beside();
    let two = start_on(folders[1].path(), beside.clone(), 2, None).await;
    until("the first core is known", async || !two.core.peers.reachable().await.is_empty()).await;
    // Nothing else of it reads a log from here on.
    two.core.close().await;
    let follower = Follower { stop: CancellationToken::new(), ..two.core.follower() };
    let before = beside.scanned_rows(&schema::EVENT_LOG);
    finds(&follower, &two.core, 205).await;
    let read = beside.scanned_rows(&schema::EVENT_LOG) - before;
    assert!(copied >= 200 && read < 100, "{read} rows were read after entry {copied}");
    one.kill();
    two.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_whose_copies_break_off_reads_the_log() {
    let (backend, folders) = (backend(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let one = start_on(folders[0].path(), backend.clone(), 1, None).await;
    post(&one.core, 0..30).await;
    finds(&one.core.follower(), &one.core, 30).await;
    let two = start_on(folders[1].path(), backend.clone(), 2, Some(dial_silent(&Arc::default()))).await;
    finds(&two.core.follower(), &two.core, 30).await;
    let names = fs::read_dir(folders[1].path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_str().unwrap().starts_with("copy-")));
    one.kill();
    two.kill();
}

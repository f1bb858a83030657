use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;

use super::*;
use crate::{
    domain::row::Thesis,
    store::{Backend as _, Change, SharedBackend},
    tables::theses::{creation_changes, prolific_changes},
    tests::{
        faulty::MemoryStore,
        harness::{ManualClock, NOON, SharedMemory, memory, shared_memory},
    },
};

const AUTHOR: &str = "fp_author";
const TOKEN: &str = "tk_one";
const PAGE: usize = 25;

/// A thesis of the author, as many days before noon as its number.
fn thesis(number: i64, token: &str) -> Thesis {
    Thesis {
        id: format!("th_{number}"),
        profile_id: AUTHOR.to_owned(),
        token_id: token.to_owned(),
        chain: "base".to_owned(),
        created_at: NOON - number * DAY_MS,
        ..Thesis::default()
    }
}

/// The rows of theses whose author is not known as prolific.
fn rows_of(theses: &[Thesis]) -> Vec<Change> {
    let mut changes = Vec::new();
    theses.iter().for_each(|thesis| creation_changes("live", thesis, 1, |_, _| true, &mut changes));
    changes
}

async fn list(store: &ThesisStore, descending: bool, limit: usize) -> Vec<String> {
    let scopes = [IndexScope::ProfileToken(AUTHOR.to_owned(), TOKEN.to_owned())];
    let slice = IndexSlice { descending, ..EVERYTHING };
    let rows = store.direct_reader().slices(&Dataset::Live, &scopes, &slice, limit).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn many_rows_alone_do_not_make_an_author_prolific() {
    let store = SharedMemory::new(&ManualClock::new());
    let theses = ThesisStore::new(Arc::clone(&store) as SharedBackend);
    let others = i64::from(PROLIFIC_AFTER) + 3;
    let mut written: Vec<_> = (1..=others).map(|number| thesis(number * 50, "tk_other")).collect();
    written.extend([thesis(0, TOKEN), thesis(10_000, TOKEN)]);
    store.apply(rows_of(&written)).await.unwrap();
    assert_eq!(list(&theses, true, 25).await, ["th_0", "th_10000"]);
    assert_eq!(list(&theses, false, 25).await, ["th_10000", "th_0"]);
    assert_eq!(list(&theses, false, 1).await, ["th_10000"]);

    // Once the author is known as prolific, the other index decides.
    let mut changes = Vec::new();
    prolific_changes("live", &thesis(0, TOKEN), 2, |_, _| true, &mut changes);
    let key = key!["live", AUTHOR];
    let body = Some(Bytes::copy_from_slice(&(i64::from(PROLIFIC_AFTER) + 1).to_be_bytes()));
    changes.push(Change { table: &schema::AUTHOR, key, version: 2, body, ttl: None });
    store.apply(changes).await.unwrap();
    assert_eq!(list(&theses, true, 25).await, ["th_0"]);
}

#[tokio::test]
async fn filtering_ends_with_the_bucket_that_has_enough() {
    let store = SharedMemory::new(&ManualClock::new());
    let theses = ThesisStore::new(Arc::clone(&store) as SharedBackend);
    let written: Vec<_> = (0..i64::from(PROLIFIC_AFTER)).map(|number| thesis(number * 1_000, TOKEN)).collect();
    store.apply(rows_of(&written)).await.unwrap();
    let before = store.scans(&schema::THESIS_INDEX);
    assert_eq!(list(&theses, true, 1).await, ["th_0"]);
    assert_eq!(store.scans(&schema::THESIS_INDEX) - before, 1);
    assert_eq!(list(&theses, true, 2).await, ["th_0", "th_1000"]);
}

#[tokio::test]
async fn a_list_goes_on_behind_the_buckets_that_it_reads_first() {
    let clock = ManualClock::new();
    let first_buckets = i64::try_from(FIRST_BUCKETS).unwrap();
    for days in [first_buckets, first_buckets + 1, 2 * first_buckets + 1] {
        let newest_first: Vec<_> = (0..days).map(|number| thesis(number, TOKEN)).collect();
        let oldest_first: Vec<_> = newest_first.iter().rev().cloned().collect();
        let exact = IndexSlice { from: oldest_first[0].created_at, to: NOON, ..EVERYTHING };
        for backend in [memory(&clock), shared_memory(&clock)] {
            backend.apply(rows_of(&newest_first)).await.unwrap();
            let theses = ThesisStore::new(backend);
            // The second time the store guesses the newest bucket.
            for bounds in [&EVERYTHING, &EVERYTHING, &exact, &exact] {
                for (descending, expected) in [(true, &newest_first), (false, &oldest_first)] {
                    all_lists(&theses, &IndexSlice { descending, ..bounds.clone() }, expected).await;
                }
            }
        }
    }
}

/// Reads a list of all theses from its begin, and after each of its theses.
async fn all_lists(store: &ThesisStore, bounds: &IndexSlice, expected: &[Thesis]) {
    let afters = expected.iter().map(|last| Some((last.created_at, last.id.clone())));
    for (start, after) in std::iter::once(None).chain(afters).enumerate() {
        let slice = IndexSlice { after, ..bounds.clone() };
        let rows = store.direct_reader().slices(&Dataset::Live, &[IndexScope::All], &slice, 100).await.unwrap();
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let rest: Vec<&str> = expected[start..].iter().map(|thesis| thesis.id.as_str()).collect();
        assert_eq!(ids, rest, "{slice:?}");
    }
}

/// Number of the theses of a very prolific author: one in half an hour, for almost six years.
const MANY: i64 = 100_000;
/// The numbers of the theses on a rare token. No other token is on its chain.
const RARE: [i64; 3] = [7, 50_000, 99_990];
const RARE_TOKEN: &str = "tk_rare";
const RARE_CHAIN: &str = "rare";

fn one_of_many(number: i64) -> Thesis {
    let common = Thesis { created_at: NOON - number * DAY_MS / 48, ..thesis(number, TOKEN) };
    if RARE.contains(&number) {
        return Thesis { token_id: RARE_TOKEN.to_owned(), chain: RARE_CHAIN.to_owned(), ..common };
    }
    common
}

/// A store with the rows that lists of this author's theses by token or chain could read.
fn store_of_many() -> Arc<SharedMemory> {
    let row = |body| Row { clustering: Vec::new(), body, version: 1 };
    let store = MemoryStore::new(false);
    let mut buckets = HashSet::new();
    for thesis in (0..MANY).map(one_of_many) {
        let of_author = [IndexScope::Profile(AUTHOR.to_owned())];
        let rows = IndexScope::of_prolific(&thesis).into_iter().chain(of_author).map(|scope| {
            let bucket = key!["live", scope.text(), scope.bucket(thesis.created_at)];
            let key = [&bucket[..], &key![thesis.created_at, &thesis.id]].concat();
            buckets.insert(bucket);
            (key, row(scope.body(&thesis)))
        });
        store.fill(&schema::THESIS_INDEX, rows.collect());
    }
    store.fill(&schema::INDEX_BUCKET, buckets.into_iter().map(|key| (key, row(Bytes::new()))).collect());
    let count = (i64::from(PROLIFIC_AFTER) + 1).to_be_bytes();
    store.fill(&schema::AUTHOR, vec![(key!["live", AUTHOR], row(Bytes::copy_from_slice(&count)))]);
    SharedMemory::on(Arc::new(store))
}

#[tokio::test]
async fn a_page_by_token_or_chain_of_an_author_with_100_000_theses_reads_few_rows() {
    let store = store_of_many();
    let theses = ThesisStore::new(Arc::clone(&store) as SharedBackend);
    let common: Vec<i64> = (0..MANY).filter(|number| !RARE.contains(number)).collect();
    let tables = [&schema::THESIS_INDEX, &schema::INDEX_BUCKET];
    let scans = || tables.iter().map(|table| store.scans(table)).sum::<usize>();
    let scanned_rows = || tables.iter().map(|table| store.scanned_rows(table)).sum::<usize>();
    let by_token = |token: &str| IndexScope::ProfileToken(AUTHOR.to_owned(), token.to_owned());
    let by_chain = |chain: &str| IndexScope::ProfileChain(AUTHOR.to_owned(), chain.to_owned());
    for (scope, newest_first) in [
        (by_token(RARE_TOKEN), &RARE[..]),
        (by_chain(RARE_CHAIN), &RARE[..]),
        (by_token(TOKEN), &common[..]),
        (by_chain("base"), &common[..]),
    ] {
        for (descending, skipped) in [(true, 0), (false, 0), (true, 1), (false, 1), (true, 60_000), (false, 60_000)] {
            let mut expected = newest_first.to_vec();
            if !descending {
                expected.reverse();
            }
            // The page begins after the last thesis of those before it.
            let skipped = expected.drain(..skipped.min(expected.len() - 1)).next_back();
            let after = skipped.map(one_of_many).map(|last| (last.created_at, last.id));
            let slice = IndexSlice { descending, after, ..EVERYTHING };
            let before = (scans(), scanned_rows());
            let scopes = std::slice::from_ref(&scope);
            let rows = theses.direct_reader().slices(&Dataset::Live, scopes, &slice, PAGE).await.unwrap();
            let ids: Vec<_> = expected.iter().take(PAGE).map(|number| format!("th_{number}")).collect();
            assert_eq!(rows.into_iter().map(|row| row.id).collect::<Vec<_>>(), ids);
            // The list of buckets, and a slice of each bucket that has rows of the page.
            let work = (scans() - before.0, scanned_rows() - before.1);
            assert!(work.0 <= 6 && work.1 <= 2 * PAGE, "{work:?} scans and rows for {scope:?}, {slice:?}");
        }
    }
}

//! The sizes of appends.

use std::ops::Bound;

use super::*;
use crate::{
    domain::observation::{Observation, ObservedEngagement, ObservedThing},
    key,
    store::Scan,
};

fn thesis(number: usize, text: &str) -> Observation {
    let seen = observed_thesis(&format!("post {number}"), text);
    Observation { observed_at: 1, revision: Some(1), seen: ObservedThing::Thesis(Box::new(seen)) }
}

fn like(number: usize) -> Observation {
    let seen = ObservedEngagement { upstream_id: format!("post {number}"), likes: Some(1), replies: None };
    Observation { observed_at: 2, revision: Some(2), seen: ObservedThing::Engagement(seen) }
}

/// Entries and bytes of each append, in order. Only the first row of an append has its id.
async fn appends(core: &Core, dataset: &Dataset) -> Vec<(usize, usize)> {
    let mut scan = Scan::all(&schema::EVENT_LOG, key![dataset.to_string(), 0], 10_000);
    scan.from = Bound::Included(key![1]);
    let rows = core.shared.backend.scan(&scan).await.unwrap();
    let appends = rows.chunk_by(|_, next| next.body[0] == 0);
    appends.map(|append| (append.len(), append.iter().map(|row| row.body.len()).sum())).collect()
}

/// Hands observations to the writer all at once. Returns the appends that follow.
async fn observe(
    core: &Core,
    dataset: &Dataset,
    observations: impl Iterator<Item = Observation>,
) -> Vec<(usize, usize)> {
    let before = appends(core, dataset).await.len();
    let written = observations.map(|observation| core.datasets.observe_here(dataset, observation));
    let written = tokio::task::unconstrained(join_all(written)).await;
    assert!(written.into_iter().all(|written| written.unwrap().applied));
    appends(core, dataset).await.split_off(before)
}

#[tokio::test]
async fn many_small_observations_go_into_one_append() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("small");
    observe(&core, &dataset, (0..150).map(|number| thesis(number, "short"))).await;
    let likes = observe(&core, &dataset, (0..150).map(like)).await;
    assert!(likes.iter().any(|(entries, _)| *entries == 150), "{likes:?}");
}

#[tokio::test]
async fn a_batch_of_deletions_reads_its_rows_together() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let first = core(backend.clone(), &clock, 1).await;
    let dataset = Dataset::of_project("gone");
    let theses = (0..30).map(|number| {
        let mut observation = thesis(number, "short");
        if let ObservedThing::Thesis(seen) = &mut observation.seen {
            seen.profile.upstream_id = format!("u{number}");
            seen.profile.handle = format!("writer{number}");
            seen.token.address = format!("0x{number}");
        }
        observation
    });
    observe(&first, &dataset, theses).await;
    // Another core knows none of the rows.
    let reads = backend.beside();
    let second = core(reads.clone(), &clock, 2).await;
    let calls = || [&schema::AUTHOR, &schema::PROFILE].map(|table| reads.calls(table));
    let before = calls();
    let deletions = (0..30).map(|number| {
        let seen = ObservedThing::Deletion(format!("post {number}"));
        Observation { observed_at: 2, revision: Some(2), seen }
    });
    let appends = observe(&second, &dataset, deletions).await;
    for (before, after) in before.into_iter().zip(calls()) {
        assert!(after - before <= 2 * appends.len(), "{} calls for {} appends", after - before, appends.len());
    }
}

#[tokio::test]
async fn long_texts_do_not_make_a_large_append() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("long");
    // The longest text that ingestion takes, in the longest letters.
    let text = "\u{1f680}".repeat(10_000);
    let theses = observe(&core, &dataset, (0..20).map(|number| thesis(number, &text))).await;
    let likes = observe(&core, &dataset, (0..20).map(like)).await;
    for (entries, bytes) in theses.into_iter().chain(likes) {
        assert!(bytes <= 90 * 1024, "an append of {entries} entries has {bytes} bytes");
    }
}

#[tokio::test]
async fn an_entry_larger_than_an_append_may_be_is_appended_alone() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("huge");
    let texts = [5, 200_000, 5, 5];
    let theses = texts.into_iter().enumerate().map(|(number, length)| thesis(number, &"x".repeat(length)));
    let theses = observe(&core, &dataset, theses).await;
    let likes = observe(&core, &dataset, (0..texts.len()).map(like)).await;
    for appends in [theses, likes] {
        let large = appends.iter().filter(|(_, bytes)| *bytes > 200_000).map(|(entries, _)| *entries);
        assert_eq!(large.collect::<Vec<_>>(), [1], "{appends:?}");
    }
}

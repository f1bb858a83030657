//! Lists by an author and a token, for authors with few theses and with many.

use super::*;
use crate::{
    domain::{
        observation::{Observation, ObservedThing},
        window::DAY_MS,
    },
    tables::{
        index_scope::IndexScope,
        theses::{IndexSlice, ThesisStore},
    },
    tests::harness::NOON,
};

/// Theses on a common token.
const THESES: u32 = 300;

#[tokio::test]
async fn the_rare_token_of_an_author_with_many_theses_costs_few_reads() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let core = core(backend.clone(), &clock, 1).await;
    let dataset = Dataset::of_project("many");
    let thesis = |number: u32| {
        let mut new = new_thesis(&dataset, number);
        new.thesis.created_at = NOON - i64::from(number) * DAY_MS;
        new
    };
    // They have one author. The tokens of even and odd numbers differ.
    let rare = [3, 903].map(thesis);
    let all: Vec<NewThesis> = (1..=THESES).map(|number| thesis(number * 6)).chain(rare.clone()).collect();
    let written = all.iter().map(|new| core.datasets.create_here(&dataset, new.clone()));
    for written in tokio::task::unconstrained(join_all(written)).await {
        written.unwrap();
    }
    let scopes = [IndexScope::ProfileToken(rare[0].profile.id.clone(), rare[0].token.id.clone())];
    let reads = backend.beside();
    let store = ThesisStore::new(reads.clone());
    let scans = || reads.scans(&schema::THESIS_INDEX) + reads.scans(&schema::INDEX_BUCKET);
    for descending in [true, false] {
        let mut expected: Vec<String> = rare.iter().map(|new| new.thesis.id.clone()).collect();
        if !descending {
            expected.reverse();
        }
        let before = scans();
        let slice = IndexSlice { from: 0, to: NOON, after: None, descending };
        let rows = store.direct_reader().slices(&dataset, &scopes, &slice, 25).await.unwrap();
        assert_eq!(rows.into_iter().map(|row| row.id).collect::<Vec<_>>(), expected);
        // Both indexes may list their buckets. The author's theses may be read from one or two, until the count shows
        // that they are too many to filter, and the rare ones from two.
        assert!(scans() - before <= 6, "{} scans", scans() - before);
    }
}

#[tokio::test]
async fn deleted_theses_make_an_author_prolific_too_and_other_cores_know_it() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let dataset = Dataset::of_project("good");
    let observe = async |core: &Arc<Core>, seen| {
        let observation = Observation { observed_at: 1, revision: Some(1), seen };
        core.datasets.observe_here(&dataset, observation).await.unwrap()
    };
    let post = async |core: &Arc<Core>, number: u32| {
        let seen = ObservedThing::Thesis(Box::new(observed_thesis(&format!("post {number}"), "text")));
        let entry = observe(core, seen).await.entry.unwrap().entry;
        let Some(Kind::ThesisCreated(created)) = &entry.kind else { panic!("no thesis: {entry:?}") };
        (created.totals.by_author, created.makes_prolific())
    };
    let delete = async |core: &Arc<Core>, number: u32| {
        assert!(observe(core, ObservedThing::Deletion(format!("post {number}"))).await.applied);
    };
    let first = core(backend.clone(), &clock, 1).await;
    assert_eq!([post(&first, 1).await, post(&first, 2).await], [(1, false), (2, false)]);
    delete(&first, 1).await;
    delete(&first, 2).await;
    let second = core(backend.clone(), &clock, 2).await;
    assert_eq!([post(&second, 3).await, post(&second, 4).await], [(3, true), (4, false)]);
    delete(&second, 3).await;
    delete(&second, 4).await;
    let third = core(backend, &clock, 3).await;
    assert_eq!(post(&third, 5).await, (4, false));
}

#[tokio::test]
async fn many_theses_of_an_author_do_not_prove_that_the_author_is_prolific() {
    let backend = shared_memory(&ManualClock::new());
    let dataset = Dataset::of_project("seen");
    // A read that takes longer than these writes sees them before it sees the other rows of their entries.
    let theses: Vec<NewThesis> = (1..=4).map(|number| new_thesis(&dataset, number * 6)).collect();
    for (version, new) in (1..).zip(&theses) {
        let mut changes = Vec::new();
        creation_changes(&dataset.to_string(), &new.thesis, version, |_, _| true, &mut changes);
        backend.apply(changes).await.unwrap();
    }
    let scopes = [IndexScope::ProfileToken(theses[0].profile.id.clone(), theses[0].token.id.clone())];
    let slice = IndexSlice { from: 0, to: i64::MAX / 2, after: None, descending: true };
    for limit in [1, 3, 25] {
        let store = ThesisStore::new(backend.clone());
        let rows = store.direct_reader().slices(&dataset, &scopes, &slice, limit).await.unwrap();
        assert_eq!(rows.len(), limit.min(theses.len()));
    }
}

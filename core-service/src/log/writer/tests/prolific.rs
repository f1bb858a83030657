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
    let dataset = Dataset::Project("many".to_owned());
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
        let rows = store.slices(&dataset, &scopes, &slice, 25).await.unwrap();
        assert_eq!(rows.into_iter().map(|row| row.id).collect::<Vec<_>>(), expected);
        // Both indexes list their buckets. The author's theses, too many to filter, are read from one or two, and the
        // rare ones from two.
        assert!(scans() - before <= 6, "{} scans", scans() - before);
    }
}

#[tokio::test]
async fn an_author_is_prolific_for_good_and_other_cores_know_it() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let dataset = Dataset::Project("good".to_owned());
    let observe = async |core: &Arc<Core>, seen| {
        let observation = Observation { observed_at: 1, revision: Some(1), seen };
        core.datasets.observe_here(&dataset, observation).await.unwrap()
    };
    let post = async |core: &Arc<Core>, number: u32| {
        let seen = ObservedThing::Thesis(Box::new(observed_thesis(&format!("post {number}"), "text")));
        let entry = observe(core, seen).await.entry.unwrap().entry;
        let Some(Kind::ThesisCreated(created)) = &entry.kind else { panic!("no thesis: {entry:?}") };
        (created.totals.by_author, created.totals.becomes_prolific)
    };
    let first = core(backend.clone(), &clock, 1).await;
    assert_eq!([post(&first, 1).await, post(&first, 2).await], [(1, false), (2, false)]);
    let second = core(backend.clone(), &clock, 2).await;
    assert_eq!([post(&second, 3).await, post(&second, 4).await], [(3, true), (3, false)]);
    for number in 1..=3 {
        assert!(observe(&second, ObservedThing::Deletion(format!("post {number}"))).await.applied);
    }
    let third = core(backend, &clock, 3).await;
    assert_eq!(post(&third, 5).await, (3, false));
}

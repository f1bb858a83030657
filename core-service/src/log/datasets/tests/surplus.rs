//! Theses beyond the limit of their dataset.

use super::*;
use crate::{
    domain::{entry::DatasetTotals, row::Thesis},
    tables::{index_scope::IndexScope, theses::IndexSlice},
    tests::harness::memory,
};

/// The times of a dataset's theses, which are their numbers, oldest first.
async fn numbers(core: &Core, dataset: &Dataset) -> Vec<i64> {
    let all = IndexSlice { from: 0, to: i64::MAX, after: None, descending: false };
    let rows = core.shared.theses.slice(dataset, &IndexScope::All, &all, 1_000).await.unwrap();
    rows.into_iter().map(|row| row.created_at).collect()
}

/// Creates the thesis with a number in a dataset that has a limit.
async fn create(core: &Core, dataset: &Dataset, number: u32, limit: Option<i64>) -> Thesis {
    let new = NewThesis { max_theses: limit, ..new_thesis(dataset, number) };
    core.datasets.create_thesis(dataset, new.clone()).await.unwrap();
    new.thesis
}

#[tokio::test(start_paused = true)]
async fn two_cores_delete_the_oldest_beyond_a_limit_and_not_one_more() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let dataset = Dataset::of_project("limited");
    let mut theses = Vec::new();
    for number in 0..20 {
        theses.push(create(&cores[number as usize % 2], &dataset, number, Some(5)).await);
    }
    until(&clock, async || numbers(&cores[0], &dataset).await.len() <= 5).await;
    // Everything that waits has its time.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(numbers(&cores[0], &dataset).await, [15, 16, 17, 18, 19]);
    let name = dataset.to_string();
    let totals = cores[1].shared.theses.dataset_totals(&name).await.unwrap();
    // Deletions change neither the profiles nor the tokens.
    assert_eq!(totals, DatasetTotals { theses: 5, profiles: 3, tokens: 2 });
    let keys: Vec<_> = theses.iter().map(|thesis| (name.clone(), thesis.id.as_str())).collect();
    let rows = cores[1].shared.theses.theses(&keys).await.unwrap();
    let are_deleted = rows.iter().map(|row| row.as_ref().unwrap().deleted_at.is_some());
    assert_eq!(are_deleted.collect::<Vec<_>>(), (0..20).map(|number| number < 15).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_lower_limit_is_reached_over_several_theses() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("lowered");
    for number in 0..70 {
        create(&core, &dataset, number, None).await;
    }
    // The first deletes a page.
    for (number, kept) in [(70, 50..=70), (71, 62..=71), (72, 63..=72)] {
        create(&core, &dataset, number, Some(10)).await;
        let expected: Vec<i64> = kept.collect();
        until(&clock, async || numbers(&core, &dataset).await == expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_thesis_that_was_just_created_stays() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("one");
    create(&core, &dataset, 5, Some(1)).await;
    // It is the older one, by the clock of another core.
    create(&core, &dataset, 3, Some(1)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(numbers(&core, &dataset).await, [3, 5]);
    create(&core, &dataset, 6, Some(1)).await;
    until(&clock, async || numbers(&core, &dataset).await == [6]).await;
}

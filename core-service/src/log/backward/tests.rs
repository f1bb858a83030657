use super::*;
use crate::{
    service::Core,
    tables::events::EventScope,
    tests::harness::{ManualClock, NOON, core, memory, new_thesis, shared_memory},
};

/// Takes all entries: the index of each one's dataset, and its sequence number.
async fn read_all(core: &Core, selection: &Selection, slices: Vec<LogSlice>, page: usize) -> Vec<(usize, u64)> {
    let mut reader = Backward::new(&core.shared, selection.clone(), slices, page);
    let mut read = Vec::new();
    while let Some((index, taken)) = reader.next().await.unwrap() {
        read.push((index, taken.seq));
    }
    assert!(!reader.has_more());
    read
}

#[tokio::test]
async fn pages_of_any_size_give_the_same_entries_and_positions_to_continue_from() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(backend, &clock, 1).await;
        let dataset = Dataset::of_project("paged");
        let token = new_thesis(&dataset, 0).token.id;
        for number in 0..150 {
            core.datasets.create_thesis(&dataset, new_thesis(&dataset, number)).await.unwrap();
        }
        let datasets = [Dataset::Sandbox, dataset];
        let mut heads = Vec::new();
        for dataset in &datasets {
            heads.push(core.datasets.refresh(dataset).await.unwrap());
        }
        let begin: Vec<u64> = heads.iter().map(|head| head + 1).collect();
        let slices = |before: &[u64], from: i64| -> Vec<LogSlice> {
            let slice = |((dataset, projected), before): ((&Dataset, &u64), &u64)| LogSlice {
                dataset: dataset.clone(),
                before: *before,
                after: 0,
                projected: *projected,
                from,
            };
            datasets.iter().zip(&heads).zip(before).map(slice).collect()
        };
        for selection in [Selection::All, Selection::Scopes(vec![EventScope::Token(token)])] {
            for from in [i64::MIN, NOON - 1] {
                let whole = read_all(&core, &selection, slices(&begin, from), MAX_PAGE).await;
                assert!(whole.len() >= 75, "{selection:?}");
                for page in [1, 7, 26] {
                    assert_eq!(read_all(&core, &selection, slices(&begin, from), page).await, whole, "page {page}");
                    let mut reader = Backward::new(&core.shared, selection.clone(), slices(&begin, from), page);
                    for _ in 0..40 {
                        assert!(reader.has_more());
                        reader.next().await.unwrap();
                    }
                    let rest = slices(&reader.positions(), from);
                    assert_eq!(read_all(&core, &selection, rest, page).await, whole[40..], "page {page}");
                }
            }
        }
    }
}

//! A core that stands still in the middle of an append.

use futures::FutureExt as _;

use super::*;
use crate::{
    log::unfinished::{STALE_MARK_AGE_MS, UnfinishedMark},
    store::SharedBackend,
    tests::faulty::{Fault, MemoryStore, Process, StoreCall},
};

#[tokio::test(start_paused = true)]
async fn an_entry_that_a_core_appends_late_and_does_not_finish_is_finished() {
    let clock = ManualClock::new();
    let store: SharedBackend = Arc::new(MemoryStore::new(false));
    let process = Process::new(Arc::clone(&store));
    let frozen = core(process.clone(), &clock, 1).await;
    let other = core(Arc::clone(&store), &clock, 2).await;
    let dataset = Dataset::of_project("frozen");
    let name = dataset.to_string();
    let has_entries = async |count: u64| other.shared.log.head(&name, 0, Consistency::Quorum).await.unwrap() == count;
    frozen.datasets.create_here(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    until(&clock, async || has_entries(3).await).await;

    let row = rows(&other).await.into_iter().find(|row| row.dataset == name).unwrap();
    assert_eq!(row.replica, frozen.shared.replica);
    // The row is young enough for another append, and too old when that append is made.
    clock.advance(row.at + STALE_MARK_AGE_MS / 2 - 1 - other.shared.clock.now_ms());
    let (passing, mut of_other) = (Arc::clone(&clock), UnfinishedMark::new(Arc::clone(&other.shared), dataset.clone()));
    let mut is_late = false;
    process.set_chooser(Box::new(move |_, called| match called {
        StoreCall::Transact if !is_late => {
            is_late = true;
            passing.advance(STALE_MARK_AGE_MS / 2 + 2);
            // The other core has done everything up to the head, and removes old rows.
            of_other.clear(true).now_or_never().expect("this store answers at once").unwrap();
            None
        }
        // The append is made whole. With the next read, the core would begin to derive.
        StoreCall::Read | StoreCall::Transact if is_late => Some(Fault::Ends),
        _ => None,
    }));
    process.count(true);
    frozen.datasets.create_here(&dataset, new_thesis(&dataset, 2)).await.unwrap();
    process.end();
    frozen.stop.cancel();

    until(&clock, async || has_entries(6).await).await;
    other.stop.cancel();
}

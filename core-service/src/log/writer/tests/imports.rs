//! Imports beside other cores.

use super::*;
use crate::{
    domain::observation::{Observation, ObservedThing},
    error::Error,
    store::SharedBackend,
};

/// Two cores on one store, the dataset that is imported, and what is imported.
struct Copied {
    clock: Arc<ManualClock>,
    store: SharedBackend,
    cores: [Arc<Core>; 2],
    dataset: Dataset,
    log: Vec<Entry>,
}

impl Copied {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let store = shared_memory(&clock);
        let cores = [core(Arc::clone(&store), &clock, 1).await, core(Arc::clone(&store), &clock, 2).await];
        let source = Dataset::of_project("source");
        for number in 0..10 {
            cores[0].datasets.create_here(&source, new_thesis(&source, number)).await.unwrap();
        }
        let log = entries(&cores[0], &source).await.into_iter().map(|sequenced| sequenced.entry).collect();
        Self { clock, store, cores, dataset: Dataset::of_project("copy"), log }
    }

    /// A part of the import, as far as an entry.
    fn part(&self, upto: usize) -> Import {
        let mark = ImportMark { entries: self.log.len() as u64, sha256: [3; 32] };
        Import { mark, after: 0, entries: self.log[..upto].to_vec() }
    }

    async fn import(&self, core: usize, upto: usize) -> Option<&'static str> {
        self.cores[core].datasets.import_here(&self.dataset, self.part(upto)).await.unwrap()
    }

    async fn write(&self, core: usize, number: u32) -> Result<SequencedEntry, Error> {
        self.cores[core].datasets.create_here(&self.dataset, new_thesis(&self.dataset, number)).await
    }
}

#[tokio::test]
async fn other_cores_write_nothing_before_its_end_and_at_once_after_it() {
    let copied = Copied::new().await;
    let end = copied.log.len();
    assert_eq!(copied.import(0, 4).await, None);
    for core in [0, 1, 1] {
        let refused = copied.write(core, 20).await.unwrap_err();
        assert!(refused.api.message.contains("is being imported"), "{refused}");
    }
    // A core that starts meanwhile learns it from the store.
    let third = core(Arc::clone(&copied.store), &copied.clock, 3).await;
    let new = new_thesis(&copied.dataset, 20);
    let gone = Observation { observed_at: 1, revision: None, seen: ObservedThing::Deletion("gone".to_owned()) };
    for refused in [
        third.datasets.create_here(&copied.dataset, new.clone()).await.map(drop).unwrap_err(),
        third.datasets.observe_here(&copied.dataset, gone).await.map(drop).unwrap_err(),
    ] {
        assert!(refused.api.message.contains("is being imported"), "{refused}");
    }

    // Another core goes on with it. Those that knew only its beginning find its end when they are asked to write.
    assert_eq!(copied.import(1, end).await, None);
    assert_eq!(copied.write(0, 20).await.unwrap().seq, end as u64 + 1);
    assert_eq!(third.datasets.create_here(&copied.dataset, new).await.unwrap().seq, end as u64 + 1);
    let log = entries(&third, &copied.dataset).await;
    assert!(log.iter().zip(&copied.log).all(|(copy, entry)| copy.entry == *entry));
    assert!(copied.import(1, end).await.is_none(), "the same import again changes nothing");
}

#[tokio::test]
async fn a_leaf_that_a_later_version_wrote_stays_through_an_export_and_an_import() {
    let mut copied = Copied::new().await;
    copied.log.iter_mut().zip(1..).for_each(|(entry, number)| entry.leaf = vec![number; 32]);
    let exported = serde_json::to_string(&copied.log).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Entry>>(&exported).unwrap(), copied.log);
    assert_eq!(copied.import(0, copied.log.len()).await, None);
    let reader = core(Arc::clone(&copied.store), &copied.clock, 3).await;
    let log = entries(&reader, &copied.dataset).await;
    assert!(log.len() >= copied.log.len());
    for (read, entry) in log.iter().zip(&copied.log) {
        assert_eq!(read.entry, *entry);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_write_and_an_import_at_once_one_wins() {
    for turn in 0..20 {
        let mut copied = Copied::new().await;
        copied.dataset = Dataset::of_project(&format!("copy {turn}"));
        let end = copied.log.len();
        let (imported, written) = tokio::join!(copied.import(0, end), copied.write(1, 20));
        let log = entries(&copied.cores[0], &copied.dataset).await;
        if imported.is_some() {
            assert_eq!(written.unwrap().seq, 1);
            assert!(log.iter().all(|sequenced| !copied.log.contains(&sequenced.entry)));
        } else {
            // The write is refused, or comes after the end.
            assert!(written.is_err() || written.unwrap().seq > end as u64);
            assert!(log.iter().zip(&copied.log).all(|(copy, entry)| copy.entry == *entry));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_import_through_two_cores_at_once_is_made_once() {
    let copied = Copied::new().await;
    let end = copied.log.len();
    assert_eq!(tokio::join!(copied.import(0, end), copied.import(1, end)), (None, None));
    let log: Vec<Entry> =
        entries(&copied.cores[0], &copied.dataset).await.into_iter().map(|sequenced| sequenced.entry).collect();
    assert!(log == copied.log);
}

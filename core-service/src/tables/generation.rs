//! The generation of a store's logs, which positions outside of the core name.
//!
//! After a restore a log appends other entries under sequence numbers that it has used before. A copy of a log in another
//! store does the same beside its original. So each store has a random generation, and cursors name it: one of another
//! generation is refused, as it would point to other entries. A restore leaves the row out. The next start makes
//! another generation, and every core of the store reads it at its start.
//!
//! The ids of derived events contain it too: a sequence number that is used again gives another id. They are encrypted
//! with a random key of the store. A restore keeps that key, so that older ids still lead to their events. It is
//! independent of the secret key of the service, which can be lost.
//!
//! The rings and pages of an edge have these names too, so an edge that runs on during a restore shows no lost entry.
//! Cursors of other lists are positions in an order of times and ids, and checkpoints and queues are restored with the
//! logs: these need no generation.

use bytes::Bytes;
use thesis_net::clock::{IdSource, random};

use crate::{
    domain::{
        dataset::{Dataset, View},
        id,
    },
    key,
    store::{
        Backend, ConditionalWrite, Consistency, Expect, StoreError, StoreResult, Table, Transaction, Value,
        schema::ACCOUNT,
    },
};

/// The partition of facts about the store. Ids of users begin with `usr_`.
pub const SERVICE: &str = "service";
/// The item of the generation, beside the hash of the secret key.
const ITEM: &str = "generation";
/// The item of the key of event ids.
const EVENT_IDS: &str = "event_ids";

/// The generation of a store's logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation(String);

/// Table and key of the row that a restored store must not have.
#[must_use]
pub fn row_key() -> (&'static Table, Vec<Value>) {
    (&ACCOUNT, key![SERVICE, ITEM])
}

impl Generation {
    /// The store's generation.
    pub async fn load(backend: &dyn Backend, ids: &dyn IdSource) -> StoreResult<Self> {
        let body = load_item(backend, ITEM, || id::random("gen_", ids).into()).await?;
        let text = String::from_utf8(body.to_vec());
        text.map(Self).map_err(|_| StoreError::Damaged("the generation of the logs is no text".to_owned()))
    }

    /// The random name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Names a dataset's log in this generation.
    #[must_use]
    pub fn log_name(&self, dataset: &Dataset) -> String {
        format!("{dataset}@{}", self.0)
    }

    /// Names the logs of a view's datasets, in the order of cursors.
    #[must_use]
    pub fn log_names(&self, view: &View) -> Vec<String> {
        view.datasets().iter().map(|dataset| self.log_name(dataset)).collect()
    }

    /// The dataset whose log has this name; none for a log of another generation.
    #[must_use]
    pub fn dataset_of(&self, log: &str) -> Option<Dataset> {
        let (dataset, generation) = log.rsplit_once('@')?;
        (generation == self.0).then(|| Dataset::parse(dataset))?
    }
}

/// The store's key of the ids of derived events.
pub async fn event_id_key(backend: &dyn Backend, ids: &dyn IdSource) -> StoreResult<[u8; 32]> {
    let body = load_item(backend, EVENT_IDS, || Bytes::copy_from_slice(&random::<32>(ids))).await?;
    let key = <[u8; 32]>::try_from(body.as_ref());
    key.map_err(|_| StoreError::Damaged("the key of event ids has another length".to_owned()))
}

/// Reads a fact about the store. A store without it gets a new one; of cores that start at once, all get the same.
async fn load_item(backend: &dyn Backend, item: &str, new: impl FnOnce() -> Bytes) -> StoreResult<Bytes> {
    let key = key![SERVICE, item];
    if let Some(row) = backend.get(&ACCOUNT, &key, Consistency::Quorum).await? {
        return Ok(row.body);
    }
    let new = new();
    let write =
        ConditionalWrite { clustering: key![item], expect: Expect::Absent, version: 1, body: Some(new.clone()) };
    let transaction = Transaction { table: &ACCOUNT, partition: key![SERVICE], writes: vec![write], ttl: None };
    let written = backend.transact(transaction).await;
    if !matches!(written, Ok(false) | Err(StoreError::InDoubt(_))) {
        return written.map(|_| new);
    }
    // Another core was faster, or a write in doubt was made.
    let row = backend.get(&ACCOUNT, &key, Consistency::Serial).await?;
    row.map(|row| row.body).ok_or_else(|| StoreError::Unavailable(format!("{item} of the store could not be written")))
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;
    use crate::{
        store::SharedBackend,
        tests::{
            faulty::{Fault, Process},
            harness::{ManualClock, ids, memory},
        },
    };

    async fn start(backend: &SharedBackend, replica: u64) -> Generation {
        Generation::load(backend.as_ref(), ids(replica).as_ref()).await.unwrap()
    }

    async fn load_key(backend: &SharedBackend, replica: u64) -> [u8; 32] {
        event_id_key(backend.as_ref(), ids(replica).as_ref()).await.unwrap()
    }

    /// Removes the row, as a restore does.
    async fn restore(backend: &SharedBackend) {
        let (table, _) = row_key();
        let write = ConditionalWrite { clustering: key![ITEM], expect: Expect::Version(1), version: 2, body: None };
        let transaction = Transaction { table, partition: key![SERVICE], writes: vec![write], ttl: None };
        assert!(backend.transact(transaction).await.unwrap());
    }

    #[tokio::test]
    async fn a_generation_lasts_until_a_restore() {
        let clock = ManualClock::new();
        let (backend, other) = (memory(&clock), memory(&clock));
        let first = start(&backend, 1).await;
        assert_eq!(start(&backend, 2).await, first);
        assert_ne!(start(&other, 3).await, first);
        restore(&backend).await;
        let all = join_all((4..12).map(|replica| start(&backend, replica))).await;
        assert!(all.iter().all(|generation| *generation == all[0] && *generation != first), "{all:?}");
    }

    #[tokio::test]
    async fn a_restore_keeps_the_key_of_event_ids() {
        let clock = ManualClock::new();
        let (backend, other) = (memory(&clock), memory(&clock));
        start(&backend, 1).await;
        let keys = join_all((2..10).map(|replica| load_key(&backend, replica))).await;
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        restore(&backend).await;
        start(&backend, 10).await;
        assert_eq!(load_key(&backend, 11).await, keys[0]);
        assert_ne!(load_key(&other, 12).await, keys[0]);
    }

    #[test]
    fn logs_are_found_by_the_names_of_their_own_generation_only() {
        let (one, other) = (Generation("gen_1".to_owned()), Generation("gen_2".to_owned()));
        for dataset in [Dataset::Live, Dataset::Sandbox, Dataset::of_project("prj_1")] {
            let name = one.log_name(&dataset);
            assert_eq!(one.dataset_of(&name), Some(dataset.clone()));
            assert_eq!(other.dataset_of(&name), None);
            assert_eq!(one.dataset_of(&dataset.to_string()), None);
        }
        assert_eq!(one.dataset_of("nothing@gen_1"), None);
    }

    #[tokio::test]
    async fn a_write_in_doubt_counts_if_it_is_stored() {
        for (fault, is_stored) in [(Fault::Done, true), (Fault::NotDone, false)] {
            let backend = memory(&ManualClock::new());
            let process = Process::new(backend.clone());
            process.count(false);
            process.set_chooser(Box::new(move |_, _| Some(fault)));
            let loaded = Generation::load(process.as_ref(), ids(1).as_ref()).await;
            assert_eq!(loaded.is_ok(), is_stored, "{loaded:?}");
            if let Ok(generation) = loaded {
                assert_eq!(start(&backend, 2).await, generation);
            }
        }
    }
}

//! The signed checkpoints of trees, and the keys that signed them.
//!
//! A log has one row with its newest checkpoint. A conditional write replaces the row before the checkpoint is shown,
//! so two different trees of one size are never shown. Another row has the newest cosigned checkpoint. The row of a key
//! is written together with the first checkpoint that the key signed, and stays. Logs of earlier generations keep their
//! rows, since receipts name their keys.

use prost::Message as _;

use super::{decode_message, read_message};
use crate::{
    domain::dataset::Dataset,
    key,
    store::{
        ConditionalWrite, Consistency, Expect, Row, Scan, SharedBackend, StoreResult, Transaction, Value,
        schema::SIGNED_TREE,
    },
};

/// The item of the newest checkpoint. No key has this text.
const CHECKPOINT: &str = "checkpoint";
/// The item of the newest checkpoint that witnesses cosigned. No key has this text either.
const COSIGNED: &str = "cosigned";
/// Maximum number of rows of a dataset. Each restore and each new key adds one or two.
const MAX_ROWS: usize = 10_000;

/// A signed checkpoint.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignedTree {
    /// Number of leaves.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// The root.
    #[prost(bytes = "vec", tag = "2")]
    pub root: Vec<u8>,
    /// The note, with the signature of the log.
    #[prost(string, tag = "3")]
    pub note: String,
    /// The key that signed it.
    #[prost(string, tag = "4")]
    pub key: String,
    /// Time of the signature, in unix milliseconds.
    #[prost(int64, tag = "5")]
    pub at: i64,
}

/// The row of a key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct StoredKey {
    /// Time of the first checkpoint that it signed.
    #[prost(int64, tag = "1")]
    created_at: i64,
}

/// A key that signed checkpoints of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKey {
    /// The name of the log.
    pub name: String,
    /// The public key as text, a `vkey`.
    pub key: String,
    /// Time of the first checkpoint that it signed, in unix milliseconds.
    pub created_at: i64,
    /// Time at which another key took its place.
    pub retired_at: Option<i64>,
}

/// A checkpoint with the version of its row.
pub type VersionedTree = (i64, SignedTree);

/// Reads the newest checkpoint of the log with this name.
pub async fn read(
    backend: &SharedBackend,
    dataset: &Dataset,
    log: &str,
    consistency: Consistency,
) -> StoreResult<Option<VersionedTree>> {
    let key = key![dataset.name(), log, CHECKPOINT];
    read_message(backend, &SIGNED_TREE, &key, consistency, "signed tree").await
}

/// Replaces the checkpoint of a log if its row still has this version, or is new. `is_new_key` is true if the key has
/// no row yet. Returns false if another core has written the row.
pub async fn replace(
    backend: &SharedBackend,
    dataset: &Dataset,
    log: &str,
    before: Option<i64>,
    tree: &SignedTree,
    is_new_key: bool,
) -> StoreResult<bool> {
    let checkpoint = ConditionalWrite {
        clustering: key![log, CHECKPOINT],
        expect: before.map_or(Expect::Absent, Expect::Version),
        version: before.unwrap_or(0) + 1,
        body: Some(tree.encode_to_vec().into()),
    };
    let key = is_new_key.then(|| ConditionalWrite {
        clustering: key![log, &tree.key],
        expect: Expect::Absent,
        version: 1,
        body: Some(StoredKey { created_at: tree.at }.encode_to_vec().into()),
    });
    let writes = [checkpoint].into_iter().chain(key).collect();
    let (table, partition) = (&SIGNED_TREE, key![dataset.name()]);
    backend.transact(Transaction { table, partition, writes, ttl: None }).await
}

/// Reads the newest cosigned checkpoint of the log with this name.
pub async fn read_cosigned(
    backend: &SharedBackend,
    dataset: &Dataset,
    log: &str,
    consistency: Consistency,
) -> StoreResult<Option<VersionedTree>> {
    let key = key![dataset.name(), log, COSIGNED];
    read_message(backend, &SIGNED_TREE, &key, consistency, "cosigned tree").await
}

/// Replaces the cosigned checkpoint of a log if its row still has this version, or is new. Returns whether it was
/// written.
pub async fn replace_cosigned(
    backend: &SharedBackend,
    dataset: &Dataset,
    log: &str,
    before: Option<i64>,
    tree: &SignedTree,
) -> StoreResult<bool> {
    let write = ConditionalWrite {
        clustering: key![log, COSIGNED],
        expect: before.map_or(Expect::Absent, Expect::Version),
        version: before.unwrap_or(0) + 1,
        body: Some(tree.encode_to_vec().into()),
    };
    let (table, partition) = (&SIGNED_TREE, key![dataset.name()]);
    backend.transact(Transaction { table, partition, writes: vec![write], ttl: None }).await
}

/// The keys that ever signed checkpoints of a dataset, oldest first. A key is retired once another one signs, in the
/// same log or in that of a later generation.
pub async fn keys(
    backend: &SharedBackend,
    dataset: &Dataset,
    current_log: &str,
    consistency: Consistency,
) -> StoreResult<Vec<LogKey>> {
    let scan = Scan { consistency, ..Scan::all(&SIGNED_TREE, key![dataset.name()], MAX_ROWS) };
    let (mut keys, mut current) = (Vec::new(), None);
    for row in backend.scan(&scan).await? {
        let (name, item) = names(&row);
        if item == CHECKPOINT {
            if name == current_log {
                current = Some(decode_message::<SignedTree>(row.body, "signed tree")?.key);
            }
            continue;
        }
        if item == COSIGNED {
            continue;
        }
        let (name, key) = (name.to_owned(), item.to_owned());
        let StoredKey { created_at } = decode_message(row.body, "key of a log")?;
        keys.push(LogKey { name, key, created_at, retired_at: None });
    }
    keys.sort_by_key(|key| key.created_at);
    let next: Vec<i64> = keys.iter().skip(1).map(|key| key.created_at).collect();
    for (key, next) in keys.iter_mut().zip(next) {
        key.retired_at = Some(next).filter(|_| current.as_ref() != Some(&key.key));
    }
    Ok(keys)
}

/// The name of a row's log, and the item.
fn names(row: &Row) -> (&str, &str) {
    let text = |place: usize| row.clustering.get(place).map_or("", Value::text);
    (text(0), text(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::{ManualClock, memory};

    const LOG: &str = "trade-thesis/live/gen_1";

    fn tree(size: u64, key: &str) -> SignedTree {
        SignedTree {
            size,
            root: vec![1; 32],
            note: format!("note of {size}"),
            key: key.to_owned(),
            at: 1_000 + size.cast_signed(),
        }
    }

    #[tokio::test]
    async fn of_two_cores_one_signs() {
        let backend = memory(&ManualClock::new());
        let dataset = Dataset::Live;
        let sign = async |before, tree: &SignedTree, is_new_key| {
            replace(&backend, &dataset, LOG, before, tree, is_new_key).await.unwrap()
        };
        assert!(sign(None, &tree(1, "key+1"), true).await);
        assert!(!sign(None, &tree(2, "key+1"), false).await, "there is a checkpoint already");
        assert!(!sign(Some(1), &tree(2, "key+1"), true).await, "the key is not new");
        assert!(sign(Some(1), &tree(2, "key+1"), false).await);
        assert!(!sign(Some(1), &tree(3, "key+1"), false).await, "another core was faster");
        assert!(replace_cosigned(&backend, &dataset, LOG, None, &tree(1, "key+1")).await.unwrap());
        assert!(!replace_cosigned(&backend, &dataset, LOG, None, &tree(2, "key+1")).await.unwrap());
        let cosigned = read_cosigned(&backend, &dataset, LOG, Consistency::Quorum).await.unwrap();
        assert_eq!(cosigned, Some((1, tree(1, "key+1"))));
        let listed = keys(&backend, &dataset, LOG, Consistency::Quorum).await.unwrap();
        assert_eq!(listed.len(), 1, "a cosigned checkpoint is no key");
        let stored = read(&backend, &dataset, LOG, Consistency::Quorum).await.unwrap();
        assert_eq!(stored, Some((2, tree(2, "key+1"))));
        assert_eq!(read(&backend, &Dataset::Sandbox, LOG, Consistency::Quorum).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_replaced_key_stays_listed() {
        let backend = memory(&ManualClock::new());
        let dataset = Dataset::Live;
        let earlier = "trade-thesis/live/gen_0";
        assert!(replace(&backend, &dataset, earlier, None, &tree(1, "old+1"), true).await.unwrap());
        assert!(replace(&backend, &dataset, LOG, None, &tree(2, "key+1"), true).await.unwrap());
        assert!(replace(&backend, &dataset, LOG, Some(1), &tree(3, "key+2"), true).await.unwrap());
        let listed = async || {
            let keys = keys(&backend, &dataset, LOG, Consistency::Quorum).await.unwrap();
            keys.into_iter().map(|key| (key.name, key.key, key.created_at, key.retired_at)).collect::<Vec<_>>()
        };
        let row = |name: &str, key: &str, created_at: i64, retired_at: Option<i64>| {
            (name.to_owned(), key.to_owned(), created_at, retired_at)
        };
        let (old, second) = (row(earlier, "old+1", 1_001, Some(1_002)), row(LOG, "key+2", 1_003, None));
        assert_eq!(listed().await, [old.clone(), row(LOG, "key+1", 1_002, Some(1_003)), second.clone()]);
        // The operator goes back to the first key.
        assert!(replace(&backend, &dataset, LOG, Some(2), &tree(4, "key+1"), false).await.unwrap());
        assert_eq!(listed().await, [old, row(LOG, "key+1", 1_002, None), second]);
    }
}

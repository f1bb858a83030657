//! Replaces an entry in the store, and reads its current version. Only an erasure replaces entries. All other code
//! relies on entries that never change.

use bytes::{Bytes, BytesMut};

use super::{LogStore, bucket_of, int, payload};
use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, StoreError, StoreResult, Transaction, schema},
};

impl LogStore {
    /// Returns the newest known entry of a log that begins or ends an erasure; 0 if there is none. Data from an earlier
    /// entry may contain an erased text, unless this process knew the erasure before it read the entry.
    pub fn newest_erasure(&self, log: &str) -> u64 {
        self.recent.newest_erasure(log)
    }

    /// Reads the current version of an entry from the store. [`LogStore::get`] may return a version from memory that
    /// has a text which another core has erased since.
    pub async fn get_present(&self, log: &str, seq: u64) -> StoreResult<Option<Bytes>> {
        if self.backend.is_exclusive() { self.get(log, seq).await } else { self.get_stored(log, seq).await }
    }

    pub(super) async fn get_stored(&self, log: &str, seq: u64) -> StoreResult<Option<Bytes>> {
        let key = key![log, int(bucket_of(seq)), int(seq)];
        let row = self.backend.get(&schema::EVENT_LOG, &key, Consistency::Quorum).await?;
        row.map(payload).transpose()
    }

    /// Replaces the stored form of an entry. The bytes before it, which name its append, stay. After an error the entry
    /// may or may not be replaced, and the caller repeats the call.
    pub async fn replace(&self, log: &str, seq: u64, entry: Bytes) -> StoreResult<()> {
        let (bucket, place) = (int(bucket_of(seq)), int(seq));
        let row = self.backend.get(&schema::EVENT_LOG, &key![log, bucket, place], Consistency::Serial).await?;
        let row = row.ok_or_else(|| StoreError::Damaged(format!("log {log} has no entry {seq}")))?;
        let stored = row.body.clone();
        let prefix = &stored[..stored.len() - payload(row)?.len()];
        let mut body = BytesMut::with_capacity(prefix.len() + entry.len());
        body.extend_from_slice(prefix);
        body.extend_from_slice(&entry);
        let write = ConditionalWrite {
            clustering: key![place],
            expect: Expect::Version(place),
            version: place,
            body: Some(body.freeze()),
        };
        let partition = key![log, bucket];
        let transaction = Transaction { table: &schema::EVENT_LOG, partition, writes: vec![write], ttl: None };
        if !self.backend.transact(transaction).await? {
            return Err(StoreError::Damaged(format!("entry {seq} of log {log} is not at its place")));
        }
        self.recent.replace(log, seq, &entry);
        self.listed.remove(log, seq);
        Ok(())
    }
}

//! The open streams of each key, and the times at which keys expire. The keys are spread over shards, so that no lock
//! is for all of them.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use parking_lot::Mutex;

/// Number of shards.
const SHARDS: usize = 64;

/// A stream: its session, and its number in the session.
pub(super) type StreamId = (Arc<str>, u64);

#[derive(Default)]
struct KeyStreams {
    expires_at: Option<i64>,
    streams: HashSet<StreamId>,
}

pub(super) struct StreamsByKey {
    shards: Vec<Mutex<HashMap<Arc<str>, KeyStreams>>>,
    /// The keys that expire, by time in unix milliseconds.
    expiries: Mutex<BTreeSet<(i64, Arc<str>)>>,
}

impl Default for StreamsByKey {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), expiries: Mutex::default() }
    }
}

impl StreamsByKey {
    fn shard_of(&self, key_id: &str) -> &Mutex<HashMap<Arc<str>, KeyStreams>> {
        let sum = key_id.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        &self.shards[sum % SHARDS]
    }

    /// Adds a stream. Returns true if its key is now the next to expire.
    pub(super) fn add(&self, key_id: &Arc<str>, expires_at: Option<i64>, stream: StreamId) -> bool {
        let mut shard = self.shard_of(key_id).lock();
        let key = shard.entry(Arc::clone(key_id)).or_default();
        key.streams.insert(stream);
        let (None, Some(at)) = (key.expires_at, expires_at) else { return false };
        key.expires_at = expires_at;
        let mut expiries = self.expiries.lock();
        expiries.insert((at, Arc::clone(key_id)));
        expiries.first().is_some_and(|(_, first)| first == key_id)
    }

    pub(super) fn remove(&self, key_id: &Arc<str>, stream: &StreamId) {
        let mut shard = self.shard_of(key_id).lock();
        let Some(key) = shard.get_mut(key_id) else { return };
        key.streams.remove(stream);
        if key.streams.is_empty() {
            if let Some(at) = key.expires_at {
                self.expiries.lock().remove(&(at, Arc::clone(key_id)));
            }
            shard.remove(key_id);
        }
    }

    pub(super) fn shards(&self) -> Range<usize> {
        0..self.shards.len()
    }

    /// The keys of a shard.
    pub(super) fn keys(&self, shard: usize) -> Vec<Arc<str>> {
        self.shards[shard].lock().keys().cloned().collect()
    }

    /// The streams of a key.
    pub(super) fn streams(&self, key_id: &str) -> Vec<StreamId> {
        let shard = self.shard_of(key_id).lock();
        shard.get(key_id).map_or_else(Vec::new, |key| key.streams.iter().cloned().collect())
    }

    /// The time at which the next key expires.
    pub(super) fn next_expiry(&self) -> Option<i64> {
        self.expiries.lock().first().map(|(at, _)| *at)
    }

    /// The keys that have expired and still have streams.
    pub(super) fn expired(&self, now_ms: i64) -> Vec<Arc<str>> {
        let expiries = self.expiries.lock();
        expiries.iter().take_while(|(at, _)| *at <= now_ms).map(|(_, key)| Arc::clone(key)).collect()
    }
}

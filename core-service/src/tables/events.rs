//! The positions of events in a log: by token, by handle, by chain, and of the rare type. The cost of a read depends
//! only on the events that it finds, not on the length of the log.

use std::ops::Bound;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use thesis_proto::{
    reference::{handle_form, symbol_form},
    v1::EventType,
};

use crate::{
    domain::{
        entry::{Entry, Kind},
        row::{Profile, Token},
    },
    key,
    store::{Change, Consistency, Scan, SharedBackend, StoreResult, Value, schema},
};

/// Sequence numbers of one bucket.
const BUCKET: u64 = 250_000;
/// Number of scopes that are read concurrently.
const CONCURRENT_READS: usize = 8;

/// The keys that events are indexed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventScope {
    Token(String),
    /// The handle in the event, folded.
    Handle(String),
    Chain(String),
    ProfileUpdated,
}

impl EventScope {
    /// The scopes that list an entry; none for an entry that is no event.
    fn of(entry: &Entry) -> Vec<Self> {
        let by = |profile: &Profile| Self::Handle(handle_form(&profile.handle));
        let on = |token: &Token| [Self::Token(token.id.clone()), Self::Chain(token.chain.clone())];
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                [by(&created.profile)].into_iter().chain(on(&created.token)).collect()
            }
            Some(Kind::TokenActivity(activity)) => on(&activity.token).into(),
            Some(Kind::ThesisVelocity(velocity)) => on(&velocity.token).into(),
            Some(Kind::ProfileUpdated(updated)) => vec![by(&updated.profile), Self::ProfileUpdated],
            _ => Vec::new(),
        }
    }

    /// The type of event that is rare enough for its own scope.
    pub const RARE_TYPE: EventType = EventType::ProfileUpdated;

    fn text(&self) -> String {
        match self {
            Self::Token(id) => format!("et:{id}"),
            Self::Handle(handle) => format!("eh:{handle}"),
            Self::Chain(chain) => format!("ec:{chain}"),
            Self::ProfileUpdated => "eu".to_owned(),
        }
    }
}

fn int(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// Changes that let readers find an event in its scopes. An entry that is no event has none.
/// `is_new_bucket` returns whether a bucket is not yet known as listed.
pub fn event_changes(
    dataset: &str,
    entry: &Entry,
    seq: u64,
    is_new_bucket: impl Fn(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    let bucket = int(seq / BUCKET);
    let put = |table, key| Change { table, key, version: int(seq), body: Some(Bytes::new()), ttl: None };
    for scope in EventScope::of(entry) {
        let scope = scope.text();
        if is_new_bucket(&scope, bucket) {
            changes.push(put(&schema::INDEX_BUCKET, key![dataset, &scope, bucket]));
        }
        changes.push(put(&schema::EVENT_INDEX, key![dataset, scope, bucket, int(seq)]));
    }
}

/// The change that stores that a token has had a symbol: events show the symbol of their time.
pub fn symbol_change(dataset: &str, token: &Token, version: i64) -> Change {
    let key = key![dataset, symbol_form(&token.symbol), &token.id];
    Change { table: &schema::EVENT_SYMBOL, key, version, body: Some(Bytes::new()), ttl: None }
}

#[derive(Clone, Copy, Debug)]
pub struct SeqRange {
    /// Exclusive lower bound.
    pub after: u64,
    /// Exclusive upper bound.
    pub before: u64,
}

#[derive(Clone)]
pub struct EventIndex {
    backend: SharedBackend,
}

impl EventIndex {
    pub fn new(backend: SharedBackend) -> Self {
        Self { backend }
    }

    /// Finds the tokens that have or had a symbol.
    pub async fn tokens_named(&self, dataset: &str, symbol: &str, limit: usize) -> StoreResult<Vec<String>> {
        let rows = self.backend.scan(&Scan::all(&schema::EVENT_SYMBOL, key![dataset, symbol], limit)).await?;
        Ok(rows.iter().filter_map(|row| Some(row.clustering.first()?.text().to_owned())).collect())
    }

    /// Reads the first sequence numbers in any of these scopes, from the highest down or from the lowest up.
    pub async fn positions(
        &self,
        dataset: &str,
        scopes: &[EventScope],
        between: SeqRange,
        newest_first: bool,
        limit: usize,
    ) -> StoreResult<Vec<u64>> {
        let reads =
            scopes.iter().map(|scope| self.positions_in_scope(dataset, scope.text(), between, newest_first, limit));
        let found: Vec<Vec<u64>> =
            stream::iter(reads.collect::<Vec<_>>()).buffered(CONCURRENT_READS).try_collect().await?;
        let mut positions = found.concat();
        positions.sort_unstable();
        if newest_first {
            positions.reverse();
        }
        positions.dedup();
        positions.truncate(limit);
        Ok(positions)
    }

    async fn positions_in_scope(
        &self,
        dataset: &str,
        scope: String,
        between: SeqRange,
        newest_first: bool,
        limit: usize,
    ) -> StoreResult<Vec<u64>> {
        if between.before <= between.after.saturating_add(1) {
            return Ok(Vec::new());
        }
        let (lowest, highest) = ((between.after + 1) / BUCKET, (between.before - 1) / BUCKET);
        let buckets = Scan {
            table: &schema::INDEX_BUCKET,
            partition: key![dataset, &scope],
            from: Bound::Included(key![int(lowest)]),
            to: Bound::Included(key![int(highest)]),
            reverse: newest_first,
            limit: usize::MAX,
            consistency: Consistency::Quorum,
        };
        let mut found = Vec::new();
        for bucket in self.backend.scan(&buckets).await? {
            let scan = Scan {
                table: &schema::EVENT_INDEX,
                partition: key![dataset, &scope, bucket.clustering.first().map_or(0, Value::int)],
                from: Bound::Excluded(key![int(between.after)]),
                to: Bound::Excluded(key![int(between.before)]),
                reverse: newest_first,
                limit: limit - found.len(),
                consistency: Consistency::Quorum,
            };
            let rows = self.backend.scan(&scan).await?;
            found.extend(rows.iter().filter_map(|row| Some(row.clustering.first()?.int().unsigned_abs())));
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }
}

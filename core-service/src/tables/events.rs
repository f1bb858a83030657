//! The positions of events in a log: by token, by handle, by chain, and of the rare type. The cost of a read depends
//! only on the events that it finds, not on the length of the log.
//!
//! The index has a row for each scope and segment of the log. A segment that the log has not filled yet has no rows:
//! its events are found in the log itself. The scopes that a read has found there stay in memory, so the next one
//! decodes only newer entries.
//!
//! Deletions of theses are no events, and have a scope of their own for each token. Creations and deletions carry the
//! token's totals, and at most a pair of derived events follows each creation. So the totals at any position of the log
//! are in one of the last three entries of both scopes before it (`totals.rs`).

mod segments;
mod totals;

use std::{ops::Bound, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use quick_cache::sync::Cache;
use thesis_proto::{
    reference::{handle_form, symbol_form},
    v1::EventType,
};

use self::segments::{bucket_of, full_rows, last_filled, positions_of_row, segment_of};
use crate::{
    domain::{
        entry::{Entry, Kind},
        row::{Profile, Token},
    },
    key,
    store::{Change, Consistency, Scan, SharedBackend, StoreResult, Value, schema},
    tables::log::LogStore,
};

pub use self::segments::OpenSegment;

/// Number of scopes that are read concurrently.
const CONCURRENT_READS: usize = 8;
/// Number of rows that the first read of a scope takes at least, unless fewer hold all events of the page.
const FIRST_ROWS: usize = 64;
/// Number of buckets that a read of a scope lists at first. A busy scope has events in each bucket of a window.
const FIRST_BUCKETS: usize = 8;
/// Each read of a scope's rows, or of its buckets, takes this many times as many as the one before.
const READ_GROWTH: usize = 4;
/// Maximum number of logs whose open segment is in memory.
const MAX_OPEN_SEGMENTS: usize = 256;

/// The keys that events are indexed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventScope {
    Token(String),
    /// The deletions of theses on a token.
    Deletions(String),
    /// The handle in the event, folded.
    Handle(String),
    Chain(String),
    ProfileUpdated,
}

impl EventScope {
    /// The scopes that list an entry; none for an entry that is neither an event nor a deletion.
    fn of(entry: &Entry) -> Vec<Self> {
        let by = |profile: &Profile| Self::Handle(handle_form(&profile.handle));
        let on = |token: &Token| [Self::Token(token.id.clone()), Self::Chain(token.chain.clone())];
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                [by(&created.profile)].into_iter().chain(on(&created.token)).collect()
            }
            Some(Kind::TokenActivity(activity)) => on(&activity.token).into(),
            Some(Kind::ThesisVelocity(velocity)) => on(&velocity.token).into(),
            Some(Kind::AlertFiring(change) | Kind::AlertResolved(change)) => on(&change.alert.token).into(),
            Some(Kind::ThesisDeleted(deleted)) => vec![Self::Deletions(deleted.thesis.token_id.clone())],
            Some(Kind::ProfileUpdated(updated)) => vec![by(&updated.profile), Self::ProfileUpdated],
            _ => Vec::new(),
        }
    }

    /// The type of event that is rare enough for its own scope.
    pub const RARE_TYPE: EventType = EventType::ProfileUpdated;

    fn text(&self) -> String {
        match self {
            Self::Token(id) => format!("et:{id}"),
            Self::Deletions(id) => format!("ed:{id}"),
            Self::Handle(handle) => format!("eh:{handle}"),
            Self::Chain(chain) => format!("ec:{chain}"),
            Self::ProfileUpdated => "eu".to_owned(),
        }
    }
}

fn int(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
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
    /// A position that the projection of the log has reached: the index has each segment that ends up to there.
    pub projected: u64,
}

impl SeqRange {
    fn is_empty(&self) -> bool {
        self.before <= self.after.saturating_add(1)
    }
}

#[derive(Clone)]
pub struct EventIndex {
    backend: SharedBackend,
    log: LogStore,
    /// By log: the last segment that a read found open. Projected entries never get other scopes.
    open_segments: Arc<Cache<String, Arc<OpenSegment>>>,
}

impl EventIndex {
    #[cfg(test)]
    pub fn new(backend: SharedBackend) -> Self {
        Self::with_log(LogStore::new(backend))
    }

    pub fn with_log(log: LogStore) -> Self {
        let open_segments = Arc::new(Cache::new(MAX_OPEN_SEGMENTS));
        Self { backend: SharedBackend::clone(log.backend()), log, open_segments }
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
        let filled = last_filled(between.projected);
        let indexed = SeqRange { before: between.before.min(filled + 1), ..between };
        let behind = SeqRange { after: between.after.max(filled), ..between };
        let mut found = if newest_first {
            let mut found = self.logged(dataset, scopes, behind).await?;
            found.reverse();
            found
        } else {
            self.indexed(dataset, scopes, indexed, false, limit).await?
        };
        let left = limit.saturating_sub(found.len());
        if left > 0 {
            let rest = if newest_first {
                self.indexed(dataset, scopes, indexed, true, left).await?
            } else {
                self.logged(dataset, scopes, behind).await?
            };
            found.extend(rest);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Finds the sequence numbers in the log, from the lowest up. The range is of one segment. An entry that only a
    /// newer version knows is in none of the scopes of this version.
    async fn logged(&self, dataset: &str, scopes: &[EventScope], between: SeqRange) -> StoreResult<Vec<u64>> {
        if between.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.open_segment(dataset, between.before - 1).await?.positions(scopes);
        found.retain(|seq| *seq > between.after && *seq < between.before);
        Ok(found)
    }

    /// Reads the segment of a projected entry, up to this entry or a later one.
    async fn open_segment(&self, dataset: &str, upto: u64) -> StoreResult<Arc<OpenSegment>> {
        let known = self.open_segments.get(dataset);
        let mut segment = match known.as_ref().filter(|known| segment_of(known.upto()) == segment_of(upto)) {
            Some(known) if known.upto() >= upto => return Ok(Arc::clone(known)),
            Some(known) => OpenSegment::clone(known),
            None => OpenSegment::beginning(upto),
        };
        let entries = self.log.known_entries(dataset, segment.upto(), upto).await?;
        entries.iter().for_each(|entry| segment.add(entry));
        let segment = Arc::new(segment);
        if known.is_none_or(|known| known.upto() < segment.upto()) {
            self.open_segments.insert(dataset.to_owned(), Arc::clone(&segment));
        }
        Ok(segment)
    }

    /// Finds the sequence numbers in the index.
    async fn indexed(
        &self,
        dataset: &str,
        scopes: &[EventScope],
        between: SeqRange,
        newest_first: bool,
        limit: usize,
    ) -> StoreResult<Vec<u64>> {
        let reads =
            scopes.iter().map(|scope| self.indexed_in_scope(dataset, scope.text(), between, newest_first, limit));
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

    async fn indexed_in_scope(
        &self,
        dataset: &str,
        scope: String,
        between: SeqRange,
        newest_first: bool,
        limit: usize,
    ) -> StoreResult<Vec<u64>> {
        if between.is_empty() {
            return Ok(Vec::new());
        }
        let (lowest, highest) = (segment_of(between.after + 1), segment_of(between.before - 1));
        let (low_bucket, high_bucket) = (bucket_of(lowest), bucket_of(highest));
        let mut read = ScopeRead {
            index: key![dataset, &scope],
            segments: [int(lowest), int(highest)],
            between,
            newest_first,
            limit,
            // Rows have at least an event, and most have few. Events of the first row may be outside of the range.
            rows_wanted: FIRST_ROWS.min(limit).max(full_rows(limit)) + 1,
            found: Vec::new(),
        };
        let (mut last, end) = if newest_first { (high_bucket, low_bucket) } else { (low_bucket, high_bucket) };
        // Most reads end in the first bucket, so it is read without the list of buckets.
        read.read_bucket(&self.backend, last).await?;
        let mut buckets_wanted = FIRST_BUCKETS;
        while last != end && !read.is_complete() {
            let (behind, upto) = (Bound::Excluded(key![last]), Bound::Included(key![end]));
            let (from, to) = if newest_first { (upto, behind) } else { (behind, upto) };
            let next = Scan {
                table: &schema::INDEX_BUCKET,
                partition: read.index.clone(),
                from,
                to,
                reverse: newest_first,
                limit: buckets_wanted,
                consistency: Consistency::Quorum,
            };
            let buckets = self.backend.scan(&next).await?;
            for bucket in &buckets {
                last = bucket.clustering.first().map_or(0, Value::int);
                read.read_bucket(&self.backend, last).await?;
                if read.is_complete() {
                    break;
                }
            }
            if buckets.len() < buckets_wanted {
                break;
            }
            buckets_wanted *= READ_GROWTH;
        }
        Ok(read.found)
    }
}

/// A read of the first events of a scope in a range.
struct ScopeRead {
    /// The columns of the index before the bucket.
    index: Vec<Value>,
    /// The lowest and the highest segment of the range.
    segments: [i64; 2],
    between: SeqRange,
    newest_first: bool,
    limit: usize,
    /// Number of rows that the next request reads.
    rows_wanted: usize,
    found: Vec<u64>,
}

impl ScopeRead {
    fn is_complete(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Adds the events of a bucket, up to the limit.
    async fn read_bucket(&mut self, backend: &SharedBackend, bucket: i64) -> StoreResult<()> {
        let [lowest, highest] = self.segments;
        let mut scan = Scan {
            table: &schema::EVENT_INDEX,
            partition: [&self.index[..], &key![bucket]].concat(),
            from: Bound::Included(key![lowest]),
            to: Bound::Included(key![highest]),
            reverse: self.newest_first,
            limit: self.rows_wanted,
            consistency: Consistency::Quorum,
        };
        loop {
            let rows = backend.scan(&scan).await?;
            for row in &rows {
                let start = self.found.len();
                let SeqRange { after, before, .. } = self.between;
                self.found.extend(positions_of_row(row).filter(|seq| *seq > after && *seq < before));
                if self.newest_first {
                    self.found[start..].reverse();
                }
            }
            self.found.truncate(self.limit);
            let Some(last) = rows.last().filter(|_| rows.len() == scan.limit && !self.is_complete()) else {
                return Ok(());
            };
            let rest = Bound::Excluded(last.clustering.clone());
            if self.newest_first {
                scan.to = rest;
            } else {
                scan.from = rest;
            }
            self.rows_wanted = (self.rows_wanted * READ_GROWTH).min(self.limit - self.found.len() + 1);
            scan.limit = self.rows_wanted;
        }
    }
}

#[cfg(test)]
mod tests;

//! Segments of a log: 64 sequence numbers each. The index has a row for each scope that occurs in a segment. Its body
//! has the offsets of the scope's events, a byte each.
//!
//! The rows of a segment are written with its last entry. So they follow from the log alone, whoever writes them, and
//! each is written once.

use std::{collections::BTreeMap, mem::take};

use super::{EventScope, int};
use crate::{
    domain::entry::SequencedEntry,
    key,
    store::{Change, Row, Value, schema},
};

/// Sequence numbers of one segment, and the maximum number of events in a row of the index.
const SEGMENT: u64 = 64;
/// Segments of one bucket.
const BUCKET: u64 = 4_096;

pub(super) fn segment_of(seq: u64) -> u64 {
    seq.saturating_sub(1) / SEGMENT
}

pub(super) fn bucket_of(segment: u64) -> i64 {
    int(segment / BUCKET)
}

/// The end of the last segment that a log with this head has filled; 0 if there is none.
pub(super) fn last_filled(head: u64) -> u64 {
    head / SEGMENT * SEGMENT
}

/// The minimum number of rows that hold this number of events.
pub(super) fn full_rows(events: usize) -> usize {
    events.div_ceil(usize::try_from(SEGMENT).expect("a segment is short"))
}

/// The sequence numbers in a row of the index, from the lowest up.
pub(super) fn positions_of_row(row: &Row) -> impl Iterator<Item = u64> {
    let segment = row.clustering.first().map_or(0, Value::int).unsigned_abs();
    row.body.iter().map(move |offset| segment * SEGMENT + 1 + u64::from(*offset))
}

/// Collects the scopes of entries until they fill a segment. The default is the beginning of a log.
#[derive(Clone, Debug, Default)]
pub struct OpenSegment {
    /// The last entry that was added.
    upto: u64,
    /// The offsets of the segment's entries up to there, by the text of their scope.
    offsets: BTreeMap<String, Vec<u8>>,
}

impl OpenSegment {
    /// The beginning of the segment that holds an entry.
    pub fn beginning(seq: u64) -> Self {
        Self { upto: last_filled(seq.saturating_sub(1)), offsets: BTreeMap::new() }
    }

    /// The last entry that was added. The next one must follow it.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    pub fn add(&mut self, SequencedEntry { seq, entry }: &SequencedEntry) {
        let offset = u8::try_from(seq.saturating_sub(1) % SEGMENT).expect("a segment has 64 entries");
        for scope in EventScope::of(entry) {
            self.offsets.entry(scope.text()).or_default().push(offset);
        }
        self.upto = *seq;
    }

    /// The sequence numbers of its entries in any of these scopes, from the lowest up.
    pub(super) fn positions(&self, scopes: &[EventScope]) -> Vec<u64> {
        let first = segment_of(self.upto) * SEGMENT + 1;
        let offsets = scopes.iter().filter_map(|scope| self.offsets.get(&scope.text())).flatten();
        let mut positions: Vec<u64> = offsets.map(|offset| first + u64::from(*offset)).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Adds entries whose rows are written. Without the entries before them, the segment goes back to the default.
    pub fn skip(&mut self, entries: &[SequencedEntry]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let filled = last_filled(last.seq);
        if first.seq <= filled + 1 {
            *self = Self::beginning(filled + 1);
        } else if first.seq != self.upto + 1 {
            *self = Self::default();
            return;
        }
        entries.iter().filter(|entry| entry.seq > filled).for_each(|entry| self.add(entry));
    }

    /// Adds the changes that write the rows of the segment if it is full, and begins the next one. `is_new_bucket`
    /// returns whether a bucket is not yet known as listed.
    pub fn close_if_full(
        &mut self,
        dataset: &str,
        is_new_bucket: impl Fn(&str, i64) -> bool,
        changes: &mut Vec<Change>,
    ) {
        if self.upto != last_filled(self.upto) {
            return;
        }
        let segment = segment_of(self.upto);
        let (bucket, version) = (bucket_of(segment), int(self.upto));
        let put = |table, key, body: Vec<u8>| Change { table, key, version, body: Some(body.into()), ttl: None };
        for (scope, offsets) in take(&mut self.offsets) {
            if is_new_bucket(&scope, bucket) {
                changes.push(put(&schema::INDEX_BUCKET, key![dataset, &scope, bucket], Vec::new()));
            }
            changes.push(put(&schema::EVENT_INDEX, key![dataset, scope, bucket, int(segment)], offsets));
        }
    }
}

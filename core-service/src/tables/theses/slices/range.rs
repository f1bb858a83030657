//! The rows and buckets of an index between the bounds of a slice.

use std::ops::Bound;

use super::{IndexSlice, IndexedRow};
use crate::{
    key,
    store::{Consistency, Row, Scan, Value, schema},
    tables::index_scope::IndexScope,
};

/// The rows and buckets that a slice spans.
pub(super) struct SliceRange {
    from: Bound<Vec<Value>>,
    to: Bound<Vec<Value>>,
    /// Lowest bucket, inclusive.
    pub(super) lowest: i64,
    /// Highest bucket, inclusive.
    pub(super) highest: i64,
}

impl SliceRange {
    /// The range of a slice; none if it is empty.
    pub(super) fn of(scope: &IndexScope, slice: &IndexSlice) -> Option<Self> {
        let (mut from, mut to) = (Bound::Included(key![slice.from]), Bound::Included(key![slice.to]));
        let (mut lowest, mut highest) = (scope.bucket(slice.from), scope.bucket(slice.to));
        if let Some((created_at, id)) = &slice.after {
            let after = Bound::Excluded(key![*created_at, id]);
            if slice.descending {
                (to, highest) = (after, highest.min(scope.bucket(*created_at)));
            } else if *created_at >= slice.from {
                // A row before the lower bound comes from a dataset that reaches further back.
                (from, lowest) = (after, scope.bucket(*created_at));
            }
        }
        (slice.from <= slice.to && lowest <= highest).then_some(Self { from, to, lowest, highest })
    }

    /// Reads the first buckets of the range, or the first after another one.
    pub(super) fn scan_buckets(&self, index: Vec<Value>, descending: bool, after: Option<i64>, limit: usize) -> Scan {
        let (mut from, mut to) = (Bound::Included(key![self.lowest]), Bound::Included(key![self.highest]));
        if let Some(after) = after {
            *(if descending { &mut to } else { &mut from }) = Bound::Excluded(key![after]);
        }
        Scan {
            table: &schema::INDEX_BUCKET,
            partition: index,
            from,
            to,
            reverse: descending,
            limit,
            consistency: Consistency::Quorum,
        }
    }

    /// Reads the first rows of a bucket within the range.
    pub(super) fn scan(&self, bucket: Vec<Value>, descending: bool, limit: usize) -> Scan {
        Scan {
            table: &schema::THESIS_INDEX,
            partition: bucket,
            from: self.from.clone(),
            to: self.to.clone(),
            reverse: descending,
            limit,
            consistency: Consistency::Quorum,
        }
    }

    /// Leaves the rows up to this one out.
    pub(super) fn continue_after(&mut self, last: &IndexedRow, descending: bool) {
        let after = Bound::Excluded(key![last.created_at, &last.id]);
        if descending {
            self.to = after;
        } else {
            self.from = after;
        }
    }
}

/// The buckets in rows of [`SliceRange::scan_buckets`].
pub(super) fn bucket_numbers(rows: &[Row]) -> Vec<i64> {
    rows.iter().filter_map(|row| Some(row.clustering.first()?.int())).collect()
}

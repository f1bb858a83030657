//! Searches the segments of the index that may hold a result, those that may hold the highest ranks first. The search
//! ends when no other segment can change the result.
//!
//! Segments are merged with others of their size, so a segment mostly holds the theses of one span of time. A search in
//! the order of time ends after the newest segments, and one in a window skips the older ones.

use std::{cmp::Reverse, ops::RangeInclusive};

use tantivy::{Searcher, SegmentOrdinal, SegmentReader, collector::Collector as _, query::Weight};

use super::{
    best::{Best, Rank, highest, times_of},
    schema::day_of,
};
use crate::domain::dataset::Dataset;

/// Maximum number of days that a query names. A month has fewer. In the common shard a longer window holds most theses
/// of a dataset, which is small.
const MAX_DAYS: i64 = 62;

/// A query on one dataset in one index.
pub(super) struct Source<'a, 's> {
    pub(super) dataset: &'a Dataset,
    pub(super) searcher: &'s Searcher,
    pub(super) weight: Box<dyn Weight>,
    pub(super) wanted: Best,
}

/// A segment that may hold results.
struct Part<'p, 'a, 's> {
    source: &'p Source<'a, 's>,
    ordinal: SegmentOrdinal,
    segment: &'p SegmentReader,
    /// No rank in it is higher.
    bound: (Option<i64>, i64),
}

/// Returns the highest ranks of all sources, which want the same order and number. No rank below `lowest` is wanted.
pub(super) fn search<'a>(
    sources: &[Source<'a, '_>],
    limit: usize,
    mut lowest: Option<Rank>,
) -> tantivy::Result<Vec<(Rank, &'a Dataset)>> {
    let mut parts = Vec::new();
    for source in sources {
        for (ordinal, segment) in (0..).zip(source.searcher.segment_readers()) {
            if let Some(bound) = source.wanted.bound(segment)? {
                parts.push(Part { source, ordinal, segment, bound });
            }
        }
    }
    parts.sort_by_key(|part| Reverse(part.bound));
    let mut found = Vec::new();
    for Part { source, ordinal, segment, bound } in parts {
        if lowest.is_some_and(|lowest| bound < (lowest.first, lowest.created_at)) {
            break;
        }
        let wanted = Best { lowest, ..source.wanted.clone() };
        let ranks = wanted.collect_segment(source.weight.as_ref(), ordinal, segment)?;
        found.extend(ranks.into_iter().map(|rank| (rank, source.dataset)));
        found = highest(found, limit);
        lowest = limit.checked_sub(1).and_then(|last| found.get(last)).map(|(rank, _)| *rank).or(lowest);
    }
    Ok(found)
}

/// The days of a window in an index, if a query that names them reads fewer documents than one that names none.
pub(super) fn days_of(searcher: &Searcher, from: i64, to: i64) -> tantivy::Result<Option<RangeInclusive<i64>>> {
    let (mut earliest, mut latest) = (i64::MAX, i64::MIN);
    for segment in searcher.segment_readers() {
        if let Some(times) = times_of(segment)? {
            (earliest, latest) = (earliest.min(*times.start()), latest.max(*times.end()));
        }
    }
    if from <= earliest && to >= latest {
        return Ok(None);
    }
    let days = day_of(from.max(earliest))..=day_of(to.min(latest));
    Ok(Some(days).filter(|days| days.end() - days.start() < MAX_DAYS))
}

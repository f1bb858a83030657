//! Collects the best matches of a query by rank, below a given rank: bounded memory, exact order.

use std::{cmp::Reverse, collections::BinaryHeap, mem, ops::RangeInclusive};

use tantivy::{
    DocId, Score, SegmentOrdinal, SegmentReader,
    collector::{Collector, SegmentCollector},
    columnar::Column,
};

use super::{
    cancel::Cancellation,
    schema::{CREATED_AT, ID_HIGH, ID_LOW, LIKES},
};

/// A search counts its documents in groups of this number, since a count is shared.
const COUNTED_AT_ONCE: u64 = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By score, then newest first.
    Relevance,
    Newest,
    /// By likes with unknown likes last, then newest first.
    Likes,
}

/// The rank of a hit; the highest is shown first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Score or likes.
    pub(super) first: Option<i64>,
    /// Time in unix milliseconds.
    pub(super) created_at: i64,
    /// The id's 120 bits.
    pub(super) id: (u64, u64),
}

/// The highest `limit` ranks below `after`, created in `from..=to`.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) order: Order,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) after: Option<Rank>,
    /// The lowest of `limit` ranks that other segments hold. No lower rank is among the highest.
    pub(super) lowest: Option<Rank>,
    pub(super) limit: usize,
    pub(super) cancellation: Cancellation,
}

impl Best {
    pub(super) fn new(order: Order, after: Option<Rank>, limit: usize) -> Self {
        let cancellation = Cancellation::default();
        Self { order, from: i64::MIN, to: i64::MAX, after, lowest: None, limit, cancellation }
    }

    /// The highest rank, without an id, that a row of a segment can have. None if every row is outside of the window.
    pub(super) fn bound(&self, segment: &SegmentReader) -> tantivy::Result<Option<(Option<i64>, i64)>> {
        let columns = segment.fast_fields();
        let is_wanted = |times: &RangeInclusive<i64>| *times.end() >= self.from && *times.start() <= self.to;
        let Some(times) = times_of(segment)?.filter(is_wanted) else { return Ok(None) };
        let first = match self.order {
            // The index has the document with the highest score of a word in each block, but by another average length
            // of a text than that of `compile.rs`. So it bounds no score.
            Order::Relevance => Some(i64::MAX),
            Order::Newest => None,
            Order::Likes => Some(columns.i64(LIKES)?.max_value()),
        };
        Ok(Some((first, self.to.min(*times.end()))))
    }
}

/// The earliest and the latest time of the rows of a segment. None if it has no rows: positions have no time.
pub(super) fn times_of(segment: &SegmentReader) -> tantivy::Result<Option<RangeInclusive<i64>>> {
    let created_at = segment.fast_fields().i64(CREATED_AT)?;
    let times = created_at.min_value()..=created_at.max_value();
    Ok(Some(times).filter(|_| created_at.values.num_vals() > 0))
}

pub(super) struct BestOfSegment {
    wanted: Best,
    likes: Column<i64>,
    created_at: Column<i64>,
    id_high: Column<u64>,
    id_low: Column<u64>,
    /// The kept ranks, with the lowest on top.
    kept: BinaryHeap<Reverse<Rank>>,
    /// Documents that are not counted yet.
    documents: u64,
}

impl BestOfSegment {
    fn count_documents(&mut self) {
        self.wanted.cancellation.count_documents(mem::take(&mut self.documents));
    }
}

impl SegmentCollector for BestOfSegment {
    type Fruit = Vec<Rank>;

    fn collect(&mut self, doc: DocId, score: Score) {
        self.documents += 1;
        if self.documents == COUNTED_AT_ONCE {
            self.count_documents();
        }
        let first = match self.wanted.order {
            // Scores are not negative, and the bits of non-negative floats sort like the floats.
            Order::Relevance => Some(i64::from(score.to_bits())),
            Order::Newest => None,
            Order::Likes => self.likes.first(doc),
        };
        let lowest = self.wanted.lowest;
        // Most hits are refused here, before more columns are read.
        if lowest.is_some_and(|lowest| first < lowest.first)
            || self.wanted.after.is_some_and(|after| first > after.first)
        {
            return;
        }
        let created_at = self.created_at.first(doc).unwrap_or_default();
        if !(self.wanted.from..=self.wanted.to).contains(&created_at)
            || lowest.is_some_and(|lowest| (first, created_at) < (lowest.first, lowest.created_at))
        {
            return;
        }
        let id = (self.id_high.first(doc).unwrap_or_default(), self.id_low.first(doc).unwrap_or_default());
        let rank = Rank { first, created_at, id };
        if self.wanted.after.is_some_and(|after| rank >= after) || lowest.is_some_and(|lowest| rank < lowest) {
            return;
        }
        self.kept.push(Reverse(rank));
        if self.kept.len() > self.wanted.limit {
            self.kept.pop();
        }
        if self.kept.len() == self.wanted.limit {
            self.wanted.lowest = self.kept.peek().map(|lowest| lowest.0);
        }
    }

    fn harvest(mut self) -> Vec<Rank> {
        self.count_documents();
        self.kept.into_iter().map(|Reverse(rank)| rank).collect()
    }
}

impl Collector for Best {
    type Fruit = Vec<Rank>;
    type Child = BestOfSegment;

    fn for_segment(&self, _: SegmentOrdinal, segment: &SegmentReader) -> tantivy::Result<BestOfSegment> {
        let columns = segment.fast_fields();
        Ok(BestOfSegment {
            wanted: self.clone(),
            likes: columns.i64(LIKES)?,
            created_at: columns.i64(CREATED_AT)?,
            id_high: columns.u64(ID_HIGH)?,
            id_low: columns.u64(ID_LOW)?,
            kept: BinaryHeap::new(),
            documents: 0,
        })
    }

    fn requires_scoring(&self) -> bool {
        self.order == Order::Relevance
    }

    fn merge_fruits(&self, segments: Vec<Vec<Rank>>) -> tantivy::Result<Vec<Rank>> {
        Ok(highest(segments.into_iter().flatten().collect(), self.limit))
    }
}

/// Sorts ranks, highest first, and keeps the first `limit`.
pub(super) fn highest<R: Ord>(mut ranks: Vec<R>, limit: usize) -> Vec<R> {
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    ranks.truncate(limit);
    ranks
}

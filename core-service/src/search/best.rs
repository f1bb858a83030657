//! Collects the best matches of a query by rank, below a given rank: bounded memory, exact order.

use std::{cmp::Reverse, collections::BinaryHeap};

use tantivy::{
    DocId, Score, SegmentOrdinal, SegmentReader,
    collector::{Collector, SegmentCollector},
    columnar::Column,
};

use super::schema::{CREATED_AT, ID_HIGH, ID_LOW, LIKES};

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
    pub(super) limit: usize,
}

impl Best {
    pub(super) const fn new(order: Order, after: Option<Rank>, limit: usize) -> Self {
        Self { order, from: i64::MIN, to: i64::MAX, after, limit }
    }
}

pub(super) struct BestOfSegment {
    wanted: Best,
    likes: Column<i64>,
    created_at: Column<i64>,
    id_high: Column<u64>,
    id_low: Column<u64>,
    /// The kept ranks, with the lowest on top.
    kept: BinaryHeap<Reverse<Rank>>,
}

impl SegmentCollector for BestOfSegment {
    type Fruit = Vec<Rank>;

    fn collect(&mut self, doc: DocId, score: Score) {
        let first = match self.wanted.order {
            // Scores are not negative, and the bits of non-negative floats sort like the floats.
            Order::Relevance => Some(i64::from(score.to_bits())),
            Order::Newest => None,
            Order::Likes => self.likes.first(doc),
        };
        let lowest = self.kept.peek().map(|lowest| lowest.0).filter(|_| self.kept.len() >= self.wanted.limit);
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
    }

    fn harvest(self) -> Vec<Rank> {
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

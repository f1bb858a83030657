//! Theses on tokens in blocks of six hours, for figures as of earlier times. A block has all theses that were posted in
//! its hours, with the times at which they were recorded and removed. So it serves figures as of any time.
//!
//! A count needs the theses of several blocks and datasets in one order, with numbers for authors. They are merged once
//! for all times that have the same blocks.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Weak},
};

use quick_cache::{Weighter, sync::Cache};

use super::IndexedRow;
use crate::domain::{
    dataset::{Dataset, View},
    derivation::{PastTheses, PastThesis},
    window::HOUR_MS,
};

/// Length of a block. The length of an index bucket is a multiple of it.
pub(super) const BLOCK_MS: i64 = 6 * HOUR_MS;
/// Maximum size in bytes of all cached blocks, and of all that are merged.
const MAX_BYTES: u64 = 16 << 20;
/// Typical size in bytes of a cached block.
const TYPICAL_BYTES: u64 = 4 << 10;
/// Approximate size in bytes of a cache entry without its theses.
const ENTRY_BYTES: usize = 300;

pub(super) struct PastBlock {
    /// The block includes the changes of all entries up to this position.
    pub(super) projected: u64,
    pub(super) theses: Vec<PastThesis>,
}

impl PastBlock {
    /// Makes a block from the rows of present and of deleted theses. A thesis that was deleted between the reads may
    /// have both rows.
    pub(super) fn new(projected: u64, mut rows: Vec<IndexedRow>) -> Self {
        rows.sort_unstable_by(|a, b| {
            (&a.id, a.indexed.removed_at.is_none()).cmp(&(&b.id, b.indexed.removed_at.is_none()))
        });
        rows.dedup_by(|next, kept| next.id == kept.id);
        let thesis = |row: IndexedRow| PastThesis {
            created_at: row.created_at,
            id: row.id.into(),
            author: row.indexed.profile_id.into(),
            recorded_at: row.indexed.recorded_at,
            removed_at: row.indexed.removed_at,
        };
        Self { projected, theses: rows.into_iter().map(thesis).collect() }
    }
}

/// Dataset, token, and number of the block.
type BlockKey = (String, String, i64);

#[derive(Clone)]
struct BySize;

impl Weighter<BlockKey, Arc<PastBlock>> for BySize {
    fn weight(&self, (dataset, token, _): &BlockKey, block: &Arc<PastBlock>) -> u64 {
        let texts: usize = block.theses.iter().map(|thesis| thesis.id.len() + thesis.author.len()).sum();
        let theses = texts + block.theses.len() * size_of::<PastThesis>();
        (ENTRY_BYTES + dataset.len() + token.len() + theses) as u64
    }
}

/// The theses of the blocks of all datasets of a view.
struct MergedBlocks {
    /// By dataset. A block that is read again is another one.
    blocks: Vec<Vec<Weak<PastBlock>>>,
    theses: Arc<PastTheses>,
}

impl MergedBlocks {
    fn is_of(&self, blocks: &[Vec<Arc<PastBlock>>]) -> bool {
        let are_same = |known: &Vec<Weak<PastBlock>>, blocks: &Vec<Arc<PastBlock>>| {
            known.len() == blocks.len()
                && known.iter().zip(blocks).all(|(known, block)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(block)))
        };
        self.blocks.len() == blocks.len() && self.blocks.iter().zip(blocks).all(|(known, of)| are_same(known, of))
    }
}

/// Names of the datasets, token, and the numbers of the first and the last block.
type MergedKey = (String, String, i64, i64);

#[derive(Clone)]
struct ByMergedSize;

impl Weighter<MergedKey, Arc<MergedBlocks>> for ByMergedSize {
    fn weight(&self, (datasets, token, ..): &MergedKey, merged: &Arc<MergedBlocks>) -> u64 {
        (ENTRY_BYTES + datasets.len() + token.len() + merged.theses.size()) as u64
    }
}

pub(super) struct PastBlocks {
    blocks: Cache<BlockKey, Arc<PastBlock>, BySize>,
    merged: Cache<MergedKey, Arc<MergedBlocks>, ByMergedSize>,
}

impl Default for PastBlocks {
    fn default() -> Self {
        let expected = usize::try_from(MAX_BYTES / TYPICAL_BYTES).unwrap_or_default();
        Self {
            blocks: Cache::with_weighter(expected, MAX_BYTES, BySize),
            merged: Cache::with_weighter(expected, MAX_BYTES, ByMergedSize),
        }
    }
}

impl PastBlocks {
    pub(super) fn get(&self, dataset: &str, token: &str, number: i64) -> Option<Arc<PastBlock>> {
        self.blocks.get(&(dataset.to_owned(), token.to_owned(), number))
    }

    pub(super) fn put(&self, dataset: &str, token: &str, number: i64, block: &Arc<PastBlock>) {
        self.blocks.insert((dataset.to_owned(), token.to_owned(), number), Arc::clone(block));
    }

    /// Merges the blocks with these numbers, those of each dataset of the view, or returns them from memory.
    pub(super) fn merge(
        &self,
        view: &View,
        token: &str,
        numbers: &RangeInclusive<i64>,
        blocks: &[Vec<Arc<PastBlock>>],
    ) -> Arc<PastTheses> {
        let datasets: Vec<&str> = view.datasets().iter().map(Dataset::name).collect();
        let key = (datasets.join(" "), token.to_owned(), *numbers.start(), *numbers.end());
        if let Some(known) = self.merged.get(&key).filter(|known| known.is_of(blocks)) {
            return Arc::clone(&known.theses);
        }
        let all = blocks.iter().enumerate().flat_map(|(dataset, blocks)| {
            blocks.iter().flat_map(move |block| block.theses.iter().map(move |thesis| (dataset, thesis)))
        });
        let theses = Arc::new(PastTheses::new(all));
        let blocks = blocks.iter().map(|blocks| blocks.iter().map(Arc::downgrade).collect()).collect();
        self.merged.insert(key, Arc::new(MergedBlocks { blocks, theses: Arc::clone(&theses) }));
        theses
    }
}

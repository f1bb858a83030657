//! Theses on tokens in blocks of six hours, for figures as of earlier times. A block has all theses that were posted in
//! its hours, with the times at which they were recorded and removed. So it serves figures as of any time.
//!
//! An entry makes those blocks old that it changes, so the blocks of past days stay right while theses are posted. Where
//! this process writes all rows, it notes these blocks as it writes. Elsewhere it notes them when it applies the log's
//! entries to cached rows. If there are too many entries to apply, any entry about a token since then makes all of its
//! blocks old.
//!
//! A count needs the theses of several blocks and datasets in one order, with numbers for authors. They are merged once
//! for all times that have the same blocks.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use quick_cache::{Weighter, sync::Cache};

use super::IndexedRow;
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{PastTheses, PastThesis},
        window::HOUR_MS,
    },
    store::{Change, schema},
    tables::index_scope::IndexScope,
};

/// Length of a block. The length of an index bucket is a multiple of it.
pub(super) const BLOCK_MS: i64 = 6 * HOUR_MS;
/// Maximum size in bytes of all cached blocks, and of all that are merged.
const MAX_BYTES: u64 = 16 << 20;
/// Typical size in bytes of a cached block.
const TYPICAL_BYTES: u64 = 4 << 10;
/// Approximate size in bytes of a cache entry without its theses.
const ENTRY_BYTES: usize = 300;
/// Maximum number of blocks whose last change is known.
const MAX_CHANGED: usize = 10_000;

pub(super) struct PastBlock {
    /// The block includes the changes of all entries up to this position.
    projected: AtomicU64,
    theses: Vec<PastThesis>,
}

impl PastBlock {
    /// Makes a block from the rows of present and of deleted theses. A thesis that was deleted between the reads may
    /// have both rows.
    pub(super) fn new(projected: u64, mut rows: Vec<IndexedRow>) -> Self {
        rows.sort_unstable_by(|a, b| {
            (&a.id, a.indexed.removed_at.is_none()).cmp(&(&b.id, b.indexed.removed_at.is_none()))
        });
        rows.dedup_by(|next, kept| next.id == kept.id);
        // Blocks in the order of their times are merged quickly.
        rows.sort_by_key(|row| row.created_at);
        let thesis = |row: IndexedRow| PastThesis {
            created_at: row.created_at,
            id: row.id.into(),
            author: row.indexed.profile_id.into(),
            recorded_at: row.indexed.recorded_at,
            removed_at: row.indexed.removed_at,
        };
        Self { projected: AtomicU64::new(projected), theses: rows.into_iter().map(thesis).collect() }
    }

    /// Returns whether the block includes the change of an entry.
    pub(super) fn includes(&self, seq: u64) -> bool {
        self.projected.load(Ordering::Relaxed) >= seq
    }

    /// Notes that no entry up to a position has changed the block since it was read.
    pub(super) fn stays_right_up_to(&self, projected: u64) {
        self.projected.fetch_max(projected, Ordering::Relaxed);
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

/// The last entries that changed blocks.
#[derive(Default)]
struct ChangedBlocks {
    last: HashMap<BlockKey, u64>,
    /// By dataset. Entries up to here may have changed any block that `last` does not have.
    forgotten: HashMap<String, u64>,
}

impl ChangedBlocks {
    fn note(&mut self, block: BlockKey, seq: u64) {
        if self.last.len() >= MAX_CHANGED {
            for ((dataset, _, _), seq) in self.last.drain() {
                let upto = self.forgotten.entry(dataset).or_default();
                *upto = seq.max(*upto);
            }
        }
        let last = self.last.entry(block).or_default();
        *last = seq.max(*last);
    }

    /// The last entry that may have changed a block.
    fn last(&self, block: &BlockKey) -> u64 {
        let forgotten = self.forgotten.get(&block.0).copied().unwrap_or_default();
        self.last.get(block).copied().unwrap_or_default().max(forgotten)
    }
}

pub(super) struct PastBlocks {
    blocks: Cache<BlockKey, Arc<PastBlock>, BySize>,
    merged: Cache<MergedKey, Arc<MergedBlocks>, ByMergedSize>,
    changed: Mutex<ChangedBlocks>,
}

impl Default for PastBlocks {
    fn default() -> Self {
        let expected = usize::try_from(MAX_BYTES / TYPICAL_BYTES).unwrap_or_default();
        Self {
            blocks: Cache::with_weighter(expected, MAX_BYTES, BySize),
            merged: Cache::with_weighter(expected, MAX_BYTES, ByMergedSize),
            changed: Mutex::default(),
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

    /// Notes the blocks that changes of rows change. Call it before the rows are written, or before the log's position
    /// moves past their entries.
    pub(super) fn note_changes(&self, changes: &[Change]) {
        for change in changes.iter().filter(|change| change.table.name == schema::THESIS_INDEX.name) {
            let [dataset, scope, _, created_at, _] = change.key.as_slice() else { continue };
            // A deletion removes the thesis from this index too.
            let Some(token) = IndexScope::token_of(scope.text()) else { continue };
            let number = created_at.int().div_euclid(BLOCK_MS);
            let block = (dataset.text().to_owned(), token.to_owned(), number);
            self.changed.lock().note(block, change.version.unsigned_abs());
        }
    }

    /// The last noted entry that may have changed a block.
    pub(super) fn changed_in(&self, dataset: &str, token: &str, number: i64) -> u64 {
        self.changed.lock().last(&(dataset.to_owned(), token.to_owned(), number))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_makes_its_block_old_and_a_forgotten_one_every_block_of_its_dataset() {
        let block = |dataset: &str, number: i64| (dataset.to_owned(), "tk_1".to_owned(), number);
        let mut changed = ChangedBlocks::default();
        changed.note(block("live", 1), 7);
        changed.note(block("live", 1), 5);
        changed.note(block("sandbox", 1), 900_000);
        let last = |changed: &ChangedBlocks, dataset, number| changed.last(&block(dataset, number));
        let known = [("live", 1), ("live", 2), ("sandbox", 2)].map(|(of, number)| last(&changed, of, number));
        assert_eq!(known, [7, 0, 0]);
        for (number, seq) in (2..).zip(8..).take(MAX_CHANGED) {
            changed.note(block("live", number), seq);
        }
        assert!(changed.last.len() <= MAX_CHANGED);
        let newest = last(&changed, "live", 1);
        assert!(newest > 7 && newest == last(&changed, "live", -1));
        assert_eq!([("sandbox", 2), ("project/prj_1", 1)].map(|(of, number)| last(&changed, of, number)), [900_000, 0]);
        changed.note(block("live", -1), 2_000_000);
        assert_eq!([-1, 1].map(|number| last(&changed, "live", number)), [2_000_000, newest]);
    }
}

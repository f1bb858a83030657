//! Theses on tokens in blocks of six hours, for figures as of earlier times. A block has all theses that were posted in
//! its hours, with the times at which they were recorded and removed. So it serves figures as of any time.

use std::sync::Arc;

use quick_cache::{Weighter, sync::Cache};

use super::IndexedRow;
use crate::domain::{derivation::PastThesis, window::HOUR_MS};

/// Length of a block. The length of an index bucket is a multiple of it.
pub(super) const BLOCK_MS: i64 = 6 * HOUR_MS;
/// Maximum size in bytes of all cached blocks.
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
            id: row.id,
            author: row.indexed.profile_id,
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

pub(super) struct PastBlocks(Cache<BlockKey, Arc<PastBlock>, BySize>);

impl Default for PastBlocks {
    fn default() -> Self {
        let expected = usize::try_from(MAX_BYTES / TYPICAL_BYTES).unwrap_or_default();
        Self(Cache::with_weighter(expected, MAX_BYTES, BySize))
    }
}

impl PastBlocks {
    pub(super) fn get(&self, dataset: &str, token: &str, number: i64) -> Option<Arc<PastBlock>> {
        self.0.get(&(dataset.to_owned(), token.to_owned(), number))
    }

    pub(super) fn put(&self, dataset: &str, token: &str, number: i64, block: &Arc<PastBlock>) {
        self.0.insert((dataset.to_owned(), token.to_owned(), number), Arc::clone(block));
    }
}

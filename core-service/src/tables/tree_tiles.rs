//! The tiles of the trees over logs, and how far the trees reach.
//!
//! Tiles follow from the log alone. A tile only grows, so its version is the number of its hashes, and any core may
//! write it again. Each generation of logs has separate trees, because after a restore a log has other entries under
//! the same numbers.

use std::collections::BTreeMap;

use bytes::Bytes;
use thesis_receipts::{HASH_BYTES, TileId};

use super::{
    generation::Generation,
    log::{LogStore, checkpoint_change},
};
use crate::{
    domain::dataset::Dataset,
    key,
    store::{Change, StoreResult, Value, schema::TREE_TILE},
};

/// Tiles in one partition, which then has at most 2 MiB.
const BUCKET: u64 = 256;

/// Reads and writes tiles.
#[derive(Clone)]
pub struct TreeTiles {
    log: LogStore,
    generation: String,
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl TreeTiles {
    /// Tiles over these logs.
    pub fn new(log: LogStore, generation: &Generation) -> Self {
        Self { log, generation: generation.as_str().to_owned() }
    }

    /// Name of the projection of a log into its tree.
    fn projection(&self) -> String {
        format!("tree/{}", self.generation)
    }

    fn key(&self, dataset: &Dataset, tile: TileId) -> Vec<Value> {
        let (level, index) = (i64::from(tile.level), tile.index);
        key![dataset.name(), &self.generation, level, int(index / BUCKET), int(index)]
    }

    /// Number of entries whose leaves the tiles have.
    pub async fn size(&self, dataset: &Dataset) -> StoreResult<u64> {
        self.log.checkpoint(dataset.name(), &self.projection()).await
    }

    /// Reads tiles. Missing ones are left out.
    pub async fn read(&self, dataset: &Dataset, tiles: &[TileId]) -> StoreResult<BTreeMap<TileId, Bytes>> {
        let keys: Vec<_> = tiles.iter().map(|tile| self.key(dataset, *tile)).collect();
        let rows = self.log.backend().get_many(&TREE_TILE, &keys).await?;
        Ok(tiles.iter().zip(rows).filter_map(|(tile, row)| Some((*tile, row?.body))).collect())
    }

    /// Writes changed tiles, then how far the tree reaches.
    pub async fn write(&self, dataset: &Dataset, size: u64, tiles: Vec<(TileId, Vec<u8>)>) -> StoreResult<()> {
        let tiles = tiles.into_iter().map(|(tile, hashes)| Change {
            table: &TREE_TILE,
            key: self.key(dataset, tile),
            version: int((hashes.len() / HASH_BYTES) as u64),
            body: Some(hashes.into()),
            ttl: None,
        });
        let checkpoint = checkpoint_change(dataset.name(), &self.projection(), size);
        let backend = self.log.backend();
        if backend.is_exclusive() {
            return backend.apply(tiles.chain([checkpoint]).collect()).await;
        }
        // The checkpoint may be written only after all tiles before it.
        backend.apply(tiles.collect()).await?;
        backend.apply(vec![checkpoint]).await
    }
}

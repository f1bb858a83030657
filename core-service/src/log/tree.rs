//! The trees over the logs of `live` and `sandbox`, and their signed checkpoints.
//!
//! The core that leads a log adds the leaf of each entry to the tree (`follow.rs`). The tree is a projection: the store
//! has its tiles, and how far they reach. The core signs a checkpoint of the tree at most once a second while the log
//! grows. Two cores may do both at the same time: the tiles follow from the log, and a conditional write decides which
//! checkpoint counts. A checkpoint is shown only after it is stored. A core compares the tree with the last checkpoint
//! before it continues another core's checkpoints, or its own after an error. So no two checkpoints of a log contradict
//! each other, whatever crashes.

mod cosign;
mod follow;
mod receipt;
#[cfg(test)]
mod tests;
mod witness;

use std::sync::Arc;

use bytes::Bytes;
use thesis_receipts::{GrowingTree, HASH_BYTES, Hash, KeyKind, SigningKey, TileId, VerifierKey};

pub use self::{cosign::cosign, follow::follow, receipt::NoReceipt, witness::WitnessSettings};
use crate::{
    domain::dataset::Dataset,
    shared::Shared,
    store::{Consistency, StoreError, StoreResult},
    tables::{
        signed_trees::{self, LogKey, SignedTree},
        tree_tiles::TreeTiles,
    },
};

/// The datasets whose logs have trees.
pub const DATASETS: [Dataset; 2] = [Dataset::Live, Dataset::Sandbox];

/// The trees of a store, and the key that signs them.
pub struct Trees {
    shared: Arc<Shared>,
    tiles: TreeTiles,
    key: SigningKey,
}

impl Trees {
    /// Trees that the key with this seed signs.
    pub fn new(shared: Arc<Shared>, seed: &[u8; 32]) -> Arc<Self> {
        let tiles = TreeTiles::new(shared.log.clone(), &shared.generation);
        Arc::new(Self { shared, tiles, key: SigningKey::from_seed(seed) })
    }

    /// The name of a dataset's log in checkpoints. It contains the generation, so a restored log has another name.
    pub fn log_name(&self, dataset: &Dataset) -> String {
        format!("trade-thesis/{dataset}/{}", self.shared.generation.as_str())
    }

    /// The public key of a log under the log's name.
    fn verifier(&self, dataset: &Dataset) -> VerifierKey {
        self.key.verifier(&self.log_name(dataset), KeyKind::Log)
    }

    /// The newest signed checkpoint, with its cosignatures if witnesses have cosigned it.
    pub async fn checkpoint(&self, dataset: &Dataset) -> StoreResult<Option<SignedTree>> {
        let Some(signed) = self.signed(dataset).await? else { return Ok(None) };
        // After a change of the key the same tree is signed again, and the old cosignatures do not count.
        let is_same = |cosigned: &SignedTree| (cosigned.size, &cosigned.key) == (signed.size, &signed.key);
        let cosigned = self.cosigned(dataset).await?.filter(is_same);
        Ok(Some(cosigned.unwrap_or(signed)))
    }

    /// The checkpoint for the receipt of an entry: the newest cosigned one that covers it, or else the newest one.
    pub async fn checkpoint_over(&self, dataset: &Dataset, seq: u64) -> StoreResult<Option<SignedTree>> {
        match self.cosigned(dataset).await?.filter(|cosigned| cosigned.size >= seq) {
            Some(cosigned) => Ok(Some(cosigned)),
            None => self.signed(dataset).await,
        }
    }

    /// The newest signed checkpoint, without cosignatures.
    async fn signed(&self, dataset: &Dataset) -> StoreResult<Option<SignedTree>> {
        let log = self.log_name(dataset);
        let read = signed_trees::read(&self.shared.backend, dataset, &log, Consistency::Quorum).await?;
        Ok(read.map(|(_, tree)| tree))
    }

    /// The newest checkpoint that witnesses cosigned.
    async fn cosigned(&self, dataset: &Dataset) -> StoreResult<Option<SignedTree>> {
        let log = self.log_name(dataset);
        let read = signed_trees::read_cosigned(&self.shared.backend, dataset, &log, Consistency::Quorum).await?;
        Ok(read.map(|(_, tree)| tree))
    }

    /// The first `width` hashes of a tile; none if the signed tree has fewer.
    pub async fn tile(&self, dataset: &Dataset, tile: TileId, width: usize) -> StoreResult<Option<Bytes>> {
        let size = self.signed(dataset).await?.map_or(0, |signed| signed.size);
        if tile.width_at(size) < width {
            return Ok(None);
        }
        let hashes = self.tiles.read(dataset, &[tile]).await?.remove(&tile);
        let hashes = hashes.filter(|hashes| hashes.len() >= width * HASH_BYTES);
        let hashes = hashes.ok_or_else(|| StoreError::Damaged(format!("the tree of {dataset} lacks tile {tile}")))?;
        Ok(Some(hashes.slice(..width * HASH_BYTES)))
    }

    /// The keys that ever signed checkpoints of a dataset, oldest first.
    pub async fn keys(&self, dataset: &Dataset) -> StoreResult<Vec<LogKey>> {
        signed_trees::keys(&self.shared.backend, dataset, &self.log_name(dataset), Consistency::Quorum).await
    }

    /// The root of the tree at an earlier size.
    async fn root_at(&self, dataset: &Dataset, size: u64) -> StoreResult<Hash> {
        let tiles = self.tiles.read(dataset, &GrowingTree::tiles_of(size)).await?;
        let tree = GrowingTree::from_tiles(size, &tiles);
        let tree =
            tree.ok_or_else(|| StoreError::Damaged(format!("the tree of {dataset} lacks tiles at size {size}")))?;
        Ok(tree.root())
    }
}

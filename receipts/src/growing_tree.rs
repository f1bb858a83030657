//! Adds leaves to the tree and computes its tiles and its root.

use std::{collections::BTreeMap, mem::take};

use crate::{
    plan::ProofPlan,
    tile::{TILE_BYTES, TileId},
    tree::{EMPTY_ROOT, HASH_BYTES, Hash, hashes_in, subtree_root},
};

/// A tree to which leaves are added. It holds only the tiles at its right edge. The caller takes changed tiles out and
/// stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowingTree {
    size: u64,
    /// The last tile of each level, which is never full: when it gets full, an empty one replaces it.
    edge: Vec<Vec<u8>>,
    /// Full tiles that the caller has not taken yet.
    full: Vec<(TileId, Vec<u8>)>,
    /// Number of levels, from the lowest one, whose last tile changed since the last [`Self::take_changed`].
    changed_levels: usize,
}

impl GrowingTree {
    /// The tiles from which [`Self::from_tiles`] restores a tree of this size.
    #[must_use]
    pub fn tiles_of(size: u64) -> Vec<TileId> {
        ProofPlan::root(size).tiles()
    }

    /// The tree of this size, from its tiles at the right edge. They may have more hashes than the tree: another core
    /// may have stored later ones. None if a tile is missing or too short.
    #[must_use]
    pub fn from_tiles<B: AsRef<[u8]>>(size: u64, tiles: &BTreeMap<TileId, B>) -> Option<Self> {
        let mut edge = Vec::new();
        for level in 0.. {
            let hashes = size.checked_shr(8 * u32::from(level)).unwrap_or_default();
            if hashes == 0 {
                break;
            }
            let id = TileId { level, index: hashes / 256 };
            let bytes = id.width_at(size) * HASH_BYTES;
            edge.push(if bytes == 0 { Vec::new() } else { tiles.get(&id)?.as_ref().get(..bytes)?.to_vec() });
        }
        Some(Self { size, edge, full: Vec::new(), changed_levels: 0 })
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds the hash of a leaf.
    pub fn push(&mut self, leaf: Hash) {
        let (mut hash, mut level) = (leaf, 0);
        loop {
            if self.edge.len() == level {
                self.edge.push(Vec::with_capacity(TILE_BYTES));
            }
            let tile = &mut self.edge[level];
            tile.extend_from_slice(&hash);
            if tile.len() < TILE_BYTES {
                break;
            }
            let bytes = take(tile);
            hash = subtree_root(hashes_in(&bytes));
            let level_number = u8::try_from(level).expect("a tree has at most eight levels of tiles");
            let id = TileId { level: level_number, index: self.size >> (8 * (level + 1)) };
            self.full.push((id, bytes));
            level += 1;
        }
        self.size += 1;
        self.changed_levels = self.changed_levels.max(level + 1);
    }

    /// Takes the tiles that changed since the last call: full ones, and the last ones as they are now.
    pub fn take_changed(&mut self) -> Vec<(TileId, Vec<u8>)> {
        let mut changed = take(&mut self.full);
        for (level, bytes) in (0u8..).zip(&self.edge[..self.changed_levels]) {
            if !bytes.is_empty() {
                let index = self.size >> (8 * (u32::from(level) + 1));
                changed.push((TileId { level, index }, bytes.clone()));
            }
        }
        self.changed_levels = 0;
        changed
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Hash {
        let edge = (0u8..).zip(&self.edge).map(|(level, bytes)| {
            let index = self.size.checked_shr(8 * (u32::from(level) + 1)).unwrap_or_default();
            (TileId { level, index }, bytes)
        });
        let hashes = ProofPlan::root(self.size).hashes(&edge.collect());
        hashes.and_then(|mut hashes| hashes.pop()).unwrap_or(EMPTY_ROOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{leaf_hash, node_hash};

    fn leaf(number: u64) -> Hash {
        leaf_hash(&number.to_be_bytes())
    }

    /// The root as RFC 9162 defines it.
    fn naive_root(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => EMPTY_ROOT,
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node_hash(&naive_root(left), &naive_root(right))
            }
        }
    }

    /// The test data of the reference implementation of Certificate Transparency, which others share.
    #[test]
    fn roots_are_those_of_other_implementations() {
        let leaves =
            ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut tree = GrowingTree::default();
        assert_eq!(tree.root(), EMPTY_ROOT);
        for (content, root) in leaves.iter().zip(roots) {
            tree.push(leaf_hash(&hex::decode(content).unwrap()));
            assert_eq!(hex::encode(tree.root()), root);
        }
    }

    #[test]
    fn a_tree_restored_from_its_tiles_grows_on() {
        let mut tiles = BTreeMap::new();
        let (mut tree, mut leaves) = (GrowingTree::default(), Vec::new());
        for step in [1, 254, 1, 1, 255, 256, 300, 64_468, 1, 700] {
            for _ in 0..step {
                let hash = leaf(tree.size());
                tree.push(hash);
                leaves.push(hash);
            }
            tiles.extend(tree.take_changed());
            assert!(tree.take_changed().is_empty());
            let restored = GrowingTree::from_tiles(tree.size(), &tiles).unwrap();
            assert_eq!((restored.size(), restored.root()), (tree.size(), naive_root(&leaves)));
            tree = restored;
        }
        assert_eq!(tree.size(), 66_237);
        assert!(tiles.iter().all(|(id, bytes)| bytes.len() == id.width_at(tree.size()) * HASH_BYTES), "every tile");
        assert_eq!(tiles.len(), 259 + 2 + 1);
    }

    #[test]
    fn tiles_of_a_larger_tree_restore_a_smaller_one() {
        let (mut tree, mut tiles) = (GrowingTree::default(), BTreeMap::new());
        let mut roots = vec![tree.root()];
        for number in 0..600 {
            tree.push(leaf(number));
            roots.push(tree.root());
        }
        tiles.extend(tree.take_changed());
        for (size, root) in (0u64..).zip(roots) {
            assert!(GrowingTree::tiles_of(size).iter().all(|id| tiles.contains_key(id)));
            assert_eq!(GrowingTree::from_tiles(size, &tiles).unwrap().root(), root);
        }
        assert_eq!(GrowingTree::from_tiles(601, &tiles), None);
        tiles.remove(&TileId { level: 1, index: 0 });
        assert_eq!(GrowingTree::from_tiles(600, &tiles), None);
        assert!(GrowingTree::from_tiles(255, &tiles).is_some());
    }
}

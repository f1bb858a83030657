//! Computes proofs from stored tiles.
//!
//! A proof is a list of hashes, each the root of a range of leaves. A range consists of complete subtrees, and each of
//! these has its hashes in one tile. A plan names these tiles. The caller reads them, and the plan computes the hashes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{
    tile::{TILE_WIDTH, TileId},
    tree::{EMPTY_ROOT, HASH_BYTES, Hash, hashes_in, node_hash, subtree_root},
};

/// Height of a tile.
const TILE_HEIGHT: u32 = 8;

/// The ranges of leaves whose roots make up a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofPlan {
    ranges: Vec<Range<u64>>,
}

/// A complete subtree: the `index`-th one with this height.
#[derive(Clone, Copy)]
struct Subtree {
    height: u32,
    index: u64,
}

impl Subtree {
    /// The tile with the hashes of the subtree, and their range in the tile.
    fn tile_range(self) -> (TileId, Range<usize>) {
        let (level, above) = (self.height / TILE_HEIGHT, self.height % TILE_HEIGHT);
        let first = self.index << above;
        let start = usize::try_from(first % TILE_WIDTH as u64).expect("below 256");
        let level = u8::try_from(level).expect("a height is below 64");
        (TileId { level, index: first / TILE_WIDTH as u64 }, start..start + (1 << above))
    }
}

/// The complete subtrees of a range, from the left. Its start is a multiple of the largest one.
fn subtrees(range: &Range<u64>) -> impl Iterator<Item = Subtree> {
    let mut start = range.start;
    let end = range.end;
    std::iter::from_fn(move || {
        let height = (end - start).checked_ilog2()?;
        let subtree = Subtree { height, index: start >> height };
        start += 1 << height;
        Some(subtree)
    })
}

/// The largest power of two below `count`, which is at least 2.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

impl ProofPlan {
    /// The root of a tree of this size.
    #[must_use]
    pub fn root(size: u64) -> Self {
        Self { ranges: std::iter::once(0..size).collect() }
    }

    /// The proof that a tree of this size has the leaf with this index; none if it has no such leaf.
    #[must_use]
    pub fn inclusion(index: u64, size: u64) -> Option<Self> {
        if index >= size {
            return None;
        }
        let (mut ranges, mut within) = (Vec::new(), 0..size);
        while within.end - within.start > 1 {
            let middle = within.start + split(within.end - within.start);
            let (own, sibling) = halves(within, middle, index < middle);
            ranges.push(sibling);
            within = own;
        }
        ranges.reverse();
        Some(Self { ranges })
    }

    /// The proof that a tree of the size `new` begins with all leaves of the tree of the size `old`; none if it is
    /// smaller. A tree begins with itself and with the empty tree without a proof.
    #[must_use]
    pub fn consistency(old: u64, new: u64) -> Option<Self> {
        if old > new {
            return None;
        }
        let mut ranges = Vec::new();
        if old == 0 || old == new {
            return Some(Self { ranges });
        }
        let mut within = 0..new;
        while within.end != old {
            let middle = within.start + split(within.end - within.start);
            let (own, sibling) = halves(within, middle, old <= middle);
            ranges.push(sibling);
            within = own;
        }
        // The verifier knows the root of the whole old tree.
        if within.start != 0 {
            ranges.push(within);
        }
        ranges.reverse();
        Some(Self { ranges })
    }

    /// The tiles that have the hashes.
    #[must_use]
    pub fn tiles(&self) -> Vec<TileId> {
        let tiles: BTreeSet<TileId> =
            self.ranges.iter().flat_map(subtrees).map(|subtree| subtree.tile_range().0).collect();
        tiles.into_iter().collect()
    }

    /// Computes the hashes of the proof from its tiles; none if one is missing or too short.
    #[must_use]
    pub fn hashes<B: AsRef<[u8]>>(&self, tiles: &BTreeMap<TileId, B>) -> Option<Vec<Hash>> {
        let root_of = |subtree: Subtree| {
            let (tile, place) = subtree.tile_range();
            let bytes = tiles.get(&tile)?.as_ref().get(place.start * HASH_BYTES..place.end * HASH_BYTES)?;
            Some(subtree_root(hashes_in(bytes)))
        };
        let hash_of = |range: &Range<u64>| {
            let roots = subtrees(range).map(root_of).collect::<Option<Vec<Hash>>>()?;
            Some(roots.into_iter().rev().reduce(|right, left| node_hash(&left, &right)).unwrap_or(EMPTY_ROOT))
        };
        self.ranges.iter().map(hash_of).collect()
    }
}

/// The two parts of a range, split at `middle`: first the left one if `left`, else first the right one.
fn halves(within: Range<u64>, middle: u64, left: bool) -> (Range<u64>, Range<u64>) {
    let (before, after) = (within.start..middle, middle..within.end);
    if left { (before, after) } else { (after, before) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        growing_tree::GrowingTree,
        proof::{root_of_inclusion, verify_consistency},
        tree::leaf_hash,
    };

    struct Trees {
        tiles: BTreeMap<TileId, Vec<u8>>,
        /// The root of each size.
        roots: Vec<Hash>,
    }

    fn leaf(index: u64) -> Hash {
        leaf_hash(&index.to_be_bytes())
    }

    fn trees(size: u64) -> Trees {
        let mut tree = GrowingTree::default();
        let mut roots = vec![tree.root()];
        for index in 0..size {
            tree.push(leaf(index));
            roots.push(tree.root());
        }
        Trees { tiles: tree.take_changed().into_iter().collect(), roots }
    }

    /// Computes a proof with its own tiles alone.
    fn hashes(trees: &Trees, plan: &ProofPlan) -> Vec<Hash> {
        let tiles: BTreeMap<TileId, &[u8]> = plan.tiles().iter().map(|id| (*id, &trees.tiles[id][..])).collect();
        plan.hashes(&tiles).unwrap()
    }

    #[test]
    fn every_leaf_has_a_proof_in_every_tree() {
        let trees = trees(40);
        for (size, root) in (0u64..).zip(&trees.roots) {
            for index in 0..size {
                let proof = hashes(&trees, &ProofPlan::inclusion(index, size).unwrap());
                assert_eq!(root_of_inclusion(index, size, leaf(index), &proof), Some(*root), "{index} in {size}");
            }
            assert_eq!(ProofPlan::inclusion(size, size), None);
        }
    }

    #[test]
    fn every_two_trees_have_a_proof() {
        let trees = trees(40);
        for (new, new_root) in (0u64..).zip(&trees.roots) {
            for (old, old_root) in (0..=new).zip(&trees.roots) {
                let proof = hashes(&trees, &ProofPlan::consistency(old, new).unwrap());
                assert!(verify_consistency((old, old_root), (new, new_root), &proof), "{old} and {new}");
            }
            assert_eq!(ProofPlan::consistency(new + 1, new), None);
        }
    }

    #[test]
    fn proofs_cross_the_edges_of_tiles() {
        let trees = trees(70_000);
        let sizes = [1, 255, 256, 257, 65_535, 65_536, 65_537, 69_999, 70_000_usize];
        for (new, place) in sizes.iter().zip(1..) {
            let (size, root) = (*new as u64, &trees.roots[*new]);
            for old in &sizes[..place] {
                let (before, old_root) = (*old as u64, &trees.roots[*old]);
                let proof = hashes(&trees, &ProofPlan::consistency(before, size).unwrap());
                assert!(verify_consistency((before, old_root), (size, root), &proof), "{old} and {new}");
                let proof = hashes(&trees, &ProofPlan::inclusion(before - 1, size).unwrap());
                assert_eq!(root_of_inclusion(before - 1, size, leaf(before - 1), &proof), Some(*root));
            }
        }
    }

    #[test]
    fn a_plan_needs_all_of_its_tiles() {
        let mut trees = trees(600);
        let plan = ProofPlan::inclusion(0, 600).unwrap();
        assert_eq!(plan.tiles().len(), 3);
        trees.tiles.get_mut(&TileId { level: 0, index: 2 }).unwrap().truncate(87 * HASH_BYTES);
        assert_eq!(plan.hashes(&trees.tiles), None);
        trees.tiles.remove(&TileId { level: 0, index: 2 });
        assert_eq!(plan.hashes(&trees.tiles), None);
    }
}

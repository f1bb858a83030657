//! Hashes of the Merkle tree (RFC 9162).

use sha2::{Digest as _, Sha256};

/// Length of a hash.
pub const HASH_BYTES: usize = 32;

/// A SHA-256 hash.
pub type Hash = [u8; HASH_BYTES];

/// The root of the tree without leaves: the hash of nothing.
pub const EMPTY_ROOT: Hash = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The hash of a leaf with this content.
#[must_use]
pub fn leaf_hash(content: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(content).finalize().into()
}

/// The hash of a node with these children.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The root of a complete subtree with these hashes at one height. Their number is a power of two.
pub(crate) fn subtree_root(mut hashes: Vec<Hash>) -> Hash {
    while hashes.len() > 1 {
        hashes = hashes.chunks_exact(2).map(|pair| node_hash(&pair[0], &pair[1])).collect();
    }
    hashes.pop().unwrap_or(EMPTY_ROOT)
}

/// The hashes that follow one another in a tile's bytes.
pub(crate) fn hashes_in(bytes: &[u8]) -> Vec<Hash> {
    bytes.as_chunks::<HASH_BYTES>().0.to_vec()
}

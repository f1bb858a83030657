//! Verification of proofs, as RFC 9162 defines it (2.1.3.2 and 2.1.4.2).

use crate::tree::{Hash, node_hash};

/// The root of the tree of this size to which a proof leads from a leaf; none if the proof has another length.
#[must_use]
pub fn root_of_inclusion(index: u64, size: u64, leaf: Hash, proof: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let (mut node, mut last, mut root) = (index, size - 1, leaf);
    for sibling in proof {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            root = node_hash(sibling, &root);
            let skipped = if node == 0 { 0 } else { node.trailing_zeros() };
            (node, last) = (node >> skipped, last >> skipped);
        } else {
            root = node_hash(&root, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    (last == 0).then_some(root)
}

/// Returns whether a proof shows that the tree `new` begins with all leaves of the tree `old`. A tree is its size and
/// its root.
#[must_use]
pub fn verify_consistency(old: (u64, &Hash), new: (u64, &Hash), proof: &[Hash]) -> bool {
    let ((old_size, old_root), (new_size, new_root)) = (old, new);
    if old_size == 0 || old_size >= new_size {
        return proof.is_empty() && (old_size == 0 || (old_size, old_root) == (new_size, new_root));
    }
    let is_complete = old_size.is_power_of_two();
    let (start, rest) = match proof.split_first() {
        _ if is_complete => (old_root, proof),
        Some((start, rest)) => (start, rest),
        None => return false,
    };
    let skipped = (old_size - 1).trailing_ones();
    let (mut node, mut last) = ((old_size - 1) >> skipped, (new_size - 1) >> skipped);
    let (mut old_hash, mut new_hash) = (*start, *start);
    for sibling in rest {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            let skipped = if node == 0 { 0 } else { node.trailing_zeros() };
            (node, last) = (node >> skipped, last >> skipped);
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    last == 0 && old_hash == *old_root && new_hash == *new_root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{EMPTY_ROOT, leaf_hash};

    fn leaves() -> [Hash; 3] {
        [b"a", b"b", b"c"].map(|content| leaf_hash(content))
    }

    #[test]
    fn a_proof_leads_to_one_root_only() {
        let [a, b, c] = leaves();
        let ab = node_hash(&a, &b);
        let root = node_hash(&ab, &c);
        assert_eq!(root_of_inclusion(0, 3, a, &[b, c]), Some(root));
        assert_eq!(root_of_inclusion(1, 3, b, &[a, c]), Some(root));
        assert_eq!(root_of_inclusion(2, 3, c, &[ab]), Some(root));
        assert_eq!(root_of_inclusion(0, 1, a, &[]), Some(a));
        for (index, leaf, proof) in [(1, a, vec![b, c]), (0, a, vec![c, b]), (2, c, vec![b])] {
            assert_ne!(root_of_inclusion(index, 3, leaf, &proof), Some(root));
        }
        for (index, size, proof) in
            [(0, 3, vec![b]), (0, 3, vec![b, c, a]), (2, 3, vec![]), (3, 3, vec![]), (0, 0, vec![])]
        {
            assert_eq!(root_of_inclusion(index, size, a, &proof), None);
        }
    }

    #[test]
    fn a_rewritten_tree_is_not_consistent() {
        let [a, b, c] = leaves();
        let ab = node_hash(&a, &b);
        let abc = node_hash(&ab, &c);
        assert!(verify_consistency((2, &ab), (3, &abc), &[c]));
        assert!(verify_consistency((1, &a), (3, &abc), &[b, c]));
        assert!(verify_consistency((0, &EMPTY_ROOT), (3, &abc), &[]));
        assert!(verify_consistency((3, &abc), (3, &abc), &[]));
        let rewritten = node_hash(&node_hash(&a, &c), &c);
        for (old, new, proof) in [
            ((2, &ab), (3, &rewritten), vec![c]),
            ((2, &rewritten), (3, &abc), vec![c]),
            ((2, &ab), (3, &abc), vec![]),
            ((2, &ab), (3, &abc), vec![c, a]),
            ((2, &ab), (3, &abc), vec![b]),
            ((3, &abc), (3, &rewritten), vec![]),
            ((3, &abc), (3, &abc), vec![a]),
            ((3, &abc), (2, &ab), vec![]),
            ((3, &abc), (4, &rewritten), vec![]),
            ((0, &EMPTY_ROOT), (3, &abc), vec![a]),
        ] {
            assert!(!verify_consistency(old, new, &proof), "{old:?} {new:?} {proof:?}");
        }
    }
}

//! The request of a log for a cosignature, and the checks of the witness (C2SP `tlog-witness`, `add-checkpoint`).

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    checkpoint::{Checkpoint, parse_hash, parse_number},
    note::{KeyKind, Note, VerifierKey},
    proof::verify_consistency,
    tree::{EMPTY_ROOT, Hash},
};

/// Maximum number of hashes of a proof.
const MAX_HASHES: usize = 63;
const OLD: &str = "old ";

/// The body of a request for a cosignature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Size of the last checkpoint that the witness cosigned; 0 for none.
    pub old: u64,
    /// The proof that the new tree begins with all leaves of that checkpoint's tree.
    pub proof: Vec<Hash>,
    /// The signed note of the new checkpoint.
    pub checkpoint: String,
}

/// The reason for which a witness does not cosign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessRefusal {
    /// The request has a wrong form.
    #[error("the request is not one of c2sp.org/tlog-witness")]
    Form,
    /// The log is unknown.
    #[error("this witness does not know the log `{0}`")]
    UnknownLog(String),
    /// The signature of the log is missing or wrong.
    #[error("the checkpoint is not signed by the key of its log")]
    Unsigned,
    /// The proof begins at another checkpoint.
    #[error("the last checkpoint that this witness cosigned has {0} entries")]
    OtherSize(u64),
    /// The log has signed two trees of one size.
    #[error("the checkpoint has {0} entries, as many as the last one that this witness cosigned, but another root")]
    OtherRoot(u64),
    /// The log has rewritten its entries.
    #[error("the checkpoint does not continue the last one that this witness cosigned")]
    Inconsistent,
}

impl AddCheckpoint {
    /// Reads the body of a request. [`Self::signed_checkpoint`] reads the checkpoint.
    #[must_use]
    pub fn parse(body: &str) -> Option<Self> {
        let (head, checkpoint) = body.split_once("\n\n")?;
        let mut lines = head.split('\n');
        let old = parse_number(lines.next()?.strip_prefix(OLD)?)?;
        let proof = lines.map(parse_hash).collect::<Option<Vec<Hash>>>()?;
        (proof.len() <= MAX_HASHES).then(|| Self { old, proof, checkpoint: checkpoint.to_owned() })
    }

    /// The checkpoint, signed by one of the keys that the witness knows, and the text of its note. A cosignature covers
    /// the whole text, also lines that only another version of a log writes.
    ///
    /// # Errors
    /// Fails if the log is unknown, or did not sign.
    pub fn signed_checkpoint(&self, keys: &[VerifierKey]) -> Result<(Checkpoint, &str), WitnessRefusal> {
        let note = Note::parse(&self.checkpoint).map_err(|_| WitnessRefusal::Form)?;
        let checkpoint = Checkpoint::parse(note.text()).ok_or(WitnessRefusal::Form)?;
        let is_of_log = |key: &&VerifierKey| key.kind() == KeyKind::Log && key.name() == checkpoint.origin;
        let mut keys = keys.iter().filter(is_of_log).peekable();
        if keys.peek().is_none() {
            return Err(WitnessRefusal::UnknownLog(checkpoint.origin));
        }
        let mut is_signed = false;
        for key in keys {
            is_signed |= note.is_signed_by(key).map_err(|_| WitnessRefusal::Unsigned)?;
        }
        if is_signed { Ok((checkpoint, note.text())) } else { Err(WitnessRefusal::Unsigned) }
    }

    /// Checks that a checkpoint continues the last one that the witness cosigned, if it cosigned any.
    ///
    /// # Errors
    /// Fails if it does not, or if the proof of the request begins at another checkpoint.
    pub fn check_continues(&self, checkpoint: &Checkpoint, last: Option<&Checkpoint>) -> Result<(), WitnessRefusal> {
        let (old, old_root) = last.map_or((0, EMPTY_ROOT), |last| (last.size, last.root));
        if self.old > checkpoint.size {
            return Err(WitnessRefusal::Form);
        }
        if self.old != old {
            return Err(WitnessRefusal::OtherSize(old));
        }
        if last.is_some_and(|last| last.size == checkpoint.size && last.root != checkpoint.root) {
            return Err(WitnessRefusal::OtherRoot(old));
        }
        let can_have_root = checkpoint.size > 0 || checkpoint.root == EMPTY_ROOT;
        let new = (checkpoint.size, &checkpoint.root);
        if can_have_root && verify_consistency((old, &old_root), new, &self.proof) {
            Ok(())
        } else {
            Err(WitnessRefusal::Inconsistent)
        }
    }
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{OLD}{}", self.old)?;
        self.proof.iter().try_for_each(|hash| writeln!(formatter, "{}", BASE64_STANDARD.encode(hash)))?;
        write!(formatter, "\n{}", self.checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{growing_tree::GrowingTree, note::SigningKey, plan::ProofPlan, tree::leaf_hash};

    const ORIGIN: &str = "trade-thesis/live/gen_1";

    fn signing() -> SigningKey {
        SigningKey::from_seed(&[1; 32])
    }

    fn keys() -> [VerifierKey; 2] {
        // A key of the same log that did not sign does not matter.
        [2, 1].map(|seed| SigningKey::from_seed(&[seed; 32]).verifier(ORIGIN, KeyKind::Log))
    }

    /// A tree over these numbers.
    fn tree(leaves: impl IntoIterator<Item = u64>) -> GrowingTree {
        let mut tree = GrowingTree::default();
        leaves.into_iter().for_each(|leaf| tree.push(leaf_hash(&leaf.to_be_bytes())));
        tree
    }

    fn checkpoint(tree: &GrowingTree) -> Checkpoint {
        Checkpoint { origin: ORIGIN.to_owned(), size: tree.size(), root: tree.root() }
    }

    /// The request of a log with this tree, as if it had begun with `old` leaves.
    fn request(old: u64, mut tree: GrowingTree) -> AddCheckpoint {
        let (text, size) = (checkpoint(&tree).to_string(), tree.size());
        let tiles: BTreeMap<_, _> = tree.take_changed().into_iter().collect();
        let proof = ProofPlan::consistency(old, size).and_then(|plan| plan.hashes(&tiles)).unwrap_or_default();
        AddCheckpoint { old, proof, checkpoint: format!("{text}\n{}", signing().sign(ORIGIN, &text)) }
    }

    fn judge(request: &AddCheckpoint, last: Option<&Checkpoint>) -> Result<Checkpoint, WitnessRefusal> {
        let (checkpoint, _) = request.signed_checkpoint(&keys())?;
        request.check_continues(&checkpoint, last).map(|()| checkpoint)
    }

    #[test]
    fn a_log_that_grows_is_cosigned() {
        let mut last = None;
        for size in [0, 1, 1, 2, 7, 256, 300, 300] {
            let old = last.as_ref().map_or(0, |last: &Checkpoint| last.size);
            let request = request(old, tree(0..size));
            assert_eq!(AddCheckpoint::parse(&request.to_string()), Some(request.clone()));
            assert_eq!(judge(&request, last.as_ref()), Ok(checkpoint(&tree(0..size))), "{size}");
            last = Some(checkpoint(&tree(0..size)));
        }
    }

    #[test]
    fn a_rewritten_log_is_refused() {
        let last = checkpoint(&tree(0..100));
        let changed_leaf = (0..150).map(|leaf| if leaf == 40 { 1_000 } else { leaf });
        let fork = (0..99).chain(1_000..1_051);
        for leaves in [changed_leaf.collect::<Vec<u64>>(), fork.collect()] {
            for (size, refusal) in [
                (100, WitnessRefusal::OtherRoot(100)),
                (101, WitnessRefusal::Inconsistent),
                (150, WitnessRefusal::Inconsistent),
            ] {
                let request = request(100, tree(leaves[..size].iter().copied()));
                assert_eq!(judge(&request, Some(&last)), Err(refusal), "{size}");
            }
        }
        let shorter = |old| judge(&request(old, tree(0..60)), Some(&last));
        assert_eq!(shorter(100), Err(WitnessRefusal::Form));
        for old in [0, 60] {
            assert_eq!(shorter(old), Err(WitnessRefusal::OtherSize(100)));
        }
        let without_proof = AddCheckpoint { proof: Vec::new(), ..request(100, tree(0..150)) };
        assert_eq!(judge(&without_proof, Some(&last)), Err(WitnessRefusal::Inconsistent));
        let with_proof = AddCheckpoint { proof: vec![[0; 32]], ..request(0, tree(0..150)) };
        assert_eq!(judge(&with_proof, None), Err(WitnessRefusal::Inconsistent));
    }

    #[test]
    fn lines_of_another_version_belong_to_the_text() {
        let text = format!("{}later\n", checkpoint(&tree(0..3)));
        let signed = format!("{text}\n{}", signing().sign(ORIGIN, &text));
        let request = AddCheckpoint { checkpoint: signed, ..request(0, tree(0..3)) };
        assert_eq!(request.signed_checkpoint(&keys()), Ok((checkpoint(&tree(0..3)), text.as_str())));
    }

    #[test]
    fn an_empty_tree_has_one_root() {
        let text = Checkpoint { origin: ORIGIN.to_owned(), size: 0, root: [1; 32] }.to_string();
        let checkpoint = format!("{text}\n{}", signing().sign(ORIGIN, &text));
        let request = AddCheckpoint { old: 0, proof: Vec::new(), checkpoint };
        assert_eq!(judge(&request, None), Err(WitnessRefusal::Inconsistent));
    }

    #[test]
    fn only_a_known_log_is_cosigned() {
        let whole = request(0, tree(0..3));
        let changed = |from: &str, to: &str| {
            let checkpoint = whole.checkpoint.replacen(from, to, 1);
            judge(&AddCheckpoint { checkpoint, ..whole.clone() }, None).unwrap_err()
        };
        let unknown = WitnessRefusal::UnknownLog("trade-thesis/live/gen_2".to_owned());
        assert_eq!(changed("gen_1\n", "gen_2\n"), unknown);
        assert_eq!(changed("\n3\n", "\n4\n"), WitnessRefusal::Unsigned);
        assert_eq!(changed("\u{2014} trade", "\u{2014} other"), WitnessRefusal::Unsigned);
        assert_eq!(changed("\n\n", "\n"), WitnessRefusal::Form);
        assert_eq!(changed("\n3\n", "\nthree\n"), WitnessRefusal::Form);
    }

    #[test]
    fn other_bodies_are_no_request() {
        let hash = "gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=\n";
        let whole = format!("old 7\n{}\nnote", hash.repeat(63));
        assert_eq!(AddCheckpoint::parse(&whole).map(|request| request.proof.len()), Some(63));
        for body in [
            String::new(),
            "old 7\n".to_owned(),
            "old 07\n\nnote".to_owned(),
            "7\n\nnote".to_owned(),
            "old 7\nAAAA\n\nnote".to_owned(),
            format!("old 7\n{}\nnote", hash.repeat(64)),
        ] {
            assert_eq!(AddCheckpoint::parse(&body), None, "{body:?}");
        }
    }
}

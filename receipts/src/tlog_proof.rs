//! Proofs of inclusion as text (C2SP `tlog-proof`).

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    checkpoint::{parse_hash, parse_number},
    tree::Hash,
};

const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// A proof that a checkpoint's tree has a leaf. Receipts have no `extra` data, so it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// The index of the leaf.
    pub index: u64,
    /// The hashes from the leaf's sibling up.
    pub hashes: Vec<Hash>,
    /// The signed note of the checkpoint.
    pub checkpoint: String,
}

impl TlogProof {
    /// Reads the text of a proof, but not its checkpoint.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (proof, checkpoint) = text.split_once("\n\n")?;
        let mut lines = proof.split('\n');
        if lines.next()? != HEADER {
            return None;
        }
        let index = parse_number(lines.next()?.strip_prefix("index ")?)?;
        let hashes = lines.map(parse_hash).collect::<Option<Vec<Hash>>>()?;
        Some(Self { index, hashes, checkpoint: checkpoint.to_owned() })
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{HEADER}\nindex {}", self.index)?;
        self.hashes.iter().try_for_each(|hash| writeln!(formatter, "{}", BASE64_STANDARD.encode(hash)))?;
        write!(formatter, "\n{}", self.checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=";

    #[test]
    fn a_proof_is_read_as_it_was_written() {
        for hashes in [vec![], vec![[1; 32], [2; 32]]] {
            let proof = TlogProof { index: 73_894, hashes, checkpoint: "a\n1\nb\n\n— a c\n".to_owned() };
            assert_eq!(TlogProof::parse(&proof.to_string()), Some(proof));
        }
        let text = format!("c2sp.org/tlog-proof@v1\nindex 0\n{HASH}\n\nexample.com/fancylog\n");
        assert_eq!(TlogProof::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn other_texts_are_no_proof() {
        for text in [
            "",
            "c2sp.org/tlog-proof@v2\nindex 0\n\na\n",
            "c2sp.org/tlog-proof@v1\nindex 00\n\na\n",
            "c2sp.org/tlog-proof@v1\nextra AAAA\nindex 0\n\na\n",
            "c2sp.org/tlog-proof@v1\nindex 0\nAAAA\n\na\n",
            "c2sp.org/tlog-proof@v1\nindex 0\n",
            "c2sp.org/tlog-proof@v1\n\nindex 0\n\na\n",
        ] {
            assert_eq!(TlogProof::parse(text), None, "{text:?}");
        }
    }
}

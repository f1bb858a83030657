//! Checkpoints: size and root of a tree, in the format of C2SP `tlog-checkpoint`.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{canonical::MAX_INTEGER, tree::Hash};

/// The tree of a log at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the log. It contains the dataset and the generation.
    pub origin: String,
    /// Number of leaves.
    pub size: u64,
    /// The root of the tree.
    pub root: Hash,
}

impl Checkpoint {
    /// Reads the text of a checkpoint's note. Further lines, which no log of this service has, are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        if origin.is_empty() || lines.any(str::is_empty) {
            return None;
        }
        Some(Self { origin: origin.to_owned(), size: parse_number(size)?, root: parse_hash(root)? })
    }
}

/// The text of its note.
impl fmt::Display for Checkpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n{}\n{}", self.origin, self.size, BASE64_STANDARD.encode(self.root))
    }
}

/// A decimal number without leading zeros, up to [`MAX_INTEGER`]: some verifiers cannot count further.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| *number <= MAX_INTEGER && number.to_string() == text)
}

/// A hash in Base64.
pub(crate) fn parse_hash(text: &str) -> Option<Hash> {
    BASE64_STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    const EXAMPLE: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";

    #[test]
    fn the_example_of_the_specification_is_read_and_written() {
        let checkpoint = Checkpoint::parse(EXAMPLE).unwrap();
        assert_eq!((checkpoint.origin.as_str(), checkpoint.size), ("example.com/behind-the-sofa", 20_852_163));
        assert_eq!(checkpoint.to_string(), EXAMPLE);
        assert_eq!(Checkpoint::parse(&format!("{EXAMPLE}more\n")), Some(checkpoint));
        let largest = EXAMPLE.replace("20852163", "9007199254740991");
        assert_eq!(Checkpoint::parse(&largest).unwrap().to_string(), largest);
    }

    #[test]
    fn other_texts_are_no_checkpoint() {
        let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
        for text in [
            String::new(),
            "a\n1\n".to_owned(),
            format!("a\n1\n{root}"),
            format!("\n1\n{root}\n"),
            format!("a\n01\n{root}\n"),
            format!("a\n+1\n{root}\n"),
            format!("a\n9007199254740992\n{root}\n"),
            format!("a\n18446744073709551616\n{root}\n"),
            format!("a\n1\n{root}\n\n"),
            format!("a\n1\n{}\n", &root[..43]),
            format!("a\n1\n{}\n", root.replace("2I=", "2J=")),
            "a\n1\nAAAA\n".to_owned(),
        ] {
            assert_eq!(Checkpoint::parse(&text), None, "{text:?}");
        }
    }
}

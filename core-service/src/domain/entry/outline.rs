//! The fields of a stored entry that tell whether a reader needs the others.

use prost::{
    DecodeError,
    encoding::{DecodeContext, decode_key, int64, skip_field},
};

/// Time and kind of an entry, read from its stored form without decoding the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryOutline {
    /// The entry's `created_at`.
    pub created_at: i64,
    /// The tag of its [`super::Kind`]. It is 0 for a filler, and for a kind that only a newer version knows.
    pub kind: u32,
}

impl EntryOutline {
    /// Reads the outline of a stored entry.
    ///
    /// # Errors
    /// Fails if the stored form is damaged.
    pub fn read(mut stored: &[u8]) -> Result<Self, DecodeError> {
        let mut outline = Self::default();
        while !stored.is_empty() {
            let (tag, wire_type) = decode_key(&mut stored)?;
            match tag {
                2 => int64::merge(wire_type, &mut outline.created_at, &mut stored, DecodeContext::default())?,
                _ => {
                    if [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 18, 19, 20].contains(&tag) {
                        outline.kind = tag;
                    }
                    skip_field(wire_type, tag, &mut stored, DecodeContext::default())?;
                }
            }
        }
        Ok(outline)
    }

    /// True for an entry that creates, edits or deletes a thesis.
    #[must_use]
    pub const fn records_thesis(&self) -> bool {
        matches!(self.kind, 4 | 8 | 10)
    }
}

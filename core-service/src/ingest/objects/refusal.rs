//! Reasons why an object of the upstream is refused.

/// The reason why an object was refused. It reveals nothing of the object but the name of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no JSON object")]
    Malformed,
    /// A field that identifies or dates the object is missing or wrong.
    #[error("`{0}` is missing or wrong")]
    Field(&'static str),
    /// The text has more than 64 KiB.
    #[error("its text is over 64 KiB")]
    TextTooLong,
    /// The object's date is more than 5 minutes ahead.
    #[error("it is dated more than 5 minutes ahead")]
    Ahead,
    /// The frame, or the thesis of a page, has more than 256 KiB.
    #[error("it is over 256 KiB")]
    TooLarge,
    /// The feed's position has more than 256 bytes.
    #[error("its position is over 256 bytes")]
    Position,
    #[error("the type of its frame is unknown")]
    UnknownType,
    /// The field contradicts data that are known.
    #[error("`{0}` contradicts known data")]
    Contradiction(&'static str),
}

impl Refusal {
    /// The name under which metrics count the refusal.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Field(_) => "field",
            Self::TextTooLong => "text_too_long",
            Self::Ahead => "ahead",
            Self::TooLarge => "frame_too_large",
            Self::Position => "position",
            Self::UnknownType => "unknown_type",
            Self::Contradiction(_) => "contradiction",
        }
    }

    /// The refusal of an object that is a field of another object. `names` maps its fields to their full names.
    pub(super) fn within(self, object: &'static str, names: &[(&str, &'static str)]) -> Self {
        match self {
            Self::Malformed => Self::Field(object),
            Self::Field(name) => {
                let whole = names.iter().find(|(inner, _)| *inner == name);
                Self::Field(whole.map_or(object, |(_, whole)| *whole))
            }
            other => other,
        }
    }
}

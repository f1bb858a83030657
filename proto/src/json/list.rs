//! The list envelope of rows that are no messages, or JSON already.

use serde::Serialize;

/// One page of a list.
#[derive(Debug, Serialize)]
pub struct List<'a, T> {
    object: &'static str,
    data: Vec<T>,
    next_cursor: Option<&'a str>,
    has_more: bool,
}

impl<'a, T> List<'a, T> {
    /// A page of these rows; the cursor, if any, continues after them.
    #[must_use]
    pub fn new(data: Vec<T>, next_cursor: Option<&'a str>, has_more: bool) -> Self {
        Self { object: "list", data, next_cursor, has_more }
    }
}

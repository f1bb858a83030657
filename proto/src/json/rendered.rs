//! Rows that are JSON before their list is.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The JSON of a row. Its list contains it as it is.
pub type RenderedRow = Arc<RawValue>;

/// The rows of a page in place of its messages: an extension of core's response to an edge in the same process.
#[derive(Clone, Debug)]
pub struct RenderedRows(pub Vec<RenderedRow>);

/// Writes the view of a row as JSON.
#[must_use]
pub fn render(view: &impl Serialize) -> RenderedRow {
    to_raw_value(view).expect("strings, numbers and lists always serialise").into()
}

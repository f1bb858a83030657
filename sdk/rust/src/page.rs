//! Pages of lists.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The rows of this page. There may be fewer than the limit, even none, before the last page.
    pub data: Vec<T>,
    /// The cursor of the next page; none on the last one.
    pub next_cursor: Option<String>,
    /// True if there is another page.
    pub has_more: bool,
}

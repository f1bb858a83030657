//! The query of an administration page, and the page of a list that it selects.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use serde::Deserialize;

use crate::page_query::link;

/// Rows of a page. Core returns these lists complete.
const MAX_ROWS: usize = 25;

/// The query of an administration page. An unreadable query counts as an empty one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct ListQuery {
    /// The word of the notice about a change.
    pub(super) done: Option<String>,
    /// Selects the rows that contain this text.
    pub(super) find: String,
    /// Page numbers start at 1.
    pub(super) page: Option<usize>,
    pub(super) organization: String,
    pub(super) cursor: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for ListQuery {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Query::try_from_uri(&parts.uri).map(|Query(query)| query).unwrap_or_default())
    }
}

impl ListQuery {
    /// True if one of the texts of a row contains `find`.
    pub(super) fn wants(&self, texts: &[&str]) -> bool {
        let find = self.find.trim().to_lowercase();
        find.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&find))
    }

    /// Selects the rows of the requested page. A number beyond the last page selects the last page.
    pub(super) fn part<T>(&self, path: &str, all: Vec<T>) -> Listing<T> {
        let total = all.len();
        let last = total.div_ceil(MAX_ROWS).max(1);
        let page = self.page.unwrap_or(1).clamp(1, last);
        let rows = all.into_iter().skip((page - 1) * MAX_ROWS).take(MAX_ROWS).collect();
        let at = |page: usize| link(path, &[("find", self.find.trim()), ("page", &page.to_string())]);
        let (previous, next) = ((page > 1).then(|| at(page - 1)), (page < last).then(|| at(page + 1)));
        Listing { rows, total, page, turns: PageTurns { previous, next } }
    }
}

/// One page of a list.
pub(super) struct Listing<T> {
    pub(super) rows: Vec<T>,
    /// Number of rows on all pages.
    pub(super) total: usize,
    /// Page numbers start at 1.
    pub(super) page: usize,
    pub(super) turns: PageTurns,
}

/// Links to the previous and the next page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageTurns {
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_shown_by_pages() {
        let part = |page| {
            let query = ListQuery { page, find: " a&b ".to_owned(), ..ListQuery::default() };
            let listing = query.part("/list", (0..60).collect());
            assert_eq!(listing.total, 60);
            (listing.rows, listing.turns)
        };
        let to = |page: usize| Some(format!("/list?find=a%26b&page={page}"));
        for first in [None, Some(0), Some(1)] {
            assert_eq!(part(first), ((0..25).collect(), PageTurns { previous: None, next: to(2) }), "{first:?}");
        }
        assert_eq!(part(Some(2)), ((25..50).collect(), PageTurns { previous: to(1), next: to(3) }));
        for last in [Some(3), Some(4), Some(usize::MAX)] {
            assert_eq!(part(last), ((50..60).collect(), PageTurns { previous: to(2), next: None }), "{last:?}");
        }
        let none = ListQuery::default().part("/list", Vec::<u8>::new());
        assert_eq!((none.rows.len(), none.total, none.turns), (0, 0, PageTurns { previous: None, next: None }));
    }

    #[test]
    fn rows_are_found_by_a_part_of_a_text() {
        let query = |find: &str| ListQuery { find: find.to_owned(), ..ListQuery::default() };
        for find in ["", "  ", "acme", " ACME ", "org_1"] {
            assert!(query(find).wants(&["org_1", "Acme Ltd"]), "{find}");
        }
        assert!(!query("other").wants(&["org_1", "Acme Ltd"]));
    }

    #[tokio::test]
    async fn a_query_that_cannot_be_read_is_as_none() {
        for (text, expected) in [
            ("", ListQuery::default()),
            ("?page=x", ListQuery::default()),
            ("?done=a&done=b", ListQuery::default()),
            ("?page=2&more=1", ListQuery { page: Some(2), ..ListQuery::default() }),
        ] {
            let (mut parts, ()) = http::Request::get(format!("/list{text}")).body(()).unwrap().into_parts();
            assert_eq!(ListQuery::from_request_parts(&mut parts, &()).await, Ok(expected), "{text}");
        }
    }
}

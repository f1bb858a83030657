//! The part of a list that an administration page shows.

use crate::page_query::{PageQuery, link};

/// Rows of a page. Core returns these lists complete.
const MAX_ROWS: usize = 25;

impl PageQuery {
    /// True if one of the texts of a row contains the parameter `find`.
    pub(super) fn wants(&self, texts: &[&str]) -> bool {
        let find = self.text("find").to_lowercase();
        find.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&find))
    }

    /// Selects the rows of the requested `page`, a number from 1. A number beyond the last page selects the last page.
    pub(super) fn part<T>(&self, path: &str, all: Vec<T>) -> Listing<T> {
        let total = all.len();
        let last = total.div_ceil(MAX_ROWS).max(1);
        let page = self.text("page").parse::<usize>().unwrap_or(1).clamp(1, last);
        let rows = all.into_iter().skip((page - 1) * MAX_ROWS).take(MAX_ROWS).collect();
        let at = |page: usize| link(path, &[("find", self.text("find")), ("page", &page.to_string())]);
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
        let part = |page: &str| {
            let query = PageQuery::read(&format!("find=+a%26b+&page={page}"));
            let listing = query.part("/list", (0..60).collect());
            assert_eq!(listing.total, 60);
            (listing.rows, listing.turns)
        };
        let to = |page: usize| Some(format!("/list?find=a%26b&page={page}"));
        for first in ["", "x", "0", "1"] {
            assert_eq!(part(first), ((0..25).collect(), PageTurns { previous: None, next: to(2) }), "{first:?}");
        }
        assert_eq!(part("2"), ((25..50).collect(), PageTurns { previous: to(1), next: to(3) }));
        for last in ["3", "4", &usize::MAX.to_string()] {
            assert_eq!(part(last), ((50..60).collect(), PageTurns { previous: to(2), next: None }), "{last:?}");
        }
        let none = PageQuery::default().part("/list", Vec::<u8>::new());
        assert_eq!((none.rows.len(), none.total, none.turns), (0, 0, PageTurns { previous: None, next: None }));
    }

    #[test]
    fn rows_are_found_by_a_part_of_a_text() {
        let query = |find: &str| PageQuery::of([("find".to_owned(), find.to_owned())]);
        for find in ["", "  ", "acme", " ACME ", "org_1"] {
            assert!(query(find).wants(&["org_1", "Acme Ltd"]), "{find}");
        }
        assert!(!query("other").wants(&["org_1", "Acme Ltd"]));
    }
}

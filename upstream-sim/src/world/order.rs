//! Theses in the order of their last change, for the lookups that begin with the newest.

use std::collections::BTreeSet;

/// A place in the order: the time of the last change, then the thesis's number.
pub(crate) type Place = (i64, usize);

/// Theses by the time of their last change.
#[derive(Debug, Default)]
pub(crate) struct Order(BTreeSet<Place>);

/// A page, newest first, and the place after which the next one begins.
pub(crate) type Page = (Vec<usize>, Option<Place>);

impl Order {
    pub(super) fn insert(&mut self, place: Place) {
        self.0.insert(place);
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.0.remove(&place);
    }

    /// The theses changed at or after `since`, newest first, after the place `before`.
    pub(crate) fn page(&self, since: Option<i64>, before: Option<Place>, limit: usize) -> Page {
        let from = (since.unwrap_or(i64::MIN), 0);
        let to = before.unwrap_or((i64::MAX, usize::MAX));
        if from >= to {
            return (Vec::new(), None);
        }
        let mut rest = self.0.range(from..to).rev().copied();
        let places: Vec<Place> = rest.by_ref().take(limit).collect();
        let next = rest.next().and(places.last().copied());
        (places.into_iter().map(|(_, number)| number).collect(), next)
    }
}

/// The text of a place, for a cursor.
pub(crate) fn cursor((at, number): Place) -> String {
    format!("c{at:x}-{number:x}")
}

/// The place that a cursor names.
pub(crate) fn parse_cursor(text: &str) -> Option<Place> {
    let (at, number) = text.strip_prefix('c')?.split_once('-')?;
    Some((i64::from_str_radix(at, 16).ok()?, usize::from_str_radix(number, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(times: &[i64]) -> Order {
        let mut order = Order::default();
        for (number, at) in times.iter().enumerate() {
            order.insert((*at, number));
        }
        order
    }

    #[test]
    fn pages_follow_each_other_without_a_hole() {
        let order = order(&[10, 30, 20, 30, 40]);
        let (first, next) = order.page(None, None, 2);
        assert_eq!(first, [4, 3]);
        let (second, next) = order.page(None, parse_cursor(&cursor(next.unwrap())), 2);
        assert_eq!(second, [1, 2]);
        let (last, next) = order.page(None, next, 2);
        assert_eq!((last, next), (vec![0], None));
    }

    #[test]
    fn since_is_inclusive() {
        let order = order(&[10, 30, 20]);
        assert_eq!(order.page(Some(20), None, 9), (vec![1, 2], None));
        assert_eq!(order.page(Some(31), None, 9), (vec![], None));
        assert_eq!(order.page(Some(20), Some((10, 0)), 9), (vec![], None));
    }

    #[test]
    fn a_strange_cursor_is_none() {
        for text in ["", "c", "c1", "1-1", "cg-1", "c1-1-1"] {
            assert_eq!(parse_cursor(text), None, "{text}");
        }
    }
}

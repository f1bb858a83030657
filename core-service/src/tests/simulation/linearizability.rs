//! Whether a history of appends and lists could have happened one after the other, each at a moment between its request
//! and its response.
//!
//! In general the search for such moments is exponential. Here the log itself says in which order the appends took
//! effect, so it takes one pass. An append lies between its request and its response, after the request of every list
//! that misses it, and before the response of every list that has it. Each append takes the earliest moment that this
//! and the appends before it allow. If that is too late for one of them, no choice is possible.

use std::collections::BTreeSet;

/// An append, in the order of the log. Times are places in the history.
#[derive(Debug)]
pub(super) struct Append {
    /// The id of what it added.
    pub(super) id: String,
    /// The lists that may show it have this name.
    pub(super) list: String,
    pub(super) requested: usize,
    /// None if its client never had a response.
    pub(super) responded: Option<usize>,
}

/// A list of all that has been added under its name.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) list: String,
    pub(super) requested: usize,
    pub(super) responded: usize,
    pub(super) ids: BTreeSet<String>,
}

/// Checks that each append and each list has a possible moment.
pub(super) fn check(log: &[Append], listings: &[Listing]) -> Result<(), String> {
    for listing in listings {
        let mut shown = log.iter().filter(|append| append.list == listing.list).map(|append| &append.id);
        let missing = shown.by_ref().find(|id| !listing.ids.contains(*id));
        if let (Some(missing), Some(later)) = (missing, shown.find(|id| listing.ids.contains(*id))) {
            return Err(format!("a list has {later} and misses {missing}, which is before it: {listing:?}"));
        }
        if let Some(unknown) = listing.ids.iter().find(|id| !log.iter().any(|append| append.id == **id)) {
            return Err(format!("a list has {unknown}, which is not in the log: {listing:?}"));
        }
    }
    let mut earliest = 0;
    for append in log {
        let listings = || listings.iter().filter(|listing| listing.list == append.list);
        let missing = listings().filter(|listing| !listing.ids.contains(&append.id)).map(|listing| listing.requested);
        let having = listings().filter(|listing| listing.ids.contains(&append.id)).map(|listing| listing.responded);
        earliest = missing.fold(earliest.max(append.requested), usize::max);
        let latest = having.fold(append.responded.unwrap_or(usize::MAX), usize::min);
        if earliest >= latest {
            return Err(format!("no moment is possible for {append:?}: it is after {earliest} and before {latest}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(id: &str, requested: usize, responded: usize) -> Append {
        Append { id: id.to_owned(), list: "all".to_owned(), requested, responded: Some(responded) }
    }

    fn listing(ids: &[&str], requested: usize, responded: usize) -> Listing {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Listing { list: "all".to_owned(), requested, responded, ids }
    }

    #[test]
    fn appends_at_the_same_time_may_have_any_order() {
        let log = [append("b", 1, 6), append("a", 0, 5)];
        assert_eq!(check(&log, &[listing(&["b"], 2, 3), listing(&["a", "b"], 4, 7)]), Ok(()));
    }

    #[test]
    fn an_append_is_before_those_that_are_requested_after_its_answer() {
        check(&[append("b", 2, 3), append("a", 0, 1)], &[]).unwrap_err();
    }

    #[test]
    fn a_list_has_what_was_acknowledged_before_its_request() {
        let log = [append("a", 0, 1)];
        check(&log, &[listing(&[], 2, 3)]).unwrap_err();
        assert_eq!(check(&log, &[Listing { list: "other".to_owned(), ..listing(&[], 2, 3) }]), Ok(()));
    }

    #[test]
    fn a_list_has_nothing_that_is_requested_after_its_answer() {
        check(&[append("a", 2, 3)], &[listing(&["a"], 0, 1)]).unwrap_err();
    }

    #[test]
    fn what_one_list_has_every_later_list_has() {
        let log = [append("a", 0, 5)];
        check(&log, &[listing(&["a"], 1, 2), listing(&[], 3, 4)]).unwrap_err();
        assert_eq!(check(&log, &[listing(&["a"], 1, 3), listing(&[], 2, 4)]), Ok(()));
    }

    #[test]
    fn lists_that_see_two_appends_in_different_orders_contradict_each_other() {
        let log = [append("a", 0, 9), append("b", 1, 8)];
        check(&log, &[listing(&["b"], 2, 3)]).unwrap_err();
    }

    #[test]
    fn a_list_has_only_what_is_in_the_log() {
        check(&[append("a", 0, 3)], &[listing(&["a", "lost"], 1, 2)]).unwrap_err();
    }
}

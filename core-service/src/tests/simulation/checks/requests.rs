//! Each request acts once, and a revoked key receives nothing.

use std::collections::{BTreeMap, BTreeSet};

/// A response to a request with an idempotency key: the key and the id of the event that it caused.
pub(in crate::tests::simulation) type Creation = (String, String);

/// Checks that no key acted twice, and that the responses to each key have what it did. `logged` has the key and the id
/// of each creation in the log.
pub(in crate::tests::simulation) fn check_keys(responses: &[Creation], logged: &[Creation]) -> Result<(), String> {
    let mut by_key: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, event) in logged {
        if let Some(other) = by_key.insert(key, event) {
            return Err(format!("{key} acted twice, in {other} and {event}"));
        }
    }
    for (key, event) in responses {
        if by_key.get(key.as_str()) != Some(&event.as_str()) {
            return Err(format!("the response to {key} has {event}, and the log {:?}", by_key.get(key.as_str())));
        }
    }
    Ok(())
}

/// Checks that a stream has no event that was requested later than `limit_ms` after the response to the revocation of
/// its key. `requested` has the times of events.
pub(in crate::tests::simulation) fn check_revoked(
    events: &BTreeSet<String>,
    requested: &BTreeMap<String, i64>,
    revoked_ms: i64,
    limit_ms: i64,
) -> Result<(), String> {
    let late = |event: &&String| requested.get(*event).is_some_and(|at| *at > revoked_ms + limit_ms);
    match events.iter().find(late) {
        Some(event) => Err(format!("the key was revoked at {revoked_ms} ms, and received {event} after that")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creation(key: &str, event: &str) -> Creation {
        (key.to_owned(), event.to_owned())
    }

    #[test]
    fn a_key_acts_once_and_says_so_each_time() {
        let logged = [creation("k1", "e1"), creation("k2", "e2"), creation("without a response", "e3")];
        let responses = [creation("k1", "e1"), creation("k1", "e1"), creation("k2", "e2")];
        assert_eq!(check_keys(&responses, &logged), Ok(()));
        check_keys(&[], &[creation("k1", "e1"), creation("k1", "e2")]).unwrap_err();
        check_keys(&[creation("k1", "e2")], &logged).unwrap_err();
        check_keys(&[creation("lost", "e4")], &logged).unwrap_err();
    }

    #[test]
    fn a_revoked_key_receives_no_later_event() {
        let requested = BTreeMap::from([("early".to_owned(), 2_000), ("late".to_owned(), 2_001)]);
        let check = |event: &str| check_revoked(&BTreeSet::from([event.to_owned()]), &requested, 1_000, 1_000);
        assert_eq!(check("early"), Ok(()));
        assert_eq!(check("derived"), Ok(()));
        check("late").unwrap_err();
    }
}

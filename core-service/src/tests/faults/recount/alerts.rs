//! The recount of alerts: the log of alerts has each crossing of a rule once.

use std::collections::BTreeSet;

use thesis_proto::v1::AlertMetric;

use crate::domain::{
    alert::Alert,
    dataset::Dataset,
    entry::{Kind, SequencedEntry},
};

/// Time for which an entry may stay unread after its append, in milliseconds. A rule that is created meanwhile is first
/// judged without it.
const UNREAD_MS: i64 = 20_000;

/// An event of an alert: whether it fires, and the value.
type Event = (bool, f64);

/// A change of the theses that a rule counts.
#[derive(Clone, Debug)]
struct CountChange {
    /// Time of the entry, in unix milliseconds.
    at: i64,
    is_added: bool,
    thesis: String,
}

/// Compares the events of rules with those that follow from the logs of their theses.
pub(super) fn recount_alerts(alerts: &[Alert], all: &[(Dataset, Vec<SequencedEntry>)]) {
    let log = |dataset: &Dataset| {
        let found = all.iter().find(|(of, _)| of == dataset);
        found.map(|(_, entries)| entries.as_slice()).unwrap_or_default()
    };
    for alert in alerts {
        let (mut revision, mut events) = (0, Vec::new());
        for SequencedEntry { entry, .. } in log(&alert.dataset()) {
            let Some((change, event)) = entry.kind.as_ref().and_then(|kind| Some((kind.alert_change()?, kind))) else {
                panic!("{entry:?} is of no alert");
            };
            if change.alert.id != alert.id {
                continue;
            }
            revision += 1;
            assert_eq!(change.progress.revision, revision, "a change is twice in the log, or missing: {entry:?}");
            if !matches!(event, Kind::AlertProgressed(_)) {
                events.push((matches!(event, Kind::AlertFiring(_)), change.value.expect("a count has a value")));
            }
        }
        let changes: Vec<Vec<CountChange>> =
            alert.counted().datasets().iter().map(|dataset| count_changes(alert, log(dataset))).collect();
        // The order of entries in two logs is not known.
        let mut counted = changes.into_iter().filter(|changes| !changes.is_empty());
        let changes = counted.next().unwrap_or_default();
        assert!(counted.next().is_none(), "theses on the token are in two logs: {alert:?}");
        assert!(is_recount(alert, &changes, &events), "{events:?} of {alert:?}, whose theses are {changes:?}");
    }
}

/// The changes of the theses on the token of a rule.
fn count_changes(alert: &Alert, entries: &[SequencedEntry]) -> Vec<CountChange> {
    let change = |SequencedEntry { entry, .. }: &SequencedEntry| {
        let (is_added, thesis) = match entry.kind.as_ref()? {
            Kind::ThesisCreated(created) => (true, &created.thesis),
            Kind::ThesisDeleted(deleted) => (false, &deleted.thesis),
            _ => return None,
        };
        let change = CountChange { at: entry.created_at, is_added, thesis: thesis.id.clone() };
        (thesis.token_id == alert.token.id).then_some(change)
    };
    entries.iter().filter_map(change).collect()
}

/// True if the events are those of a rule that is judged when it is created, and after each later entry.
fn is_recount(alert: &Alert, changes: &[CountChange], events: &[Event]) -> bool {
    let before = |time: i64| changes.iter().take_while(|change| change.at < time).count();
    let mut firsts = before(alert.updated_at - UNREAD_MS)..=before(alert.updated_at);
    firsts.any(|first| expected(alert, changes, first) == events)
}

/// The events of a rule that is first judged after this number of changes. No thesis of a run becomes a day old.
fn expected(alert: &Alert, changes: &[CountChange], first: usize) -> Vec<Event> {
    assert_eq!(alert.metric, i32::from(AlertMetric::ThesisCount24h), "only this count is recounted: {alert:?}");
    assert_eq!((alert.for_ms, alert.keep_firing_for_ms), (0, 0), "no time is recounted: {alert:?}");
    assert_eq!(alert.created_at, alert.updated_at, "no change of a rule is recounted: {alert:?}");
    let above = alert.above.expect("only such rules are recounted");
    let recover = alert.recover.unwrap_or(above);
    let (mut counted, mut is_firing, mut events) = (BTreeSet::new(), false, Vec::new());
    for number in 0..=changes.len() {
        if let Some(CountChange { is_added, thesis, .. }) = number.checked_sub(1).map(|last| &changes[last]) {
            if *is_added {
                counted.insert(thesis);
            } else {
                counted.remove(thesis);
            }
        }
        let value = f64::from(u32::try_from(counted.len()).unwrap());
        let crosses = if is_firing { value <= recover } else { value > above };
        if number >= first && crosses {
            is_firing = !is_firing;
            events.push((is_firing, value));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED_AT: i64 = 1_000_000;

    fn alert() -> Alert {
        Alert {
            metric: AlertMetric::ThesisCount24h.into(),
            above: Some(1.0),
            created_at: CREATED_AT,
            updated_at: CREATED_AT,
            ..Alert::default()
        }
    }

    fn change(after_ms: i64, is_added: bool, thesis: &str) -> CountChange {
        CountChange { at: CREATED_AT + after_ms, is_added, thesis: thesis.to_owned() }
    }

    #[test]
    fn crossings_that_miss_come_twice_or_have_another_value_are_found() {
        let changes = [
            change(-60_000, true, "a"),
            change(1, true, "b"),
            change(2, true, "c"),
            change(2, false, "a"),
            change(3, false, "b"),
            // It was deleted before it was observed.
            change(4, false, "d"),
            change(5, true, "e"),
        ];
        let right = [(true, 2.0), (false, 1.0), (true, 2.0)];
        assert!(is_recount(&alert(), &changes, &right));
        for wrong in [
            &right[..2],
            &right[1..],
            &[],
            &[(true, 2.0), (true, 2.0), (false, 1.0), (true, 2.0)],
            &[(true, 3.0), (false, 1.0), (true, 2.0)],
        ] {
            assert!(!is_recount(&alert(), &changes, wrong), "{wrong:?}");
        }
    }

    #[test]
    fn entries_long_before_a_rule_are_judged_together() {
        let theses = |after_ms| ["a", "b", "c"].map(|thesis| change(after_ms, true, thesis));
        let (together, apart) = ([(true, 3.0)], [(true, 2.0)]);
        for (after_ms, one, other) in [(-UNREAD_MS - 1, true, false), (-1, true, true), (0, false, true)] {
            assert_eq!(is_recount(&alert(), &theses(after_ms), &together), one, "{after_ms}");
            assert_eq!(is_recount(&alert(), &theses(after_ms), &apart), other, "{after_ms}");
        }
    }
}

use super::*;

/// The time at which a rule is created.
const BEGIN: i64 = 1_000_000;
const END: i64 = 200_000;
const UNREAD: i64 = Delays::OF_PROCESSES.unread;

/// A rule of this time, which fires above a number of theses.
fn rule(after_ms: i64, above: f64) -> Alert {
    Alert { above: Some(above), updated_at: BEGIN + after_ms, ..Alert::default() }
}

fn history(versions: &[Alert]) -> AlertHistory {
    AlertHistory::new(versions.iter().map(|rule| (rule.updated_at, rule.clone())).collect(), None)
}

/// Changes of theses in the order of a log.
fn changes(changes: &[(i64, bool, &str)]) -> Vec<CountChange> {
    let change = |(seq, (after_ms, is_added, thesis)): (u64, &(i64, bool, &str))| CountChange {
        seq,
        at: BEGIN + after_ms,
        is_added: *is_added,
        thesis: (*thesis).to_owned(),
        posted_at: 0,
    };
    (1..).zip(changes).map(change).collect()
}

fn event(version: usize, read: u64, after_ms: i64, value: f64, is_firing: bool) -> JudgedChange {
    let fires = Some(is_firing);
    JudgedChange { version, read, at: BEGIN + after_ms, value, fires, is_firing, waits_since: None }
}

/// A rule begins to wait at this time.
fn waits(read: u64, after_ms: i64, value: f64, is_firing: bool) -> JudgedChange {
    let waits_since = Some(BEGIN + after_ms);
    JudgedChange { fires: None, waits_since, ..event(0, read, after_ms, value, is_firing) }
}

fn check(history: &AlertHistory, changes: &[CountChange], judged: &[JudgedChange], delays: Delays) -> bool {
    AlertRecount { history, changes, delays }.check(judged, BEGIN + END).is_ok()
}

fn holds(history: &AlertHistory, changes: &[CountChange], judged: &[JudgedChange]) -> bool {
    check(history, changes, judged, Delays::OF_PROCESSES)
}

#[test]
fn crossings_that_miss_come_twice_or_have_another_value_are_found() {
    let history = history(&[rule(0, 1.0)]);
    let changes = changes(&[
        (-60_000, true, "a"),
        (1, true, "b"),
        (2, true, "c"),
        (2, false, "a"),
        (3, false, "b"),
        // It was deleted before it was observed.
        (4, false, "d"),
        (5, true, "e"),
    ]);
    let right = [event(0, 2, 1, 2.0, true), event(0, 5, 3, 1.0, false), event(0, 7, 5, 2.0, true)];
    assert!(holds(&history, &changes, &right));
    let [fired, resolved, again] = right.clone();
    let without_event = JudgedChange { fires: None, ..fired.clone() };
    for wrong in [
        &right[..2],
        &right[1..],
        &[],
        &[fired.clone(), fired.clone(), resolved.clone(), again.clone()],
        &[JudgedChange { value: 3.0, ..fired.clone() }, resolved.clone(), again.clone()],
        &[event(0, 3, 2, 3.0, true), resolved.clone(), again.clone()],
        &[without_event, resolved.clone(), again.clone()],
        &[fired.clone(), event(0, 5, 0, 1.0, false), again.clone()],
    ] {
        assert!(!holds(&history, &changes, wrong), "{wrong:?}");
    }
}

#[test]
fn entries_long_before_a_rule_are_judged_together() {
    let history = history(&[rule(0, 1.0)]);
    let theses = |after_ms| changes(&["a", "b", "c"].map(|thesis| (after_ms, true, thesis)));
    let (together, apart) = ([event(0, 3, 0, 3.0, true)], [event(0, 2, 0, 2.0, true)]);
    for (after_ms, one, other) in [(-UNREAD - 1, true, false), (-1, true, true), (0, false, true)] {
        assert_eq!(holds(&history, &theses(after_ms), &together), one, "{after_ms}");
        assert_eq!(holds(&history, &theses(after_ms), &apart), other, "{after_ms}");
    }
    assert!(!holds(&history, &theses(-60_000), &[]), "it fires without another entry");
}

#[test]
fn a_wait_ends_when_it_is_due() {
    let history = history(&[Alert { for_ms: 1_000, keep_firing_for_ms: 500, ..rule(0, 1.0) }]);
    let changes = changes(&[(-60_000, true, "a"), (100, true, "b"), (2_000, false, "b")]);
    let right = [
        waits(2, 100, 2.0, false),
        event(0, 2, 1_100, 2.0, true),
        waits(3, 2_000, 1.0, true),
        event(0, 3, 2_500, 1.0, false),
    ];
    assert!(holds(&history, &changes, &right));
    let with = |place: usize, other: JudgedChange| {
        let mut changed = right.to_vec();
        changed[place] = other;
        changed
    };
    for wrong in [
        right[..3].to_vec(),
        right[1..].to_vec(),
        right[..1].to_vec(),
        with(1, event(0, 2, 1_000, 2.0, true)),
        with(1, event(0, 2, 1_200, 2.0, true)),
        with(3, event(0, 3, 2_600, 1.0, false)),
        with(0, JudgedChange { waits_since: Some(BEGIN), ..right[0].clone() }),
    ] {
        assert!(!holds(&history, &changes, &wrong), "{wrong:?}");
    }
}

#[test]
fn a_changed_rule_judges_from_its_time_on() {
    let history = history(&[rule(0, 1.0), rule(100_000, 3.0)]);
    let changes =
        changes(&[(-60_000, true, "a"), (1, true, "b"), (2, true, "c"), (150_000, true, "d"), (160_000, true, "e")]);
    let right = [event(0, 2, 1, 2.0, true), event(1, 3, 100_000, 3.0, false), event(1, 4, 150_000, 4.0, true)];
    assert!(holds(&history, &changes, &right));
    let [fired, resolved, again] = right.clone();
    for wrong in [
        &right[..1],
        &right[..2],
        &right[1..],
        &[fired.clone(), JudgedChange { version: 0, ..resolved.clone() }, again.clone()],
        &[fired.clone(), event(1, 3, 99_999, 3.0, false), again.clone()],
        &[fired, resolved, JudgedChange { version: 0, ..again }],
    ] {
        assert!(!holds(&history, &changes, wrong), "{wrong:?}");
    }
}

#[test]
fn cores_of_a_network_may_learn_late_of_a_change() {
    let history = history(&[rule(0, 1.0), rule(100_000, 0.0)]);
    let changes = changes(&[(-60_000, true, "a"), (130_000, false, "a")]);
    assert!(!holds(&history, &changes, &[]));
    assert!(check(&history, &changes, &[], Delays::OF_NETWORK));
    let both = [event(1, 1, 100_000, 1.0, true), event(1, 2, 130_000, 0.0, false)];
    assert!(holds(&history, &changes, &both) && check(&history, &changes, &both, Delays::OF_NETWORK));
    assert!(!check(&history, &changes, &both[..1], Delays::OF_NETWORK), "it stays so");
}

#[test]
fn a_deleted_rule_judges_until_its_end() {
    let deleted = AlertHistory::new(vec![(BEGIN, rule(0, 1.0))], Some(BEGIN + 100_000));
    let theses = |after_ms| changes(&[(-60_000, true, "a"), (after_ms, true, "b")]);
    for (after_ms, silent, fired) in [(50_000, false, true), (90_000, true, true), (150_000, true, false)] {
        assert_eq!(holds(&deleted, &theses(after_ms), &[]), silent, "{after_ms}");
        assert_eq!(holds(&deleted, &theses(after_ms), &[event(0, 2, after_ms, 2.0, true)]), fired, "{after_ms}");
    }
}

#[test]
fn a_thesis_of_a_later_time_counts_from_then_on() {
    let history = history(&[rule(0, 1.0)]);
    let mut changes = changes(&[(1, true, "a"), (2, true, "b"), (10, true, "c")]);
    changes[1].posted_at = BEGIN + 500;
    assert!(holds(&history, &changes, &[event(0, 3, 10, 2.0, true)]));
    assert!(!holds(&history, &changes, &[event(0, 2, 2, 2.0, true)]), "it does not count yet");
    changes.pop();
    assert!(holds(&history, &changes, &[event(0, 2, 500, 2.0, true)]));
    assert!(!holds(&history, &changes, &[]));
}

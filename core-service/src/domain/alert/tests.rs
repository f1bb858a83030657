//! Compares the watch with a recount of the theses at every moment at which something may change, on random histories
//! and rules, with crashes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use proptest::prelude::*;

use super::{Alert, AlertChange, AlertProgress, AlertWatch, Crossing, EntryThesis, ShownState, WatchedThesis};
use crate::domain::{
    dataset::Dataset,
    row::Token,
    window::{DAY_MS, HOUR_MS, MINUTE_MS},
};

const WIDTHS: [i64; 4] = [5 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, DAY_MS];
const START: i64 = 1_000 * DAY_MS;

/// An entry of the live log.
#[derive(Clone, Debug)]
struct Logged {
    at: i64,
    is_added: bool,
    thesis: WatchedThesis,
}

/// An event: the alert, the crossing, its time, and the value.
type Event = (String, Crossing, i64, Option<f64>);

fn alert(
    id: usize,
    metric: i32,
    above: bool,
    threshold: f64,
    band: f64,
    for_ms: i64,
    keep_firing_for_ms: i64,
) -> Alert {
    Alert {
        id: format!("al_{id}"),
        project_id: format!("prj_{}", id % 2),
        live: true,
        token: Token { id: "tk_1".to_owned(), ..Token::default() },
        metric,
        above: above.then_some(threshold),
        below: (!above).then_some(threshold),
        recover: (band > 0.0).then_some(if above { threshold - band } else { threshold + band }),
        for_ms,
        keep_firing_for_ms,
        created_at: START,
        updated_at: START,
        ..Alert::default()
    }
}

fn alerts() -> impl Strategy<Value = Vec<Alert>> {
    let span = || prop_oneof![3 => Just(0), 1 => Just(MINUTE_MS), 1 => Just(40 * MINUTE_MS), 1 => 1..HOUR_MS];
    let rule = (1..=5_i32, any::<bool>(), 0..6_i32, 0..3_i32, span(), span());
    let rules = prop::collection::vec(rule, 1..4);
    rules.prop_map(|rules| {
        let numbered = rules.into_iter().enumerate();
        numbered
            .map(|(id, (metric, above, threshold, band, for_ms, keep))| {
                let scale = if metric == 5 { 40.0 } else { 1.0 };
                alert(id, metric, above, f64::from(threshold) * scale, f64::from(band) * scale, for_ms, keep)
            })
            .collect()
    })
}

/// A random history: pauses between posts, how late each is recorded, its author, and deletions of earlier ones.
fn history() -> impl Strategy<Value = Vec<Logged>> {
    let pause = prop_oneof![
        3 => 0..10 * MINUTE_MS,
        1 => Just(0),
        1 => prop::sample::select(WIDTHS.to_vec()),
        1 => 0..5 * HOUR_MS,
    ];
    let late = prop_oneof![4 => Just(0), 1 => 0..2 * HOUR_MS, 1 => -MINUTE_MS..0];
    let step = (pause, late, 0..3_u8, prop::option::weighted(0.25, any::<prop::sample::Index>()));
    prop::collection::vec(step, 1..25).prop_map(|steps| {
        let (mut at, mut log, mut present) = (START, Vec::new(), Vec::new());
        for (number, (pause, late, author, deleted)) in steps.into_iter().enumerate() {
            at += pause;
            if let Some(index) = deleted.filter(|_| !present.is_empty()) {
                let thesis = present.swap_remove(index.index(present.len()));
                log.push(Logged { at, is_added: false, thesis });
                continue;
            }
            let thesis =
                WatchedThesis { created_at: at - late, id: format!("th_{number}"), author: format!("fp_{author}") };
            present.push(thesis.clone());
            log.push(Logged { at, is_added: true, thesis });
        }
        log
    })
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// The value of a metric, counted anew.
fn recount(theses: &[WatchedThesis], metric: i32, at: i64) -> Option<f64> {
    let within = |from: i64, to: i64| {
        theses.iter().filter(move |thesis| at - from < thesis.created_at && thesis.created_at <= at - to)
    };
    Some(match metric {
        1 => number(within(5 * MINUTE_MS, 0).count()),
        2 => number(within(HOUR_MS, 0).count()),
        3 => number(within(DAY_MS, 0).count()),
        4 => number(within(DAY_MS, 0).map(|thesis| &thesis.author).collect::<HashSet<_>>().len()),
        _ => {
            let [last, before] = [within(HOUR_MS, 0).count(), within(2 * HOUR_MS, HOUR_MS).count()].map(number);
            if before == 0.0 {
                return None;
            }
            (last - before) * 100.0 / before
        }
    })
}

/// A rule as its description says it, judged at each moment in turn.
#[derive(Default)]
struct Plain {
    is_firing: bool,
    since: Option<i64>,
}

impl Plain {
    fn judge(&mut self, alert: &Alert, value: Option<f64>, at: i64) -> Option<Crossing> {
        let Some(value) = value else {
            self.since = None;
            return None;
        };
        let passed = alert.above.map_or_else(|| value < alert.below.unwrap(), |above| value > above);
        let recovery = alert.recover.or(alert.above).or(alert.below).unwrap();
        let recovered = if alert.above.is_some() { value <= recovery } else { value >= recovery };
        let (turns, wait) = if self.is_firing { (recovered, alert.keep_firing_for_ms) } else { (passed, alert.for_ms) };
        if !turns {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(at);
        if at - since < wait {
            return None;
        }
        self.since = None;
        self.is_firing = !self.is_firing;
        Some(if self.is_firing { Crossing::Firing } else { Crossing::Resolved })
    }
}

/// The events of a history, by a recount at every time at which a count or a wait can change.
fn expected(alert: &Alert, log: &[Logged], end: i64) -> Vec<Event> {
    let mut times: BTreeSet<i64> = log.iter().map(|logged| logged.at).collect();
    for Logged { thesis, .. } in log {
        times.extend([0].into_iter().chain(WIDTHS).map(|width| thesis.created_at + width));
    }
    times.extend([START, end]);
    let mut plain = Plain::default();
    let (mut theses, mut next, mut events) = (Vec::<WatchedThesis>::new(), 0, Vec::new());
    let judge = |plain: &mut Plain, theses: &[WatchedThesis], at: i64, events: &mut Vec<Event>| {
        let value = recount(theses, alert.metric, at);
        events.extend(plain.judge(alert, value, at).map(|crossing| (alert.id.clone(), crossing, at, value)));
    };
    times.retain(|at| (START..=end).contains(at));
    let mut times = times.into_iter().peekable();
    while let Some(at) = times.next() {
        judge(&mut plain, &theses, at, &mut events);
        while log.get(next).is_some_and(|logged| logged.at <= at) {
            let Logged { is_added, thesis, .. } = &log[next];
            if *is_added {
                theses.push(thesis.clone());
            } else {
                theses.retain(|known| known.id != thesis.id);
            }
            judge(&mut plain, &theses, at, &mut events);
            next += 1;
        }
        // Between two of these times only waits end.
        while let Some(since) = plain.since {
            let due = since + if plain.is_firing { alert.keep_firing_for_ms } else { alert.for_ms };
            if due > end || times.peek().is_some_and(|later| due >= *later) {
                break;
            }
            judge(&mut plain, &theses, due, &mut events);
        }
    }
    events
}

/// What survives a crash: the progress of each alert, its events, and a checkpoint that may be older.
#[derive(Clone, Default)]
struct Stored {
    progress: HashMap<String, AlertProgress>,
    events: Vec<Event>,
    read: usize,
    at: i64,
}

impl Stored {
    /// Appends changes as the log of alerts does: only the next revision of an alert.
    fn append(&mut self, changes: Vec<(AlertChange, Crossing)>) {
        for (AlertChange { alert, progress, value }, crossing) in changes {
            let before = self.progress.get(&alert.id).map_or(0, |progress| progress.revision);
            assert_eq!(progress.revision, before + 1, "a change was found twice, or one is missing");
            if crossing != Crossing::None {
                self.events.push((alert.id.clone(), crossing, progress.at, value));
            }
            self.progress.insert(alert.id, progress);
        }
    }
}

/// The theses after the first entries of a log.
fn theses_after(log: &[Logged]) -> Vec<WatchedThesis> {
    let mut theses: Vec<WatchedThesis> = Vec::new();
    for Logged { is_added, thesis, .. } in log {
        if *is_added {
            theses.push(thesis.clone());
        } else {
            theses.retain(|known| known.id != thesis.id);
        }
    }
    theses
}

fn begin(alerts: &[Alert], log: &[Logged], stored: &Stored) -> AlertWatch {
    let read = u64::try_from(stored.read).unwrap();
    let mut watch = AlertWatch::new(stored.at, BTreeMap::from([("live".to_owned(), read)]));
    for alert in alerts {
        if !watch.has_token_of(alert) {
            watch.add_token(alert, theses_after(&log[..stored.read]));
        }
        let progress = stored.progress.get(&alert.id).cloned().unwrap_or_default();
        watch.set_alert(&Arc::new(alert.clone()), progress);
    }
    watch
}

fn read(watch: &mut AlertWatch, log: &[Logged], index: usize) {
    let Logged { at, is_added, thesis } = &log[index];
    let thesis = EntryThesis { token: "tk_1", is_added: *is_added, thesis };
    watch.read(&Dataset::Live, u64::try_from(index).unwrap() + 1, *at, Some(thesis));
}

/// Runs a history with crashes: after how many entries one comes, how many changes of it are lost, and whether the
/// checkpoint was stored before.
fn run(alerts: &[Alert], log: &[Logged], crashes: &HashMap<usize, (usize, bool)>, end: i64) -> Vec<Event> {
    let mut stored = Stored { at: START, ..Stored::default() };
    let mut watch = begin(alerts, log, &stored);
    let (mut index, mut done) = (0, HashSet::new());
    while index < log.len() {
        read(&mut watch, log, index);
        index += 1;
        let mut changes = watch.take_changes();
        if let Some((lost, is_stored)) = crashes.get(&index).filter(|_| done.insert(index)) {
            changes.truncate(changes.len().saturating_sub(*lost));
            stored.append(changes);
            if *is_stored && *lost == 0 {
                (stored.read, stored.at) = (index, watch.at());
            }
            watch = begin(alerts, log, &stored);
            index = stored.read;
            stored.append(watch.take_changes());
            continue;
        }
        stored.append(changes);
    }
    watch.advance(end);
    stored.append(watch.take_changes());
    stored.events
}

fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|(id, _, at, _)| (id.clone(), *at));
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn each_crossing_is_found_once_whatever_crashes(
        alerts in alerts(),
        log in history(),
        crashes in prop::collection::hash_map(1..25_usize, (0..3_usize, any::<bool>()), 0..4),
        rest in 0..2 * DAY_MS,
    ) {
        let end = log.last().map_or(START, |last| last.at) + rest;
        let plain: Vec<Event> = alerts.iter().flat_map(|alert| expected(alert, &log, end)).collect();
        prop_assert_eq!(sorted(run(&alerts, &log, &HashMap::new(), end)), sorted(plain.clone()));
        prop_assert_eq!(sorted(run(&alerts, &log, &crashes, end)), sorted(plain));
    }
}

#[test]
fn nothing_happens_inside_the_band() {
    let rule = alert(1, 3, true, 10.0, 4.0, 0, 0);
    let mut progress = AlertProgress::default();
    let mut crossings = Vec::new();
    for (value, at) in [10.0, 11.0, 10.0, 9.0, 7.0, 11.0, 6.0, 7.0, 10.0, 11.0].into_iter().zip(1..) {
        if let Some((next, crossing)) = rule.step(&progress, Some(value), at) {
            progress = next;
            crossings.push((at, crossing));
        }
    }
    assert_eq!(crossings, [(2, Crossing::Firing), (7, Crossing::Resolved), (10, Crossing::Firing)]);
}

#[test]
fn waits_begin_anew_when_the_value_turns_back() {
    let rule = alert(1, 3, true, 10.0, 0.0, 100, 50);
    let mut progress = AlertProgress::default();
    let mut step = |value, at| {
        let (next, crossing) = rule.step(&progress, value, at)?;
        progress = next;
        Some((progress.shown(), crossing))
    };
    assert_eq!(step(Some(11.0), 0), Some((ShownState::Pending, Crossing::None)));
    assert_eq!(step(Some(12.0), 99), None);
    assert_eq!(step(Some(10.0), 99), Some((ShownState::Ok, Crossing::None)));
    assert_eq!(step(Some(11.0), 100), Some((ShownState::Pending, Crossing::None)));
    assert_eq!(step(Some(11.0), 200), Some((ShownState::Firing, Crossing::Firing)));
    assert_eq!(step(Some(9.0), 300), Some((ShownState::Firing, Crossing::None)));
    assert_eq!(step(Some(11.0), 349), Some((ShownState::Firing, Crossing::None)));
    assert_eq!(step(Some(9.0), 350), Some((ShownState::Firing, Crossing::None)));
    assert_eq!(step(None, 380), Some((ShownState::NoData, Crossing::None)));
    assert_eq!(step(None, 999), None);
    assert_eq!(step(Some(9.0), 1_000), Some((ShownState::Firing, Crossing::None)));
    assert_eq!(step(Some(9.0), 1_050), Some((ShownState::Ok, Crossing::Resolved)));
}

#[test]
fn ten_thousand_rules_on_a_token_are_judged_only_where_their_values_lie() {
    let mut watch = AlertWatch::new(START, BTreeMap::new());
    for id in 0..10_000 {
        let rule = alert(id, 3, true, number(id), 0.0, 0, 0);
        if !watch.has_token_of(&rule) {
            watch.add_token(&rule, []);
        }
        watch.set_alert(&Arc::new(rule), AlertProgress::default());
    }
    assert!(watch.take_changes().is_empty());
    for seq in 1..=100_i32 {
        let id = format!("th_{seq}");
        let thesis = WatchedThesis { created_at: START + i64::from(seq), id, author: "fp_1".to_owned() };
        let added = EntryThesis { token: "tk_1", is_added: true, thesis: &thesis };
        watch.read(&Dataset::Live, seq.unsigned_abs().into(), thesis.created_at, Some(added));
        let fired: Vec<_> = watch.take_changes().into_iter().map(|(change, _)| change.alert.threshold()).collect();
        assert_eq!(fired, [f64::from(seq - 1)]);
    }
}

#[test]
fn crossings_in_entries_older_than_the_last_change_are_found_after_a_crash() {
    let rules = [alert(0, 3, true, 1.0, 0.0, 0, 0)];
    let entry = |after_ms: i64, is_added: bool, id: &str| Logged {
        at: START + after_ms,
        is_added,
        thesis: WatchedThesis { created_at: START, id: id.to_owned(), author: "fp_1".to_owned() },
    };
    let log = [entry(1, true, "th_1"), entry(2, true, "th_2"), entry(3, false, "th_1"), entry(4, true, "th_3")];
    let mut stored = Stored { at: START, ..Stored::default() };
    let mut watch = begin(&rules, &log, &stored);
    // The first core's clock is ahead of the entries.
    watch.advance(START + 1_000);
    (0..2).for_each(|index| read(&mut watch, &log, index));
    stored.append(watch.take_changes());
    let mut watch = begin(&rules, &log, &stored);
    (0..log.len()).for_each(|index| read(&mut watch, &log, index));
    stored.append(watch.take_changes());
    let found: Vec<_> = stored.events.iter().map(|(_, crossing, _, value)| (*crossing, *value)).collect();
    let (firing, resolved) = ((Crossing::Firing, Some(2.0)), (Crossing::Resolved, Some(1.0)));
    assert_eq!(found, [firing, resolved, firing]);
}

#[test]
fn a_held_rule_does_not_end_the_wait_of_another_project() {
    let rules = [(0, 500), (1, 0)].map(|(id, for_ms)| Alert { live: false, ..alert(id, 3, true, 0.0, 0.0, for_ms, 0) });
    let thesis = WatchedThesis { created_at: START, id: "th_1".to_owned(), author: "fp_1".to_owned() };
    let read = |watch: &mut AlertWatch, (rule, seq, is_added): (usize, u64, bool)| {
        let entry = EntryThesis { token: "tk_1", is_added, thesis: &thesis };
        watch.read(&Dataset::of_project(&rules[rule].project_id), seq, START + 1, Some(entry));
    };
    let mut stored = Stored { at: START, ..Stored::default() };
    let mut watch = begin(&rules, &[], &stored);
    // The first core's clock is ahead of the entries.
    watch.advance(START + 1_000);
    read(&mut watch, (1, 1, true));
    stored.append(watch.take_changes());
    let mut watch = begin(&rules, &[], &stored);
    [(0, 1, true), (1, 1, true), (0, 2, false)].into_iter().for_each(|entry| read(&mut watch, entry));
    watch.advance(START + 2_000);
    stored.append(watch.take_changes());
    assert_eq!(stored.events, [("al_1".to_owned(), Crossing::Firing, START + 1_000, Some(1.0))]);
}

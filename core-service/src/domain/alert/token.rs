//! The rules over one token, found by the values between which a metric moves.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::{
    Alert, AlertChange, AlertProgress, Crossing, METRICS,
    window::{TokenWindow, Values},
};
use crate::domain::dataset::View;

/// A value at which a rule may have to be judged. Values order as numbers do.
#[derive(Clone, Copy, Debug)]
struct Point(f64);

impl PartialEq for Point {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Point {}

impl PartialOrd for Point {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Point {
    fn cmp(&self, other: &Self) -> Ordering {
        // A zero has two forms.
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

/// A rule with its progress.
#[derive(Debug)]
pub(super) struct WatchedAlert {
    pub(super) alert: Arc<Alert>,
    pub(super) progress: AlertProgress,
    /// True while earlier values than those of its progress are counted: then it is not judged.
    pub(super) is_held: bool,
}

/// The rules over one token in one view.
#[derive(Debug)]
pub(super) struct WatchedToken {
    pub(super) window: TokenWindow,
    values: Values,
    alerts: HashMap<Arc<str>, WatchedAlert>,
    /// For each metric: thresholds and values of recovery.
    points: [BTreeSet<(Point, Arc<str>)>; METRICS],
    /// The times at which rules fire or resolve if their values stay.
    timers: BTreeSet<(i64, Arc<str>)>,
    /// The time that [`super::AlertWatch`] has noted for this token.
    pub(super) noted_due: Option<i64>,
}

impl WatchedToken {
    pub(super) fn new(window: TokenWindow) -> Self {
        Self {
            values: window.values(),
            window,
            alerts: HashMap::new(),
            points: Default::default(),
            timers: BTreeSet::new(),
            noted_due: None,
        }
    }

    pub(super) fn is_unused(&self) -> bool {
        self.alerts.is_empty()
    }

    /// Adds a rule, or replaces it.
    pub(super) fn set(&mut self, watched: WatchedAlert) {
        let id: Arc<str> = watched.alert.id.as_str().into();
        self.remove(&id);
        let alert = &watched.alert;
        let points = &mut self.points[alert.metric_index()];
        points.insert((Point(alert.threshold()), Arc::clone(&id)));
        points.insert((Point(alert.recovers_at()), Arc::clone(&id)));
        self.timers.extend(alert.due_at(&watched.progress).map(|due_at| (due_at, Arc::clone(&id))));
        self.alerts.insert(id, watched);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<WatchedAlert> {
        let (id, watched) = self.alerts.remove_entry(id)?;
        let alert = &watched.alert;
        let points = &mut self.points[alert.metric_index()];
        points.remove(&(Point(alert.threshold()), Arc::clone(&id)));
        points.remove(&(Point(alert.recovers_at()), Arc::clone(&id)));
        if let Some(due_at) = alert.due_at(&watched.progress) {
            self.timers.remove(&(due_at, id));
        }
        Some(watched)
    }

    pub(super) fn watched(&self, id: &str) -> Option<&WatchedAlert> {
        self.alerts.get(id)
    }

    pub(super) fn alert(&self, id: &str) -> Option<&Arc<Alert>> {
        Some(&self.watched(id)?.alert)
    }

    pub(super) fn alert_mut(&mut self, id: &str) -> Option<&mut WatchedAlert> {
        self.alerts.get_mut(id)
    }

    /// The next time at which time alone may change something.
    pub(super) fn next_due(&self) -> Option<i64> {
        self.timers.first().map(|(due_at, _)| *due_at).into_iter().chain(self.window.next_change()).min()
    }

    /// Finds the rules that the values of now and the timers up to `at` concern, in the order of their ids. The window
    /// is at `at`.
    pub(super) fn concerned(&mut self, at: i64) -> Vec<Arc<str>> {
        let values = self.window.values();
        let before = std::mem::replace(&mut self.values, values);
        let mut concerned = Vec::new();
        for (index, (before, now)) in before.into_iter().zip(values).enumerate() {
            let (low, high) = match (before, now) {
                (Some(before), Some(now)) if Point(before) == Point(now) => continue,
                (None, None) => continue,
                (Some(before), Some(now)) => (before.min(now), before.max(now)),
                _ => (f64::NEG_INFINITY, f64::INFINITY),
            };
            // A rule with a point at one of the two values may change too.
            let from = Bound::Included((Point(low), Arc::from("")));
            let between = self.points[index].range((from, Bound::Unbounded));
            concerned.extend(between.take_while(|(point, _)| *point <= Point(high)).map(|(_, id)| Arc::clone(id)));
        }
        while self.timers.first().is_some_and(|(due_at, _)| *due_at <= at) {
            concerned.extend(self.timers.pop_first().map(|(_, id)| id));
        }
        // Rules with the same threshold are in this order already, and the sort takes one pass over them.
        concerned.sort_unstable();
        concerned.dedup();
        concerned
    }

    /// Judges a rule at `at`. Returns its change with what that means.
    pub(super) fn judge(&mut self, id: &Arc<str>, at: i64) -> Option<(&mut AlertProgress, Change)> {
        let watched = self.alerts.get_mut(id).filter(|watched| !watched.is_held)?;
        let value = self.values[watched.alert.metric_index()];
        let step = watched.alert.step(&watched.progress, value, at);
        let change = step.map(|(next, crossing)| {
            if let Some(due_at) = watched.alert.due_at(&watched.progress) {
                self.timers.remove(&(due_at, Arc::clone(id)));
            }
            watched.progress = next;
            Change { alert: Arc::clone(&watched.alert), value, crossing }
        });
        // The timer of an unchanged progress may have been taken above.
        self.timers.extend(watched.alert.due_at(&watched.progress).map(|due_at| (due_at, Arc::clone(id))));
        let change = change?;
        Some((&mut watched.progress, change))
    }
}

/// A change of a rule's progress.
#[derive(Debug)]
pub(super) struct Change {
    alert: Arc<Alert>,
    value: Option<f64>,
    crossing: Crossing,
}

impl Change {
    /// The datasets that its value counts.
    pub(super) fn counted(&self) -> View {
        self.alert.counted()
    }

    /// The change with the new progress.
    pub(super) fn with(self, progress: AlertProgress) -> (AlertChange, Crossing) {
        (AlertChange { alert: Alert::clone(&self.alert), progress, value: self.value }, self.crossing)
    }
}

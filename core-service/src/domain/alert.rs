//! Alerts: rules over the counts of a token, and the progress that leads from values to events.
//!
//! A rule fires when its metric passes the threshold, and resolves when it reaches `recover`. Between the two nothing
//! happens. [`AlertWatch`] finds the moments at which a rule has to be judged. [`Alert::step`] judges it.

mod token;
mod watch;
mod window;

#[cfg(test)]
mod tests;

pub use self::watch::{AlertWatch, EntryThesis, WatchedThesis};

use serde::{Deserialize, Serialize};

use super::{
    dataset::{Dataset, View},
    row::Token,
};

/// Number of metrics. Their numbers in `thesis.v1.AlertMetric` are 1 to this.
pub const METRICS: usize = 5;

/// A rule.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    /// `al_…`
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its project.
    #[prost(string, tag = "2")]
    pub project_id: String,
    /// Its environment.
    #[prost(bool, tag = "3")]
    pub live: bool,
    /// For people to read.
    #[prost(string, tag = "4")]
    pub name: String,
    /// The token, as it was when the rule was created.
    #[prost(message, required, tag = "5")]
    pub token: Token,
    /// Number of the metric.
    #[prost(int32, tag = "6")]
    pub metric: i32,
    /// It fires above this value. A rule has either this or [`Self::below`].
    #[prost(double, optional, tag = "7")]
    pub above: Option<f64>,
    /// It fires below this value.
    #[prost(double, optional, tag = "8")]
    pub below: Option<f64>,
    /// It resolves at this value; none if that is the threshold.
    #[prost(double, optional, tag = "9")]
    pub recover: Option<f64>,
    /// The threshold must be passed for this time before it fires, in milliseconds.
    #[prost(int64, tag = "10")]
    pub for_ms: i64,
    /// It goes on firing for this time after the value has recovered, in milliseconds.
    #[prost(int64, tag = "11")]
    pub keep_firing_for_ms: i64,
    /// Unix milliseconds.
    #[prost(int64, tag = "12")]
    pub created_at: i64,
    /// Unix milliseconds. Values of earlier times are judged by the rule as it was before.
    #[prost(int64, tag = "13")]
    pub updated_at: i64,
}

/// How far a log was read.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRead {
    /// Name of the dataset.
    #[prost(string, tag = "1")]
    pub dataset: String,
    /// Sequence number of the last entry.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
}

/// The progress of a rule, with the moment that it reflects.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertProgress {
    /// True from the event `alert.firing` to the event `alert.resolved`.
    #[prost(bool, tag = "1")]
    pub is_firing: bool,
    /// The metric has no value.
    #[prost(bool, tag = "2")]
    pub has_no_data: bool,
    /// Time since which the rule waits to fire, or to resolve; none if it does not wait. Unix milliseconds.
    #[prost(int64, optional, tag = "3")]
    pub waits_since: Option<i64>,
    /// Time of the last change of the state, in unix milliseconds.
    #[prost(int64, tag = "4")]
    pub state_since: i64,
    /// Number of its changes.
    #[prost(uint64, tag = "5")]
    pub revision: u64,
    /// Time of its last change, in unix milliseconds.
    #[prost(int64, tag = "6")]
    pub at: i64,
    /// The entries that the value of its last change counts.
    #[prost(message, repeated, tag = "7")]
    pub reads: Vec<LogRead>,
}

/// The state that people see, by its number in `thesis.v1.AlertState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownState {
    /// The threshold is not passed.
    Ok = 1,
    /// The threshold is passed, but not for long enough.
    Pending = 2,
    /// It has fired.
    Firing = 3,
    /// The metric has no value.
    NoData = 4,
}

/// What a change of the progress means for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// The event `alert.firing`.
    Firing,
    /// The event `alert.resolved`.
    Resolved,
    /// No event.
    None,
}

/// A change of the progress of a rule, as its log has it.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertChange {
    /// The rule, with its token as it was.
    #[prost(message, required, tag = "1")]
    pub alert: Alert,
    /// The progress after the change.
    #[prost(message, required, tag = "2")]
    pub progress: AlertProgress,
    /// The value that caused it; none if the metric had none.
    #[prost(double, optional, tag = "3")]
    pub value: Option<f64>,
}

impl AlertProgress {
    /// The state that people see.
    #[must_use]
    pub const fn shown(&self) -> ShownState {
        match (self.has_no_data, self.is_firing, self.waits_since) {
            (true, _, _) => ShownState::NoData,
            (false, true, _) => ShownState::Firing,
            (false, false, Some(_)) => ShownState::Pending,
            (false, false, None) => ShownState::Ok,
        }
    }
}

impl Alert {
    /// The value that the metric passes when the rule fires.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.above.or(self.below).unwrap_or_default()
    }

    /// The value at which the rule resolves.
    #[must_use]
    pub fn recovers_at(&self) -> f64 {
        self.recover.unwrap_or_else(|| self.threshold())
    }

    /// The dataset of its events.
    #[must_use]
    pub fn dataset(&self) -> Dataset {
        Dataset::of_alerts(&self.project_id, self.live)
    }

    /// The datasets whose theses it counts.
    #[must_use]
    pub fn counted(&self) -> View {
        if self.live { View::live() } else { View::test(&self.project_id) }
    }

    /// Index of the metric.
    #[must_use]
    pub fn metric_index(&self) -> usize {
        usize::try_from(self.metric).unwrap_or_default().clamp(1, METRICS) - 1
    }

    fn is_passed(&self, value: f64) -> bool {
        if self.above.is_some() { value > self.threshold() } else { value < self.threshold() }
    }

    fn is_recovered(&self, value: f64) -> bool {
        if self.above.is_some() { value <= self.recovers_at() } else { value >= self.recovers_at() }
    }

    /// Time until the rule fires or resolves once it waits, in milliseconds.
    const fn wait_ms(&self, is_firing: bool) -> i64 {
        if is_firing { self.keep_firing_for_ms } else { self.for_ms }
    }

    /// The time at which a waiting rule fires or resolves if its value stays.
    #[must_use]
    pub fn due_at(&self, progress: &AlertProgress) -> Option<i64> {
        Some(progress.waits_since?.saturating_add(self.wait_ms(progress.is_firing)))
    }

    /// Judges a value at a time. Returns the new progress if it changes. The caller adds what the value counts.
    #[must_use]
    pub fn step(&self, progress: &AlertProgress, value: Option<f64>, at: i64) -> Option<(AlertProgress, Crossing)> {
        let mut next = progress.clone();
        let mut crossing = Crossing::None;
        next.has_no_data = value.is_none();
        match value {
            // It neither fires nor resolves. A wait begins anew: nobody knows whether the threshold stays passed.
            None => next.waits_since = None,
            Some(value) => {
                let is_active = if progress.is_firing { !self.is_recovered(value) } else { self.is_passed(value) };
                if is_active == progress.is_firing {
                    next.waits_since = None;
                } else {
                    let since = *next.waits_since.get_or_insert(at);
                    if at.saturating_sub(since) >= self.wait_ms(progress.is_firing) {
                        (next.is_firing, next.waits_since) = (is_active, None);
                        crossing = if is_active { Crossing::Firing } else { Crossing::Resolved };
                    }
                }
            }
        }
        if next == *progress {
            return None;
        }
        if next.shown() != progress.shown() {
            next.state_since = at;
        }
        (next.revision, next.at) = (progress.revision + 1, at);
        Some((next, crossing))
    }
}

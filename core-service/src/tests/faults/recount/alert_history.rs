//! The history of a rule, the theses that it counts, and the changes of its progress, as the logs have them.

use std::collections::BTreeMap;

use thesis_proto::v1::AlertMetric;

use crate::{
    domain::{
        alert::Alert,
        control::ControlChange,
        entry::{Kind, SequencedEntry},
    },
    tables::control,
};

/// A rule with its changes.
#[derive(Clone, Debug, Default)]
pub(super) struct AlertHistory {
    /// Each version of the rule, with the time of its entry in the control log.
    versions: Vec<(i64, Alert)>,
    deleted_at: Option<i64>,
}

impl AlertHistory {
    pub(super) fn new(versions: Vec<(i64, Alert)>, deleted_at: Option<i64>) -> Self {
        Self { versions, deleted_at }
    }

    pub(super) fn rule(&self, version: usize) -> &Alert {
        &self.versions[version].1
    }

    pub(super) fn first_rule(&self) -> &Alert {
        self.rule(0)
    }

    pub(super) fn last_version(&self) -> usize {
        self.versions.len() - 1
    }

    pub(super) fn begin_of(&self, version: usize) -> i64 {
        self.versions[version].0
    }

    /// The time at which a version is replaced, or the rule is deleted.
    pub(super) fn end_of(&self, version: usize) -> Option<i64> {
        self.versions.get(version + 1).map(|(at, _)| *at).or(self.deleted_at)
    }

    /// The version that a change of the progress names. The token may be as it was then.
    fn version_of(&self, rule: &Alert) -> Option<usize> {
        self.versions.iter().position(|(_, version)| Alert { token: version.token.clone(), ..rule.clone() } == *version)
    }
}

/// The rules of the control log, by their ids.
pub(super) fn histories(control_log: &[(u64, bytes::Bytes)]) -> BTreeMap<String, AlertHistory> {
    let mut histories: BTreeMap<String, AlertHistory> = BTreeMap::new();
    for (seq, body) in control_log {
        let at = || control::entry_changes(*seq, body.clone()).unwrap().1.first().expect("an act has a time").at;
        for change in control::decode(body.clone()).unwrap() {
            match change {
                ControlChange::Alert(rule) => {
                    assert_eq!(rule.metric, i32::from(AlertMetric::ThesisCount24h), "only this count is recounted");
                    let history = histories.entry(rule.id.clone()).or_default();
                    assert_eq!(history.deleted_at, None, "a deleted rule changes: {rule:?}");
                    history.versions.push((at(), rule));
                }
                ControlChange::AlertDeleted(id) => {
                    histories.get_mut(&id).expect("a rule is deleted after it was created").deleted_at = Some(at());
                }
                _ => {}
            }
        }
    }
    histories
}

/// A change of the theses that a rule counts.
#[derive(Clone, Debug)]
pub(super) struct CountChange {
    pub(super) seq: u64,
    /// Time of the entry, in unix milliseconds.
    pub(super) at: i64,
    pub(super) is_added: bool,
    pub(super) thesis: String,
    /// Time of the post, in unix milliseconds.
    pub(super) posted_at: i64,
}

/// The changes of the theses on the token of a rule.
pub(super) fn count_changes(alert: &Alert, entries: &[SequencedEntry]) -> Vec<CountChange> {
    let change = |SequencedEntry { seq, entry }: &SequencedEntry| {
        let (is_added, thesis) = match entry.kind.as_ref()? {
            Kind::ThesisCreated(created) => (true, &created.thesis),
            Kind::ThesisDeleted(deleted) => (false, &deleted.thesis),
            _ => return None,
        };
        let (at, posted_at) = (entry.created_at, thesis.created_at);
        let change = CountChange { seq: *seq, at, is_added, thesis: thesis.id.clone(), posted_at };
        (thesis.token_id == alert.token.id).then_some(change)
    };
    entries.iter().filter_map(change).collect()
}

/// A logged change of a rule's progress.
#[derive(Clone, Debug)]
pub(super) struct JudgedChange {
    /// Number of the version of the rule.
    pub(super) version: usize,
    /// Number of the last entry that the value counts.
    pub(super) read: u64,
    /// Unix milliseconds.
    pub(super) at: i64,
    pub(super) value: f64,
    /// True for the event `alert.firing`, false for `alert.resolved`.
    pub(super) fires: Option<bool>,
    pub(super) is_firing: bool,
    pub(super) waits_since: Option<i64>,
}

/// The changes of a rule's progress in the log of its alerts. Its theses are in the dataset of this name.
pub(super) fn judged_changes(history: &AlertHistory, entries: &[SequencedEntry], dataset: &str) -> Vec<JudgedChange> {
    let mut judged = Vec::new();
    for SequencedEntry { entry, .. } in entries {
        let Some((change, kind)) = entry.kind.as_ref().and_then(|kind| Some((kind.alert_change()?, kind))) else {
            panic!("{entry:?} is of no alert");
        };
        if change.alert.id != history.first_rule().id {
            continue;
        }
        let progress = &change.progress;
        let revision = judged.len() as u64 + 1;
        assert_eq!(progress.revision, revision, "a change is twice in the log, or missing: {entry:?}");
        judged.push(JudgedChange {
            version: history.version_of(&change.alert).unwrap_or_else(|| panic!("{entry:?} is of another rule")),
            read: progress.reads.iter().find(|read| read.dataset == dataset).map_or(0, |read| read.seq),
            at: progress.at,
            value: change.value.expect("a count has a value"),
            fires: match kind {
                Kind::AlertFiring(_) => Some(true),
                Kind::AlertResolved(_) => Some(false),
                _ => None,
            },
            is_firing: progress.is_firing,
            waits_since: progress.waits_since,
        });
    }
    judged
}

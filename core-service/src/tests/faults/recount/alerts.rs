//! The recount of alerts: the log of alerts has each change of a rule's progress once, and lacks none.
//!
//! Each change names its time and the entries that its value counts. The recount counts the theses again at these
//! moments, and demands that no entry between them changes the progress too.

use std::collections::BTreeMap;

use super::alert_history::{AlertHistory, CountChange, JudgedChange, count_changes, histories, judged_changes};
use crate::domain::{alert::Alert, dataset::Dataset, entry::SequencedEntry};

/// Limits of the delays of cores that judge alerts, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::tests::faults) struct Delays {
    /// Time for which an entry may stay unread after its append. A rule that changes meanwhile may skip it.
    unread: i64,
    /// Time for which a new rule may stay unknown, and for which a changed one may.
    unknown: [i64; 2],
    /// Time for which a wait may go on beyond its end: one core may store a later time than another one has judged.
    late: i64,
}

impl Delays {
    /// One process after another.
    pub(in crate::tests::faults) const OF_PROCESSES: Self = Self { unread: 20_000, unknown: [0, 0], late: 0 };
    /// Random faults while rules are created, changed and deleted. One call of the store in 40 fails or ends the
    /// process, so several processes may end one after another before one reads a log or a rule. A minute is the
    /// longest time that leaves out no rule from before the mixture: `World::rest` makes them a minute old.
    pub(in crate::tests::faults) const OF_MIXTURE: Self = Self { unread: 60_000, unknown: [60_000; 2], late: 0 };
    /// Such faults of two cores at the same time.
    pub(in crate::tests::faults) const OF_CORES: Self = Self { late: 20_000, ..Self::OF_MIXTURE };
    /// Cores on a network with faults, but without any while rules are created. Their clocks differ.
    pub(in crate::tests::faults) const OF_NETWORK: Self =
        Self { unread: 40_000, unknown: [2_000, 40_000], late: 40_000 };
}

/// Compares the changes of all rules with those that follow from the logs of their theses.
pub(super) fn recount_alerts(
    control_log: &[(u64, bytes::Bytes)],
    all: &[(Dataset, Vec<SequencedEntry>)],
    now: i64,
    delays: Delays,
) {
    let log = |dataset: &Dataset| {
        let found = all.iter().find(|(of, _)| of == dataset);
        found.map(|(_, entries)| entries.as_slice()).unwrap_or_default()
    };
    for history in histories(control_log).into_values() {
        let rule = history.first_rule();
        // The order of entries in two logs is not known.
        let datasets = rule.counted();
        let counted = datasets.datasets().iter().map(|dataset| (dataset.name(), count_changes(rule, log(dataset))));
        let mut counted = counted.filter(|(_, changes)| !changes.is_empty());
        let (dataset, changes) = counted.next().unwrap_or_default();
        assert!(counted.next().is_none(), "theses on the token are in two logs: {rule:?}");
        let judged = judged_changes(&history, log(&rule.dataset()), dataset);
        let recount = AlertRecount { history: &history, changes: &changes, delays };
        if let Err(fault) = recount.check(&judged, now) {
            panic!("{fault}: {judged:?} of {history:?}, whose theses are {changes:?}");
        }
    }
}

/// The progress of a rule after a logged change, or before the first one.
#[derive(Clone, Debug, Default)]
struct LastProgress {
    /// Number of the version of the rule that judged it.
    version: usize,
    is_judged: bool,
    is_firing: bool,
    waits_since: Option<i64>,
    /// Number of the last entry that it counts.
    read: u64,
    at: i64,
}

impl LastProgress {
    /// True if the rule would leave the progress as it is at this value, apart from the end of a wait.
    fn is_settled(&self, rule: &Alert, value: f64) -> bool {
        (self.is_firing != is_active(rule, self.is_firing, value)) == self.waits_since.is_some()
    }

    /// The time at which the wait ends by this rule.
    fn due_at(&self, rule: &Alert) -> Option<i64> {
        Some(self.waits_since? + wait_ms(rule, self.is_firing))
    }

    /// Whether the rule fires, since when it waits, and its event, after it judged this value.
    fn judged(&self, rule: &Alert, value: f64, at: i64) -> (bool, Option<i64>, Option<bool>) {
        let active = is_active(rule, self.is_firing, value);
        if active == self.is_firing {
            return (active, None, None);
        }
        let since = self.waits_since.unwrap_or(at);
        if at - since >= wait_ms(rule, self.is_firing) {
            (active, None, Some(active))
        } else {
            (self.is_firing, Some(since), None)
        }
    }
}

/// True if a rule that fires should go on, or another one should begin.
fn is_active(rule: &Alert, is_firing: bool, value: f64) -> bool {
    let above = rule.above.expect("only such rules are recounted");
    value > if is_firing { rule.recover.unwrap_or(above) } else { above }
}

const fn wait_ms(rule: &Alert, is_firing: bool) -> i64 {
    if is_firing { rule.keep_firing_for_ms } else { rule.for_ms }
}

/// The recount of one rule.
struct AlertRecount<'a> {
    history: &'a AlertHistory,
    changes: &'a [CountChange],
    delays: Delays,
}

impl AlertRecount<'_> {
    fn check(&self, judged: &[JudgedChange], now: i64) -> Result<(), String> {
        let mut last = LastProgress::default();
        for change in judged {
            self.check_order(&last, change)?;
            self.check_between(&last, change.read, change.at)?;
            self.check_wait(&last, change.at)?;
            let rule = self.history.rule(change.version);
            let value = self.value(change.read, change.at);
            let expected = last.judged(rule, value, change.at);
            if (expected, value) != ((change.is_firing, change.waits_since, change.fires), change.value) {
                return Err(format!("{change:?} has to be {expected:?} at {value}"));
            }
            if (expected.0, expected.1) == (last.is_firing, last.waits_since) {
                return Err(format!("{change:?} changes nothing"));
            }
            last = LastProgress {
                version: change.version,
                is_judged: true,
                is_firing: change.is_firing,
                waits_since: change.waits_since,
                read: change.read,
                at: change.at,
            };
        }
        self.check_between(&last, u64::MAX, now)?;
        self.check_wait(&last, now)?;
        self.check_end(&last, now)
    }

    /// At the end nothing is left to judge by the last version of the rule, unless it was deleted.
    fn check_end(&self, last: &LastProgress, now: i64) -> Result<(), String> {
        let version = self.history.last_version();
        let rule = self.history.rule(version);
        if self.known_from(version) > now || self.history.end_of(version).is_some() {
            return Ok(());
        }
        if !last.is_settled(rule, self.value(u64::MAX, now)) || last.due_at(rule).is_some_and(|due_at| due_at < now) {
            return Err(format!("{last:?} is not the end"));
        }
        Ok(())
    }

    /// Progress does not go back, and no rule is judged before its time or long after its end.
    fn check_order(&self, last: &LastProgress, change: &JudgedChange) -> Result<(), String> {
        let rule = self.history.rule(change.version);
        let is_later = last.version <= change.version && last.read <= change.read && last.at <= change.at;
        let is_in_time = change.at >= rule.updated_at
            && self.history.end_of(change.version).is_none_or(|end| change.at <= end + self.delays.unread);
        let is_unread = |of: &&CountChange| of.seq > change.read && of.at < rule.updated_at - self.delays.unread;
        match self.changes.iter().find(is_unread) {
            Some(unread) => Err(format!("{change:?} does not count {unread:?}")),
            None if is_later && is_in_time => Ok(()),
            None => Err(format!("{change:?} comes at a wrong time after {last:?}")),
        }
    }

    /// Neither an entry behind the last progress and before this one nor a new version changes the progress.
    fn check_between(&self, last: &LastProgress, before: u64, until: i64) -> Result<(), String> {
        for version in last.version + usize::from(last.is_judged)..=self.history.last_version() {
            // A version is judged within this time.
            let times = [self.known_from(version), self.known_from(version) + self.delays.unread];
            let value = |time| self.value(self.seq_before(time).max(last.read), time);
            let is_settled = |time| last.is_settled(self.history.rule(version), value(time));
            if times[1] < until
                && self.version_at(times[0], last) == Some(version)
                && !times.into_iter().any(is_settled)
            {
                return Err(format!("no change follows version {version} on {last:?}"));
            }
        }
        for change in self.changes.iter().filter(|change| last.read < change.seq && change.seq < before) {
            let Some(version) = self.version_at(change.at, last) else { continue };
            let rule = self.history.rule(version);
            // A thesis may be counted later than it is read, because the clock of its core was ahead.
            let is_settled = |at| last.is_settled(rule, self.value(change.seq, at));
            if !is_settled(change.at) && !is_settled(until) {
                return Err(format!("no change follows {change:?} on {last:?}"));
            }
        }
        Ok(())
    }

    /// A wait ends when it is due, unless the rule changes.
    fn check_wait(&self, last: &LastProgress, until: i64) -> Result<(), String> {
        let due_at = last.due_at(self.history.rule(last.version));
        let end = self.history.end_of(last.version).map_or(until, |end| until.min(end - self.delays.unread));
        if due_at.is_some_and(|due_at| due_at + self.delays.late < end) {
            Err(format!("{last:?} ends too late"))
        } else {
            Ok(())
        }
    }

    /// The version of the rule that judges an entry of this time, if only one may.
    fn version_at(&self, at: i64, last: &LastProgress) -> Option<usize> {
        (last.version..=self.history.last_version()).find(|version| {
            let is_known = self.known_from(*version) <= at || (last.is_judged && *version == last.version);
            is_known && self.history.end_of(*version).is_none_or(|end| at < end - self.delays.unread)
        })
    }

    /// Number of the last entry before a time.
    fn seq_before(&self, time: i64) -> u64 {
        self.changes.iter().take_while(|change| change.at < time).last().map_or(0, |change| change.seq)
    }

    /// The time from which each core knows a version.
    fn known_from(&self, version: usize) -> i64 {
        self.history.begin_of(version) + self.delays.unknown[version.min(1)]
    }

    /// The number of theses at a moment. No thesis of a run becomes a day old.
    fn value(&self, read: u64, at: i64) -> f64 {
        let mut counted = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.seq <= read) {
            if change.is_added {
                counted.insert(&change.thesis, change.posted_at);
            } else {
                counted.remove(&change.thesis);
            }
        }
        f64::from(u32::try_from(counted.values().filter(|posted_at| **posted_at <= at).count()).unwrap())
    }
}

#[cfg(test)]
mod tests;

//! The latencies of the last minutes, for charts.

use std::collections::{BTreeMap, HashMap, VecDeque};

use thesis_net::status::{Buckets, MINUTE_MS};
use thesis_proto::{
    time::{from_millis, to_millis},
    v1,
};

use super::{Process, STALLED_MS};

/// Number of minutes.
const MINUTES: usize = 30;
/// Limit of different latencies: a process of another version may report others.
const MAX_SERIES: usize = 100;
/// Time into a minute after which every process has reported the minute before, in milliseconds.
const COMPLETE_MS: i64 = 5_000;

/// The role, the name and the class of a latency. The order is that of the status.
pub(super) type Series = (i32, String, String);

pub(super) fn series_of(report: &v1::LatencyReport) -> Series {
    (report.role, report.name.clone(), report.class.clone())
}

#[derive(Default)]
pub(super) struct History {
    /// The start of the last minute that was taken.
    taken: i64,
    minutes: BTreeMap<Series, VecDeque<v1::LatencyMinute>>,
}

impl History {
    /// Takes the minute that has ended, once all processes have reported it.
    pub(super) fn advance(&mut self, processes: &HashMap<String, Process>, now_ms: i64) {
        let start = (now_ms - COMPLETE_MS).div_euclid(MINUTE_MS) * MINUTE_MS - MINUTE_MS;
        if start <= self.taken {
            return;
        }
        self.taken = start;
        let mut sums: BTreeMap<Series, Buckets> = BTreeMap::new();
        let present = processes.values().filter(|process| process.silence_ms(now_ms) <= STALLED_MS);
        for report in present.flat_map(|process| &process.report.latencies) {
            let sum = sums.entry(series_of(report)).or_default();
            report.minute.iter().for_each(|minute| sum.add(minute));
        }
        for (series, sum) in sums.into_iter().take(MAX_SERIES) {
            let minutes = self.minutes.entry(series).or_default();
            minutes.push_back(v1::LatencyMinute {
                start: Some(from_millis(start)),
                count: i64::try_from(sum.count()).unwrap_or(i64::MAX),
                p50_ms: sum.quantile_ms(0.5),
                p99_ms: sum.quantile_ms(0.99),
            });
            if minutes.len() > MINUTES {
                minutes.pop_front();
            }
        }
        let oldest = Some(start - MINUTES as i64 * MINUTE_MS);
        let at = |minute: &v1::LatencyMinute| minute.start.as_ref().map(to_millis);
        self.minutes.retain(|_, minutes| minutes.back().and_then(at) > oldest);
    }

    /// The minutes of a latency, oldest first.
    pub(super) fn of(&self, series: &Series) -> Vec<v1::LatencyMinute> {
        self.minutes.get(series).into_iter().flatten().cloned().collect()
    }
}

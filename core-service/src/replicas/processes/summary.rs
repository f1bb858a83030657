//! The public status, put together from the reports of all processes.

use std::collections::{BTreeMap, HashMap};

use thesis_net::status::Buckets;
use thesis_proto::{names::PROCESS_ROLES, time::from_millis, v1};

use super::{
    Process,
    history::{History, Series, series_of},
};

/// The length of the window that reports cover, in seconds.
const WINDOW_SECONDS: i32 = 1_800;

pub(super) fn status(processes: &HashMap<String, Process>, history: &History, now_ms: i64) -> v1::ServiceStatus {
    let roles: Vec<_> = PROCESS_ROLES.iter().filter_map(|(role, _)| role_status(processes, *role, now_ms)).collect();
    let recent: Vec<_> = processes.values().filter(|process| process.concerns(now_ms)).collect();
    let feed = recent.iter().filter(|process| process.state(now_ms) == v1::ProcessState::Ok);
    let feed = feed.filter_map(|process| Some((process.seen_at, process.report.feed?))).max_by_key(|(at, _)| *at);
    let feed = feed.map(|(_, feed)| feed);
    let mut state = roles.iter().map(v1::RoleStatus::state).max().unwrap_or(v1::ServiceState::Ok);
    if feed.is_some_and(|feed| feed.state() == v1::FeedState::Down) {
        state = state.max(v1::ServiceState::Degraded);
    }
    v1::ServiceStatus {
        generated_at: Some(from_millis(now_ms)),
        state: state.into(),
        window_seconds: WINDOW_SECONDS,
        roles,
        latencies: latencies(&recent, history),
        deliveries: Some(deliveries(&recent)),
        feed,
    }
}

/// The status of a role, if it has processes.
fn role_status(processes: &HashMap<String, Process>, role: v1::ProcessRole, now_ms: i64) -> Option<v1::RoleStatus> {
    let mut own: Vec<_> = processes.values().filter(|process| process.report.roles.contains(&role.into())).collect();
    own.sort_by(|one, other| one.report.process.cmp(&other.report.process));
    let works = |process: &&Process| process.state(now_ms) == v1::ProcessState::Ok;
    let state = if !own.iter().any(works) {
        v1::ServiceState::Down
    } else if own.iter().any(|process| process.concerns(now_ms) && !works(process)) {
        v1::ServiceState::Degraded
    } else {
        v1::ServiceState::Ok
    };
    let listed = own.iter().map(|process| v1::ProcessStatus {
        id: process.report.process.clone(),
        state: process.state(now_ms).into(),
        version: process.report.version.clone(),
        last_seen_at: Some(from_millis(process.seen_at)),
    });
    let processes: Vec<_> = listed.collect();
    (!processes.is_empty()).then(|| v1::RoleStatus { role: role.into(), state: state.into(), processes })
}

fn latencies(processes: &[&Process], history: &History) -> Vec<v1::LatencySummary> {
    let mut sums: BTreeMap<Series, Buckets> = BTreeMap::new();
    for report in processes.iter().flat_map(|process| &process.report.latencies) {
        let sum = sums.entry(series_of(report)).or_default();
        report.window.iter().for_each(|window| sum.add(window));
    }
    let summary = |(series, sum): (Series, Buckets)| {
        let timeline = history.of(&series);
        let (role, name, class) = series;
        v1::LatencySummary {
            role,
            name,
            class: (!class.is_empty()).then_some(class),
            count: i64::try_from(sum.count()).unwrap_or(i64::MAX),
            p50_ms: sum.quantile_ms(0.5),
            p90_ms: sum.quantile_ms(0.9),
            p99_ms: sum.quantile_ms(0.99),
            timeline,
        }
    };
    sums.into_iter().map(summary).collect()
}

fn deliveries(processes: &[&Process]) -> v1::DeliverySummary {
    let mut sum = v1::DeliverySummary::default();
    for counts in processes.iter().filter_map(|process| process.report.deliveries.as_ref()) {
        sum.delivered = sum.delivered.saturating_add(counts.delivered);
        sum.retrying = sum.retrying.saturating_add(counts.retrying);
        sum.failed = sum.failed.saturating_add(counts.failed);
    }
    let ended = sum.delivered.saturating_add(sum.failed);
    sum.success_ratio = (ended > 0).then(|| sum.delivered as f64 / ended as f64);
    sum
}

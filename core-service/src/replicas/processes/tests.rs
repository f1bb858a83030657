use thesis_proto::v1::{
    BucketCounts, FeedState, LatencyReport, ProcessRole, ProcessState, ReportProcessRequest, ServiceState,
    ServiceStatus,
};

use super::*;

const START: i64 = 1_795_442_700_000;

fn report(process: &str, roles: &[ProcessRole]) -> ReportProcessRequest {
    ReportProcessRequest {
        process: process.to_owned(),
        roles: roles.iter().map(|role| (*role).into()).collect(),
        version: "1.0.0".to_owned(),
        ..ReportProcessRequest::default()
    }
}

fn counts(bucket: u32, count: u64) -> Option<BucketCounts> {
    Some(BucketCounts { buckets: vec![bucket], counts: vec![count] })
}

fn request_latency(window: u64, minute: u64) -> LatencyReport {
    LatencyReport {
        role: ProcessRole::Edge.into(),
        name: "request".to_owned(),
        class: "standard".to_owned(),
        window: counts(300, window),
        minute: counts(300, minute),
    }
}

/// A role with its state, and its processes with theirs.
type RoleStates<'a> = (ProcessRole, ServiceState, Vec<(&'a str, ProcessState)>);

fn states(status: &ServiceStatus) -> Vec<RoleStates<'_>> {
    let all = status.roles.iter().map(|row| {
        let processes = row.processes.iter().map(|process| (process.id.as_str(), process.state()));
        (row.role(), row.state(), processes.collect())
    });
    all.collect()
}

#[test]
fn a_process_without_reports_stalls_and_leaves() {
    let processes = Processes::default();
    let core = || report("proc_c", &[ProcessRole::Core]);
    let edges = || ["proc_b", "proc_a"].map(|id| report(id, &[ProcessRole::Edge]));
    processes.receive(core(), START);
    edges().into_iter().for_each(|edge| processes.receive(edge, START));
    let edge = |state, one, other| (ProcessRole::Edge, state, vec![("proc_a", one), ("proc_b", other)]);
    let core_is_ok = (ProcessRole::Core, ServiceState::Ok, vec![("proc_c", ProcessState::Ok)]);
    let healthy = processes.status(START);
    let expected = [edge(ServiceState::Ok, ProcessState::Ok, ProcessState::Ok), core_is_ok.clone()];
    assert_eq!(states(&healthy), expected);
    assert_eq!(healthy.state(), ServiceState::Ok);

    // One edge falls silent.
    let [_, speaking] = edges();
    let status_with_reports = |at| {
        processes.receive(core(), at);
        processes.receive(speaking.clone(), at);
        processes.status(at)
    };
    assert_eq!(status_with_reports(START + STALLED_MS).state(), ServiceState::Ok);
    let stalled = status_with_reports(START + STALLED_MS + CACHED_MS);
    let expected = [edge(ServiceState::Degraded, ProcessState::Ok, ProcessState::Stalled), core_is_ok.clone()];
    assert_eq!(states(&stalled), expected);
    assert_eq!(stalled.state(), ServiceState::Degraded);
    let replaced = status_with_reports(START + CONCERN_MS + 1);
    let expected = [edge(ServiceState::Ok, ProcessState::Ok, ProcessState::Stalled), core_is_ok.clone()];
    assert_eq!(states(&replaced), expected);
    let forgotten = status_with_reports(START + LISTED_MS + 1);
    let alone = (ProcessRole::Edge, ServiceState::Ok, vec![("proc_a", ProcessState::Ok)]);
    assert_eq!(states(&forgotten), [alone, core_is_ok.clone()]);

    // Then the other one.
    let later = START + 2 * LISTED_MS;
    processes.receive(core(), START + LISTED_MS + 10_000);
    let without = processes.status(START + LISTED_MS + 10_000);
    let down = (ProcessRole::Edge, ServiceState::Down, vec![("proc_a", ProcessState::Stalled)]);
    assert_eq!(states(&without), [down, core_is_ok.clone()]);
    assert_eq!(without.state(), ServiceState::Down);
    // One that leaves in order is gone at once.
    processes.receive(speaking.clone(), later);
    processes.receive(ReportProcessRequest { is_leaving: true, ..speaking }, later);
    processes.receive(core(), later);
    assert_eq!(states(&processes.status(later)), [core_is_ok]);
}

#[test]
fn a_process_that_cannot_serve_is_failing() {
    let processes = Processes::default();
    let all = [ProcessRole::Core, ProcessRole::Edge, ProcessRole::Worker];
    processes.receive(ReportProcessRequest { is_failing: true, ..report("proc_a", &all) }, START);
    let status = processes.status(START);
    let failing = |role| (role, ServiceState::Down, vec![("proc_a", ProcessState::Failing)]);
    assert_eq!(states(&status), [ProcessRole::Edge, ProcessRole::Core, ProcessRole::Worker].map(failing));
}

#[test]
fn a_status_is_at_most_a_second_old() {
    let processes = Processes::default();
    let listed = |at| processes.status(at).roles.len();
    assert_eq!(listed(START), 0);
    processes.receive(report("proc_a", &[ProcessRole::Core]), START);
    assert_eq!(listed(START + CACHED_MS - 1), 0);
    assert_eq!(listed(START + CACHED_MS), 1);
    processes.receive(report("proc_b", &[ProcessRole::Edge]), START);
    // A clock that is set back does not keep it for longer.
    assert_eq!(listed(START), 2);
}

#[test]
fn latencies_and_deliveries_of_all_processes_add_up() {
    let processes = Processes::default();
    let edge = |id: &str, count| {
        let (latencies, feed) = (vec![request_latency(count, count)], None);
        ReportProcessRequest { latencies, feed, ..report(id, &[ProcessRole::Edge]) }
    };
    let deliveries = |delivered, failed| {
        Some(v1::DeliverySummary { delivered, retrying: 1, failed, ..v1::DeliverySummary::default() })
    };
    let core =
        |id: &str, deliveries, feed| ReportProcessRequest { deliveries, feed, ..report(id, &[ProcessRole::Core]) };
    let feed = v1::FeedSummary { state: FeedState::Down.into(), lag_ms: Some(70) };
    processes.receive(edge("proc_a", 3), START);
    processes.receive(edge("proc_b", 4), START);
    processes.receive(core("proc_c", deliveries(2, 1), None), START);
    processes.receive(core("proc_d", deliveries(1, 0), Some(feed)), START);
    let status = processes.status(START);
    assert_eq!(status.state(), ServiceState::Degraded);
    assert_eq!(status.feed, Some(feed));
    let summed = v1::DeliverySummary { delivered: 3, retrying: 2, failed: 1, success_ratio: Some(0.75) };
    assert_eq!(status.deliveries, Some(summed));
    let [latency] = &*status.latencies else { panic!("{:?}", status.latencies) };
    assert_eq!((latency.count, latency.class.as_deref()), (7, Some("standard")));
    assert!(latency.p50_ms.is_some() && latency.p50_ms == latency.p99_ms, "{latency:?}");
}

#[test]
fn each_minute_gets_a_point_once_it_is_complete() {
    let processes = Processes::default();
    // START is the beginning of a minute.
    let report_minute = |at, minute| {
        let edge = ReportProcessRequest {
            latencies: vec![request_latency(9, minute)],
            ..report("proc_a", &[ProcessRole::Edge])
        };
        processes.receive(edge, at);
    };
    let points = |at| {
        let status = processes.status(at);
        status.latencies[0].timeline.iter().map(|minute| minute.count).collect::<Vec<_>>()
    };
    report_minute(START + 4_999, 1);
    report_minute(START + 5_000, 2);
    report_minute(START + 7_000, 3);
    // The first report takes the minute before the last one.
    assert_eq!(points(START + 7_000), [1, 2]);
    for minute in 1..40 {
        report_minute(START + minute * 60_000 + 6_000, 10 + u64::try_from(minute).unwrap());
    }
    let last = points(START + 39 * 60_000 + 6_000);
    assert_eq!((last.len(), last[0], last[29]), (30, 20, 49));
}

#[test]
fn the_number_of_processes_is_limited() {
    let processes = Processes::default();
    for number in 0..=MAX_PROCESSES {
        processes.receive(report(&format!("proc_{number}"), &[ProcessRole::Edge]), START + number as i64);
    }
    let status = processes.status(START + MAX_PROCESSES as i64);
    let listed: Vec<_> = status.roles[0].processes.iter().map(|process| process.id.as_str()).collect();
    assert_eq!(listed.len(), MAX_PROCESSES);
    assert!(!listed.contains(&"proc_0") && listed.contains(&"proc_1000"));
}

//! Alerts of a core that stops and starts again.

use std::time::Duration;

use thesis_net::clock::Clock as _;
use thesis_proto::v1;
use tokio::time::timeout;

use super::*;
use crate::{
    access::gate::RequestMeta,
    domain::{
        account::Actor, alert::AlertProgress, control::ControlChange, entry::Kind, operation::Operation,
        window::HOUR_MS,
    },
    operations::delete_alert::delete_alert,
    service::Core,
    store::SharedBackend,
    tables::alerts::progress,
    tests::harness::{LIVE_KEY, ManualClock, NOON, core, memory, new_thesis},
};

const SOON: Duration = Duration::from_secs(20);

async fn stop(core: Arc<Core>) {
    core.stop.cancel();
    core.tasks.close();
    timeout(SOON, core.tasks.wait()).await.unwrap();
}

/// Creates an alert over a token of the live dataset: it fires above two theses in an hour, and resolves at one.
async fn create(core: &Arc<Core>) -> Alert {
    let project = core.shared.control.state().projects().find(|project| project.live_approved).unwrap().id.clone();
    let alert = Alert {
        id: "al_1".to_owned(),
        project_id: project,
        live: true,
        token: new_thesis(&Dataset::Live, 0).token,
        metric: 2,
        above: Some(2.0),
        recover: Some(1.0),
        created_at: NOON,
        updated_at: NOON,
        ..Alert::default()
    };
    let changes = || vec![ControlChange::Alert(alert.clone())];
    let change = core.shared.control.change(Actor::service().does("alert.created"), |_| Ok((changes(), ())));
    change.await.unwrap();
    alert
}

async fn delete(core: &Arc<Core>, alert: &Alert) {
    let meta = RequestMeta { authorization: Some(format!("Bearer {LIVE_KEY}").into()), ..RequestMeta::default() };
    let call = core.gate.admit(meta, Operation::DeleteAlert).map_err(|refused| refused.error).unwrap();
    delete_alert(core, &call, v1::DeleteAlertRequest { id: alert.id.clone() }).await.unwrap();
}

/// The stored progress of an alert.
async fn stored(core: &Arc<Core>, alert: &Alert) -> AlertProgress {
    let mut found = progress(&core.shared.backend, alert.dataset().name(), &[alert.id.as_str()]).await.unwrap();
    found.pop().unwrap()
}

/// Posts a thesis on the token now.
async fn post(core: &Arc<Core>, clock: &Arc<ManualClock>, number: u32) {
    let mut new = new_thesis(&Dataset::Live, 2 * number);
    new.thesis.created_at = clock.now_ms();
    core.datasets.create_here(&Dataset::Live, new).await.unwrap();
}

/// The first events of an alert, once there are as many: whether it fired, the value, and the time of the crossing.
async fn events(core: &Arc<Core>, alert: &Alert, number: u64) -> Vec<(bool, Option<f64>, i64)> {
    let dataset = alert.dataset();
    let mut position = core.datasets.position(&dataset).await.unwrap();
    timeout(SOON, position.wait_for(|position| *position >= number)).await.unwrap().unwrap();
    let upto = core.datasets.refresh(&dataset).await.unwrap();
    let entries = core.shared.log.entries(dataset.name(), 0, upto).await.unwrap();
    let event = |kind: &Kind| {
        let change = kind.alert_change().unwrap();
        (matches!(kind, Kind::AlertFiring(_)), change.value, change.progress.at)
    };
    entries.iter().map(|sequenced| event(sequenced.entry.kind.as_ref().unwrap())).collect()
}

async fn start(backend: &SharedBackend, clock: &Arc<ManualClock>, replica: u64) -> Arc<Core> {
    core(Arc::clone(backend), clock, replica).await
}

#[tokio::test]
async fn a_crossing_while_no_core_runs_is_reported_once() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let first = start(&backend, &clock, 1).await;
    let alert = create(&first).await;
    for number in 0..3 {
        clock.advance(i64::from(number.min(1)) * 1_000);
        post(&first, &clock, number).await;
    }
    let fired = (true, Some(3.0), NOON + 2_000);
    assert_eq!(events(&first, &alert, 1).await, [fired]);
    stop(first).await;

    // Two theses leave the hour one after the other.
    clock.advance(1_000 + 2 * HOUR_MS);
    let second = start(&backend, &clock, 2).await;
    let resolved = (false, Some(1.0), NOON + HOUR_MS + 1_000);
    assert_eq!(events(&second, &alert, 2).await, [fired, resolved]);
    stop(second).await;

    let third = start(&backend, &clock, 3).await;
    let at = NOON + 3_000 + 2 * HOUR_MS;
    for number in 3..6 {
        post(&third, &clock, number).await;
    }
    assert_eq!(events(&third, &alert, 3).await, [fired, resolved, (true, Some(3.0), at)]);
    stop(third).await;
}

#[tokio::test]
async fn a_deleted_alert_reports_nothing_and_has_no_progress() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let running = start(&backend, &clock, 1).await;
    let alert = create(&running).await;
    for number in 0..3 {
        post(&running, &clock, number).await;
    }
    assert_eq!(events(&running, &alert, 1).await.len(), 1);
    assert!(stored(&running, &alert).await.is_firing);
    delete(&running, &alert).await;
    assert!(!is_needed(&running.shared, &running.peers, true));
    stop(Arc::clone(&running)).await;
    assert_eq!(stored(&running, &alert).await, AlertProgress::default());
    clock.advance(2 * HOUR_MS);
    let again = start(&backend, &clock, 2).await;
    assert_eq!(events(&again, &alert, 1).await.len(), 1);
    stop(again).await;
}

#[tokio::test]
async fn a_refused_change_is_a_failure_unless_the_alert_was_deleted() {
    let clock = ManualClock::new();
    let running = start(&memory(&clock), &clock, 1).await;
    let alert = create(&running).await;
    let judge = Judge::begin(Arc::clone(&running.shared), Arc::clone(&running.datasets), true).await.unwrap();
    let append = async || {
        let progress = AlertProgress { revision: 3, ..AlertProgress::default() };
        judge.append(AlertChange { alert: alert.clone(), progress, value: None }, Crossing::None).await
    };
    assert!(append().await.is_err(), "another core has judged it");
    delete(&running, &alert).await;
    append().await.unwrap();
    stop(running).await;
}

#[tokio::test]
async fn a_log_takes_a_revision_once() {
    let clock = ManualClock::new();
    let running = start(&memory(&clock), &clock, 1).await;
    let alert = Alert { id: "al_2".to_owned(), project_id: "prj_2".to_owned(), ..Alert::default() };
    let change = |revision| {
        let progress = AlertProgress { revision, ..AlertProgress::default() };
        AlertChange { alert: alert.clone(), progress, value: Some(1.0) }
    };
    let dataset = alert.dataset();
    let append = async |revision| {
        running.datasets.change_alert_here(&dataset, change(revision), Crossing::Firing).await.unwrap()
    };
    assert!(!append(2).await, "the first one is missing");
    assert!(append(1).await);
    assert!(!append(1).await, "the log has it");
    assert!(append(2).await);
    stop(running).await;
}

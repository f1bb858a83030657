//! Deliveries that one core matches and another one creates and hands out.

use std::collections::BTreeSet;

use thesis_proto::v1::{EventType, WebhookStatus};
use tokio::sync::mpsc;

use super::*;
use crate::{
    delivery::dispatch::{ClaimedAttempt, WorkerPlace},
    domain::control::{ControlChange, Project, Webhook},
    keys::key_ring::SealPurpose,
    log::fan_out::FAN_OUT,
    tables::queue::SHARDS,
};

const WEBHOOKS: usize = 30;

/// Creates webhooks that get the theses of a project's dataset.
async fn create_webhooks(core: &Core, dataset: &Dataset, count: usize) {
    let project_id = dataset.project_id().unwrap().to_owned();
    let organization_id = core.shared.control.state().organizations().next().unwrap().id.clone();
    let name = project_id.clone();
    let project = Project { id: project_id.clone(), organization_id, name, ..Project::default() };
    let mut changes = vec![ControlChange::Project(project)];
    for number in 0..count {
        let id = crate::domain::id::derive("wh_", &[&number.to_string()]);
        changes.push(ControlChange::Webhook(Webhook {
            secret: core.shared.keys.seal(SealPurpose::WebhookSecret(&id), b"whsec_x"),
            id,
            project_id: project_id.clone(),
            url: "https://hook.example.com/".to_owned(),
            events: vec![EventType::ThesisCreated.into()],
            status: WebhookStatus::Enabled.into(),
            created_at: core.shared.clock.now_ms(),
            ..Webhook::default()
        }));
    }
    let act = Actor::service().does("test");
    for some in changes.chunks(100) {
        core.shared.control.change(act.clone(), |_| Ok((some.to_vec(), ()))).await.unwrap();
    }
}

/// Waits until a core has the leases of all shards, and another core knows it.
async fn hands_out_all(core: &Core, seen_by: &Core) {
    until("it hands out all shards", async || {
        let cores = seen_by.peers.shard_cores();
        let is_chosen = !cores.is_empty() && cores.iter().all(|chosen| *chosen == core.shared.replica);
        is_chosen && core.dispatcher.queue_metrics().shards == usize::try_from(SHARDS).unwrap()
    })
    .await;
}

/// Links two cores. The first one owns the log of the returned dataset, which has webhooks, and the second one hands out
/// all their attempts, to the returned worker.
async fn share_deliveries(
    one: &Server,
    other: &Server,
    webhooks: usize,
) -> (Dataset, WorkerPlace, mpsc::Receiver<ClaimedAttempt>) {
    linked(&[one, other]).await;
    let dataset = owned_by(one);
    create_webhooks(&one.core, &dataset, webhooks).await;
    let (place, claims) = other.core.dispatcher.join(100);
    hands_out_all(&other.core, &one.core).await;
    (dataset, place, claims)
}

/// Posts a thesis at the core that owns the dataset. Returns the id of its event.
async fn post(core: &Core, dataset: &Dataset, number: u32) -> String {
    core.datasets.create_thesis(dataset, new_thesis(dataset, number)).await.unwrap().entry.id
}

/// Receives an attempt of each event to each webhook, and no other.
async fn receive_all(claims: &mut mpsc::Receiver<ClaimedAttempt>, events: &[&str]) {
    let mut received = BTreeSet::new();
    while received.len() < events.len() * WEBHOOKS {
        let claimed = timeout(SOON, claims.recv()).await.unwrap().unwrap();
        assert!(events.contains(&&*claimed.delivery.event_id));
        let attempt = (claimed.delivery.event_id.clone(), claimed.webhook.id.clone());
        assert!(received.insert(attempt), "sent twice");
    }
}

async fn fanned_out(core: &Core, dataset: &Dataset) -> u64 {
    core.shared.log.checkpoint(dataset.name(), FAN_OUT).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_core_that_hands_deliveries_out_creates_them() {
    let backend = backend();
    let beside = backend.beside();
    let (one, other) = (start(backend.clone(), 1).await, start(beside.clone(), 2).await);
    let (dataset, _place, mut claims) = share_deliveries(&one, &other, WEBHOOKS).await;
    let before = (backend.applied(&schema::DELIVERY), beside.applied(&schema::DELIVERY));
    let events = [post(&one.core, &dataset, 1).await, post(&one.core, &dataset, 2).await];
    receive_all(&mut claims, &[&events[0], &events[1]]).await;
    assert_eq!(backend.applied(&schema::DELIVERY), before.0);
    assert_eq!(beside.applied(&schema::DELIVERY), before.1 + 2 * 2 * WEBHOOKS, "a delivery has two rows");
    until("the position is stored", async || fanned_out(&one.core, &dataset).await >= 2).await;
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_that_another_core_does_not_confirm_are_created_here() {
    let backend = backend();
    let one = start_unanswered(backend.clone(), 1).await;
    let other = start(backend.clone(), 2).await;
    let (dataset, _place, mut claims) = share_deliveries(&one, &other, WEBHOOKS).await;
    let begun = Instant::now();
    let first = post(&one.core, &dataset, 1).await;
    sleep(CREATION_TIMEOUT / 4).await;
    assert_eq!(fanned_out(&one.core, &dataset).await, 0, "nobody has confirmed the deliveries");
    receive_all(&mut claims, &[&first]).await;
    assert!(begun.elapsed() >= CREATION_TIMEOUT);
    until("the position is stored", async || fanned_out(&one.core, &dataset).await >= 1).await;
    // For a while the core is left out.
    let begun = Instant::now();
    let second = post(&one.core, &dataset, 2).await;
    receive_all(&mut claims, &[&second]).await;
    assert!(begun.elapsed() < CREATION_TIMEOUT, "{:?}", begun.elapsed());
    assert!(claims.try_recv().is_err());
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_core_holds_up_many_deliveries_once() {
    let backend = backend();
    let one = start_unanswered(backend.clone(), 1).await;
    let other = start(backend.clone(), 2).await;
    // These webhooks are more than three requests have.
    let (dataset, _place, _claims) = share_deliveries(&one, &other, 1_600).await;
    let begun = Instant::now();
    post(&one.core, &dataset, 1).await;
    until("the position is stored", async || fanned_out(&one.core, &dataset).await >= 1).await;
    assert!(begun.elapsed() < 3 * CREATION_TIMEOUT, "{:?}", begun.elapsed());
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_core_was_given_is_sent_by_the_next_one() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    let (dataset, _place, mut claims) = share_deliveries(&one, &other, WEBHOOKS).await;
    let first = post(&one.core, &dataset, 1).await;
    receive_all(&mut claims, &[&first]).await;
    // None of these attempts is reported.
    other.kill();
    let second = post(&one.core, &dataset, 2).await;
    let (_place, mut claims) = one.core.dispatcher.join(100);
    receive_all(&mut claims, &[&first, &second]).await;
    one.kill();
}

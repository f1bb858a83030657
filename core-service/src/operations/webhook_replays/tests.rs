use bytes::Bytes;
use thesis_proto::{error::ErrorCode, time::from_millis, v1};
use tokio::time::timeout;

use super::*;
use crate::{
    access::{
        gate::{Call, RequestMeta},
        limits::SENDS_PER_MINUTE,
    },
    domain::{
        account::Actor,
        control::{ControlChange, Webhook},
        delivery::{Attempt, EventRef, Status, delivery_id},
        operation::Operation,
        window::MINUTE_MS,
    },
    key,
    operations::{get_webhook_insight::get_webhook_insight, start_webhook_replay::start_webhook_replay},
    store::{ConditionalWrite, Expect, SharedBackend, Transaction, schema::WEBHOOK_REPLAY},
    tables::{deliveries::DeliveryChange, queue::shard_of},
    tests::harness::{ManualClock, NOON, TEST_KEY, core, damage_delivery, memory, shared_memory},
};

const WEBHOOK: &str = "wh_1";
/// Failed deliveries since the time of the replay.
const FAILED: usize = 130;
/// The replay asks for deliveries since then.
const SINCE: i64 = NOON - 1_000 * MINUTE_MS;

async fn change(core: &Core, change: ControlChange) {
    let control = &core.shared.control;
    control.change(Actor::service().does("test"), |_| Ok((vec![change.clone()], ()))).await.unwrap();
}

/// A core with a webhook.
async fn started(backend: SharedBackend, clock: &Arc<ManualClock>) -> Arc<Core> {
    let core = core(backend, clock, 1).await;
    let project_id = core.shared.control.state().projects().next().unwrap().id.clone();
    let webhook = Webhook { id: WEBHOOK.to_owned(), project_id, status: Webhook::ENABLED, ..Webhook::default() };
    change(&core, ControlChange::Webhook(webhook)).await;
    core
}

async fn create(core: &Core, delivery: Delivery, response_status: Option<i32>) {
    let deliveries = &core.shared.deliveries;
    deliveries.create(&[&delivery], NOON).await.unwrap();
    let Some(status) = response_status else { return };
    let after = delivery.after(Attempt { number: 1, response_status: Some(status), ..Attempt::default() }, NOON);
    let change = DeliveryChange { before: delivery, after, epoch: 1 };
    for advanced in deliveries.advance(&[change], NOON).await.unwrap() {
        advanced.unwrap();
    }
}

fn pending(created_at: i64) -> Delivery {
    let id = delivery_id(WEBHOOK, created_at, &["original"]);
    Delivery::pending(id, WEBHOOK.to_owned(), created_at, EventRef::default())
}

/// Deliveries of which [`FAILED`] are to be sent again, and the ids of these.
async fn prepare(core: &Core) -> Vec<String> {
    let mut wanted = Vec::new();
    for number in 0..FAILED {
        let failed = pending(NOON - i64::try_from(number + 1).unwrap() * 7 * MINUTE_MS);
        wanted.push(failed.id.clone());
        create(core, failed, Some(410)).await;
    }
    for (age, status) in [(1, Some(200)), (2, Some(500)), (3, None), (1_001, Some(410)), (-1, Some(410))] {
        create(core, pending(NOON - age * MINUTE_MS), status).await;
    }
    create(core, Delivery { is_test: true, ..pending(NOON - 4 * MINUTE_MS) }, Some(410)).await;
    create(core, Delivery { replay_of: Some(String::new()), ..pending(NOON - 5 * MINUTE_MS) }, Some(410)).await;
    wanted.sort();
    wanted
}

fn new_replay() -> WebhookReplay {
    WebhookReplay {
        id: "rpl_1".to_owned(),
        since: SINCE,
        status: Status::Failed.into(),
        created_at: NOON,
        after_at: NOON,
        step_at: NOON,
        ..WebhookReplay::default()
    }
}

/// The originals of all replays, each as often as it is sent again.
async fn replayed(core: &Core) -> Vec<String> {
    let now_ms = core.shared.clock.now_ms();
    let page = core.shared.deliveries.page(WEBHOOK, None, now_ms, 10_000).await.unwrap();
    let originals = page.into_iter().filter_map(|(_, delivery)| delivery?.replay_of);
    let mut originals: Vec<String> = originals.filter(|original| !original.is_empty()).collect();
    originals.sort();
    originals
}

async fn stored(core: &Core) -> StoredReplay {
    let (version, replay) = rows::read(&core.shared.backend, WEBHOOK, Consistency::Serial).await.unwrap().unwrap();
    (version, replay.unwrap())
}

/// Stores a row of a webhook that cannot be read.
async fn store_damaged(backend: &SharedBackend, webhook: &str) {
    let body = Some(Bytes::from_static(b"\xff"));
    let write = ConditionalWrite { clustering: key![webhook], expect: Expect::Absent, version: 1, body };
    let partition = key![shard_of(webhook)];
    let write = Transaction { table: &WEBHOOK_REPLAY, partition, writes: vec![write], ttl: None };
    assert!(backend.transact(write).await.unwrap());
}

fn admit(core: &Core, operation: Operation) -> Call {
    let meta = RequestMeta { authorization: Some(format!("Bearer {TEST_KEY}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, operation).map_err(|refused| refused.error).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_step_creates_the_same_deliveries() {
    let clock = ManualClock::new();
    let core = started(shared_memory(&clock), &clock).await;
    let wanted = prepare(&core).await;
    let mut replay = new_replay();
    let mut version = rows::write(&core.shared.backend, WEBHOOK, None, &replay).await.unwrap().unwrap();
    while replay.finished_at.is_none() {
        // As by a core that dies before it has stored the step: another version is stored.
        assert!(step(&core, WEBHOOK, version + 1, &replay).await.unwrap().is_none());
        let created = replayed(&core).await;
        clock.advance(60_000);
        let next = step(&core, WEBHOOK, version, &replay).await.unwrap().unwrap();
        assert_eq!(replayed(&core).await, created);
        assert!(next.1.replayed - replay.replayed < (STEP_REPLAYS + PAGE) as i64);
        assert_eq!((next.1.replayed as usize, next.1.created_at), (created.len(), NOON));
        (version, replay) = next;
    }
    assert_eq!(replayed(&core).await, wanted);
    assert_eq!((replay.finished_at, stored(&core).await), (Some(replay.step_at), (version, replay.clone())));
}

#[tokio::test(start_paused = true)]
async fn a_replay_sends_50_deliveries_a_second() {
    let clock = ManualClock::new();
    let core = started(shared_memory(&clock), &clock).await;
    let wanted = prepare(&core).await;
    let version = rows::write(&core.shared.backend, WEBHOOK, None, &new_replay()).await.unwrap().unwrap();
    let began = Instant::now();
    let due = || usize::try_from(began.elapsed().as_millis() * 50 / 1_000).unwrap();
    let running = spawn(&core, WEBHOOK.to_owned(), (version, new_replay()));
    while !running.is_finished() {
        let created = replayed(&core).await.len();
        assert!(created < due() + STEP_REPLAYS + PAGE, "{created} after {:?}", began.elapsed());
        sleep(PACE).await;
    }
    assert_eq!(replayed(&core).await, wanted);
    assert!(due() >= FAILED, "{FAILED} after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_replay_counts_as_one_send_however_many_it_sends() {
    let clock = ManualClock::new();
    let core = started(shared_memory(&clock), &clock).await;
    prepare(&core).await;
    let meta = RequestMeta { authorization: Some(format!("Bearer {TEST_KEY}").into()), ..RequestMeta::default() };
    let call = core.gate.admit(meta, Operation::StartWebhookReplay).map_err(|refused| refused.error).unwrap();
    let since = Some(from_millis(SINCE));
    let request = v1::StartWebhookReplayRequest { id: WEBHOOK.to_owned(), since, ..Default::default() };
    start_webhook_replay(&core, &call, request.clone()).await.unwrap();
    let refused = start_webhook_replay(&core, &call, request).await.unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::DeliveryInProgress);
    let finished = async {
        loop {
            let (_, replay) = stored(&core).await;
            if replay.finished_at.is_some() {
                return replay.replayed;
            }
            sleep(MIN_PAUSE).await;
        }
    };
    assert_eq!(timeout(Duration::from_mins(1), finished).await.unwrap(), FAILED as i64);
    for _ in 1..SENDS_PER_MINUTE {
        call.take_send().unwrap();
    }
    assert!(call.take_send().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_damaged_delivery_is_examined_and_left_out() {
    let clock = ManualClock::new();
    let core = started(shared_memory(&clock), &clock).await;
    let mut wanted = prepare(&core).await;
    damage_delivery(&core.shared.backend, &wanted.remove(FAILED / 2)).await;
    let mut replay = new_replay();
    let mut version = rows::write(&core.shared.backend, WEBHOOK, None, &replay).await.unwrap().unwrap();
    while replay.finished_at.is_none() {
        (version, replay) = step(&core, WEBHOOK, version, &replay).await.unwrap().unwrap();
    }
    assert_eq!(replayed(&core).await, wanted);
    assert_eq!(replay.replayed, i64::try_from(FAILED).unwrap() - 1);
}

#[tokio::test]
async fn a_damaged_replay_holds_up_no_other() {
    let backend = memory(&ManualClock::new());
    rows::write(&backend, WEBHOOK, None, &new_replay()).await.unwrap().unwrap();
    let shard = shard_of(WEBHOOK);
    let damaged = (0..10_000).map(|number| format!("wh_0{number}")).find(|webhook| shard_of(webhook) == shard).unwrap();
    store_damaged(&backend, &damaged).await;
    let unfinished = rows::unfinished(&backend, &[shard]).await.unwrap();
    assert_eq!(unfinished, [[(WEBHOOK.to_owned(), (1, new_replay()))]]);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_replay_is_not_shown_and_gives_way_to_another() {
    let clock = ManualClock::new();
    let core = started(memory(&clock), &clock).await;
    store_damaged(&core.shared.backend, WEBHOOK).await;
    let message = v1::GetWebhookInsightRequest { id: WEBHOOK.to_owned() };
    let shown = get_webhook_insight(&core, &admit(&core, Operation::GetWebhookInsight), message).await.unwrap();
    assert_eq!(shown.insight.unwrap().replay, None);
    let since = Some(from_millis(SINCE));
    let message =
        v1::StartWebhookReplayRequest { id: WEBHOOK.to_owned(), since, ..v1::StartWebhookReplayRequest::default() };
    let begun = start_webhook_replay(&core, &admit(&core, Operation::StartWebhookReplay), message).await.unwrap();
    assert_eq!(stored(&core).await.1.id, begun.replay.unwrap().id);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_nobody_takes_on_is_adopted() {
    let clock = ManualClock::new();
    let core = started(memory(&clock), &clock).await;
    let wanted = prepare(&core).await;
    rows::write(&core.shared.backend, WEBHOOK, None, &new_replay()).await.unwrap().unwrap();
    let failing = tokio::spawn(std::future::pending());
    let failing_id = failing.id();
    let mut adopter = Adopter::default();
    clock.advance(ABANDONED_MS - 1);
    adopter.adopt(&core, ABANDONED_MS).await.unwrap();
    assert!(adopter.running.is_empty(), "another core may still work on it");
    clock.advance(1);
    adopter.running.insert(WEBHOOK.to_owned(), failing);
    adopter.adopt(&core, ABANDONED_MS).await.unwrap();
    assert_eq!(adopter.running[WEBHOOK].id(), failing_id, "one whose steps fail is not adopted again");
    Adopter::default().adopt(&core, ABANDONED_MS).await.unwrap();
    for _ in 0..10_000 {
        if stored(&core).await.1.finished_at.is_some() {
            assert_eq!(replayed(&core).await, wanted);
            return;
        }
        sleep(MIN_PAUSE).await;
    }
    panic!("the replay was not done");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_a_webhook_that_is_gone() {
    let clock = ManualClock::new();
    let core = started(shared_memory(&clock), &clock).await;
    prepare(&core).await;
    change(&core, ControlChange::WebhookDeleted(WEBHOOK.to_owned())).await;
    let version = rows::write(&core.shared.backend, WEBHOOK, None, &new_replay()).await.unwrap().unwrap();
    let (_, ended) = step(&core, WEBHOOK, version, &new_replay()).await.unwrap().unwrap();
    assert_eq!((ended.finished_at, ended.replayed), (Some(NOON), 0));
    assert!(replayed(&core).await.is_empty());
}

//! Reports that meet faults, and queue rows without a notification to the dispatcher.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use thesis_net::services::Trusted;
use thesis_proto::v1::{
    AttemptReport, AttemptResponse, ReportRequest, attempt_report::Outcome,
    delivery_service_server::DeliveryService as _,
};
use tonic::Request;

use super::{shares::steal, *};
use crate::{
    grpc::Api,
    tables::{
        delivery_rows,
        queue::{MarkSelection, minute_of},
    },
    tests::harness::{damage_delivery, give_up},
};

/// A webhook, two attempts that are out, and a report of each.
async fn two_reported(bench: &mut Bench) -> ([String; 2], Vec<EndedAttempt>, WorkerPlace) {
    bench.webhook("wh_1").await;
    let (place, mut claims) = bench.core.dispatcher.join(8);
    let (mut events, mut reports) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        events.push(bench.post().await);
        let delivery = claims.recv().await.unwrap().delivery.id.clone();
        let attempt = Attempt { number: 1, response_status: Some(500), ..Attempt::default() };
        reports.push(EndedAttempt { delivery, attempt });
    }
    (events.try_into().unwrap(), reports, place)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_loses_no_other_report() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(Arc::<SharedMemory>::clone(&backend), clock).await;
    bench.webhook("wh_1").await;
    // Each is in a partition of its own.
    let mut events = Vec::new();
    for _ in 0..3 {
        let event = bench.post().await;
        bench.becomes(&event, "wh_1", Status::Pending).await;
        events.push(event);
        bench.clock.advance(300_000);
    }
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let (mut reports, mut refused) = (Vec::new(), Vec::new());
    for _ in &events {
        let Delivery { id, event_id, .. } = Delivery::clone(&claims.recv().await.unwrap().delivery);
        if event_id == events[1] {
            refused = delivery_rows::key_of(&id)[..schema::DELIVERY.partition.len()].to_vec();
        }
        let attempt = Attempt { number: 1, response_status: Some(500), ..Attempt::default() };
        reports.push(EndedAttempt { delivery: id, attempt });
    }
    backend.refuse_changes(Some(&refused));
    assert!(bench.core.dispatcher.report(reports.clone()).await.is_err());
    for (event, attempts) in events.iter().zip([1, 0, 1]) {
        assert_eq!(bench.delivery(event, "wh_1").await.attempt_count(), attempts);
    }
    backend.refuse_changes(None);
    bench.core.dispatcher.report(reports).await.unwrap();
    for event in &events {
        assert_eq!(bench.delivery(event, "wh_1").await.attempt_count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn two_reports_of_an_attempt_at_the_same_time_count_once() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(backend.clone(), clock).await;
    let ([event, _], reports, _place) = two_reported(&mut bench).await;
    let report = || bench.core.dispatcher.report(vec![reports[0].clone()]);
    let standing = backend.hold().await;
    let mut first = std::pin::pin!(report());
    assert!(futures::poll!(first.as_mut()).is_pending(), "the store stands still");
    assert!(report().await.is_err(), "it has to be repeated");
    drop(standing);
    first.await.unwrap();
    report().await.unwrap();
    assert_eq!(bench.delivery(&event, "wh_1").await.attempt_count(), 1);
    let streak = bench.core.shared.deliveries.note_outcomes("wh_1", &[false], clock_now(&bench.core)).await.unwrap();
    assert_eq!(streak.failures, 2);
}

#[tokio::test(start_paused = true)]
async fn a_core_that_did_not_hand_an_attempt_out_counts_one_report_of_it_at_a_time() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(backend.clone(), Arc::clone(&clock)).await;
    let other = core(backend.clone(), &clock, 2).await;
    let ([event, _], reports, _place) = two_reported(&mut bench).await;
    let report = || other.dispatcher.report(vec![reports[0].clone()]);
    let standing = backend.hold().await;
    let mut first = std::pin::pin!(report());
    assert!(futures::poll!(first.as_mut()).is_pending(), "the store stands still");
    assert!(matches!(report().now_or_never(), Some(Err(_))), "it has to be repeated");
    drop(standing);
    first.await.unwrap();
    report().await.unwrap();
    assert_eq!(bench.delivery(&event, "wh_1").await.attempt_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_row_of_an_attempt_under_way_stays() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.post().await;
    let claimed = claims.recv().await.unwrap();
    // The write of a report that follows this row has failed.
    let due_at = clock_now(&bench.core) + 1_000;
    let key = delivery_rows::queue_key("wh_1", due_at, &claimed.delivery.id);
    let retry = Change { table: &schema::DELIVERY, key, version: 1, body: Some(Bytes::new()), ttl: None };
    bench.core.shared.backend.apply(vec![retry]).await.unwrap();
    bench.clock.advance(1_000);
    let queue = &bench.core.shared.deliveries.queue;
    let queued = async || queue.read("wh_1", &(due_at, String::new()), due_at, 10).await.unwrap().len();
    bench.core.shared.hints.add_queues([("wh_1".to_owned(), due_at)]);
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(queued().await, 1);
    bench.report(&claimed, 200).await;
    bench.core.shared.hints.add_queues([("wh_1".to_owned(), due_at)]);
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(queued().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_row_holds_up_no_other_report() {
    let (mut bench, other) = Bench::beside_another().await;
    let (_, reports, _place) = two_reported(&mut bench).await;
    damage_delivery(&bench.core.shared.backend, &reports[0].delivery).await;
    // A core that did not hand them out reads both rows.
    let intact = reports[1].delivery.clone();
    other.dispatcher.report(reports).await.unwrap();
    assert_eq!(other.shared.deliveries.get(&intact).await.unwrap().unwrap().attempt_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_row_of_a_queue_holds_up_no_other_row() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let now_ms = clock_now(&bench.core);
    let due_at = now_ms - 1;
    let key = delivery_rows::queue_key("wh_1", due_at, "dlv_damaged");
    let body = Some(Bytes::from_static(b"\xff"));
    let damaged = Change { table: &schema::DELIVERY, key, version: due_at, body, ttl: None };
    bench.core.shared.backend.apply(vec![damaged]).await.unwrap();
    let event = bench.post().await;
    bench.becomes(&event, "wh_1", Status::Pending).await;
    bench.core.shared.hints.add_queues([("wh_1".to_owned(), now_ms - 1)]);
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    assert_eq!(bench.next_claim(&mut claims).await.delivery.event_id, event);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_row_holds_up_no_other_delivery_of_its_webhook() {
    let mut bench = Bench::new().await;
    let ([_, intact], reports, place) = two_reported(&mut bench).await;
    bench.core.dispatcher.report(reports.clone()).await.unwrap();
    damage_delivery(&bench.core.shared.backend, &reports[0].delivery).await;
    drop(place);
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.clock.advance(60_000);
    assert_eq!(bench.next_claim(&mut claims).await.delivery.event_id, intact);
    assert!(bench.stays_away(&mut claims).await);
}

#[tokio::test(start_paused = true)]
async fn a_late_repeat_leaves_the_next_attempt_under_way() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    let first = claims.recv().await.unwrap();
    bench.report(&first, 500).await;
    bench.clock.advance(60_000);
    let second = bench.next_claim(&mut claims).await;
    bench.report(&first, 500).await;
    assert!(bench.stays_away(&mut claims).await, "sent twice after a report");
    bench.core.dispatcher.release_claim(&first.delivery.id, 1);
    assert!(bench.stays_away(&mut claims).await, "sent twice after a release");
    bench.report(&second, 200).await;
    let delivery = bench.delivery(&event, "wh_1").await;
    assert_eq!((delivery.status(), delivery.attempt_count()), (Status::Delivered, 2));
}

#[tokio::test(start_paused = true)]
async fn a_success_counts_once_the_streak_before_it_has_ended() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(backend.clone(), clock).await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 500).await;
    let event = bench.post().await;
    let claimed = claims.recv().await.unwrap();
    let attempt = Attempt { number: 1, response_status: Some(200), ..Attempt::default() };
    let report = EndedAttempt { delivery: claimed.delivery.id.clone(), attempt };
    // The writes of the webhook's streak fail.
    backend.refuse(Some("wh_1".to_owned()));
    assert!(bench.core.dispatcher.report(vec![report.clone()]).await.is_err());
    assert_eq!(bench.delivery(&event, "wh_1").await.status(), Status::Pending);
    backend.refuse(None);
    bench.core.dispatcher.report(vec![report]).await.unwrap();
    assert_eq!(bench.delivery(&event, "wh_1").await.status(), Status::Delivered);
    let streak = bench.core.shared.deliveries.note_outcomes("wh_1", &[false], clock_now(&bench.core)).await.unwrap();
    assert_eq!(streak.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_written_under_no_older_epoch_than_its_row() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    let before = Delivery::clone(&claims.recv().await.unwrap().delivery);
    let failed = |number| Attempt { number, response_status: Some(500), ..Attempt::default() };
    // A later owner has counted the first attempt and made the second.
    let now_ms = clock_now(&bench.core);
    let change = DeliveryChange { after: before.after(failed(1), now_ms), before: before.clone(), epoch: 7 };
    bench.core.shared.deliveries.advance(&[change], now_ms).await.unwrap().pop().unwrap().unwrap();
    let report = EndedAttempt { delivery: before.id, attempt: failed(2) };
    bench.core.dispatcher.report(vec![report]).await.unwrap();
    assert_eq!(bench.delivery(&event, "wh_1").await.attempt_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_an_attempt_from_before_another_owner_counts_in_no_streak() {
    let (mut bench, other) = Bench::beside_another().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.post().await;
    let claimed = claims.recv().await.unwrap();
    // Another core takes the shard by mistake, and has it until the heartbeats of this one have lapsed.
    let (shards, shard) = (&bench.core.dispatcher.shards, shard_of("wh_1"));
    steal(&other, shard, clock_now(&bench.core) + GONE_MS).await;
    bench.clock.advance(GONE_MS);
    let has_shard = async || shards.tenure(shard, clock_now(&bench.core)).is_some_and(|tenure| tenure.epoch == 3);
    bench.until(has_shard).await;
    bench.report(&claimed, 500).await;
    let streak = bench.core.shared.deliveries.note_outcomes("wh_1", &[false], clock_now(&bench.core)).await.unwrap();
    assert_eq!(streak.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_counts_although_its_worker_gives_up() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(backend.clone(), clock).await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    let delivery_id = claims.recv().await.unwrap().delivery.id.clone();
    let outcome = Some(Outcome::Response(AttemptResponse { status: 500, ..AttemptResponse::default() }));
    let report = AttemptReport { delivery_id, attempt: 1, outcome, ..AttemptReport::default() };
    let mut request = Request::new(ReportRequest { reports: vec![report] });
    request.extensions_mut().insert(Trusted::default());

    let standing = backend.hold().await;
    give_up(Api::new(&bench.core).report(request)).await;
    drop(standing);
    bench.becomes(&event, "wh_1", Status::Retrying).await;
    bench.clock.advance(60_000);
    assert_eq!(bench.next_claim(&mut claims).await.delivery.attempt_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_made_although_nobody_notified_the_dispatcher_of_their_rows() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.post().await;
    let before = Delivery::clone(&claims.recv().await.unwrap().delivery);
    bench.webhook("wh_2").await;
    let (deliveries, now_ms) = (&bench.core.shared.deliveries, clock_now(&bench.core));
    // A report and a replay whose work ends once the store has them.
    let attempt = Attempt { number: 1, response_status: Some(500), ..Attempt::default() };
    let retry = DeliveryChange { after: before.after(attempt, now_ms), before: before.clone(), epoch: 1 };
    assert!(matches!(deliveries.advance(&[retry], now_ms).await.unwrap().as_slice(), [Ok(())]));
    let replay = Delivery {
        id: delivery_id("wh_2", now_ms, &["replay"]),
        webhook_id: "wh_2".to_owned(),
        body: b"{}".to_vec(),
        replay_of: Some(before.id.clone()),
        ..before.clone()
    };
    deliveries.create(&[&replay], now_ms).await.unwrap();
    // The attempt that is out is given back without a report.
    bench.clock.advance(CLAIM_MS);
    assert!(bench.stays_away(&mut claims).await);
    bench.clock.advance(5 * 60_000);
    let sent = [bench.next_claim(&mut claims).await, bench.next_claim(&mut claims).await];
    let sent = sent.map(|claimed| (claimed.delivery.id.clone(), claimed.delivery.attempt_count()));
    assert_eq!(BTreeSet::from(sent), BTreeSet::from([(before.id, 1), (replay.id, 0)]));
    assert!(bench.stays_away(&mut claims).await);
}

#[tokio::test(start_paused = true)]
async fn no_mark_of_a_queue_with_nothing_left_is_put_off() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 200).await;
    let first = minute_of(clock_now(&bench.core));
    for _ in 0..8 {
        bench.clock.advance(60_000);
        assert!(bench.stays_away(&mut claims).await);
    }
    let queue = &bench.core.shared.deliveries.queue;
    let marks = queue.marks(shard_of("wh_1"), first + 1, first + 59, MarkSelection::All).await.unwrap();
    assert!(marks.is_empty(), "{marks:?}");
}

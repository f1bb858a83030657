//! Deliveries that wait, and deliveries that end while they wait.

use super::{shares::steal, *};

impl Bench {
    pub(super) async fn set_status(&self, webhook: &str, status: WebhookStatus) {
        let mut changed = Webhook::clone(self.core.shared.control.state().webhook(webhook).unwrap());
        changed.set_status(status.into(), self.core.shared.clock.now_ms());
        self.change(ControlChange::Webhook(changed)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_waited_for_less_than_a_day_goes_out_when_the_webhook_is_enabled() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 500).await;
    bench.set_status("wh_1", WebhookStatus::Disabled).await;
    bench.clock.advance(Webhook::GRACE_PERIOD_MS - 1);
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(bench.counted(&event, "wh_1").await, Status::Retrying);
    bench.set_status("wh_1", WebhookStatus::Enabled).await;
    let claimed = claims.recv().await.unwrap();
    assert_eq!((&claimed.delivery.event_id, claimed.delivery.attempt_count()), (&event, 1));
}

#[tokio::test(start_paused = true)]
async fn what_has_waited_for_a_day_ends_then_and_is_not_brought_back() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 500).await;
    bench.set_status("wh_1", WebhookStatus::Disabled).await;
    bench.clock.advance(60_000);
    assert!(bench.stays_away(&mut claims).await);
    bench.clock.advance(Webhook::GRACE_PERIOD_MS - 60_000);
    assert_eq!(bench.counted(&event, "wh_1").await, Status::Failed);
    bench.becomes(&event, "wh_1", Status::Failed).await;
    bench.set_status("wh_1", WebhookStatus::Enabled).await;
    assert!(bench.stays_away(&mut claims).await);
    let later = bench.post().await;
    assert_eq!(claims.recv().await.unwrap().delivery.event_id, later);
}

#[tokio::test(start_paused = true)]
async fn more_than_memory_holds_is_read_from_the_queue() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let all = super::super::state::MAX_READY_PER_WEBHOOK + 50;
    let mut posted = std::collections::BTreeSet::new();
    for _ in 0..all {
        posted.insert(bench.post().await);
        bench.clock.advance(1);
    }
    let (_place, mut claims) = bench.core.dispatcher.join(16);
    let mut sent = std::collections::BTreeSet::new();
    for _ in 0..all {
        let claimed = claims.recv().await.unwrap();
        assert!(sent.insert(claimed.delivery.event_id.clone()), "sent twice");
        bench.report(&claimed, 200).await;
    }
    assert_eq!(sent, posted);
    assert!(bench.stays_away(&mut claims).await);
}

#[tokio::test(start_paused = true)]
async fn another_core_takes_over_what_a_dead_one_had_to_do() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let mut bench = Bench::on(Arc::clone(&backend), Arc::clone(&clock)).await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let (retried, pending) = (bench.post().await, bench.post().await);
    for _ in 0..2 {
        let claimed = claims.recv().await.unwrap();
        if claimed.delivery.event_id == retried {
            bench.report(&claimed, 500).await;
        }
    }
    // The core dies without giving up its leases, which end by themselves.
    bench.core.stop.cancel();
    let other = Bench { core: core(backend, &clock, 2).await, clock, posted: 0 };
    let (_place, mut claims) = other.core.dispatcher.join(8);
    assert!(other.stays_away(&mut claims).await, "the leases are not over");
    other.clock.advance(GONE_MS);
    let claimed = claims.recv().await.unwrap();
    assert_eq!(claimed.delivery.event_id, pending);
    other.report(&claimed, 200).await;
    assert!(other.stays_away(&mut claims).await);
    other.clock.advance(60_000);
    let claimed = claims.recv().await.unwrap();
    assert_eq!((&claimed.delivery.event_id, claimed.delivery.attempt_count()), (&retried, 1));
}

#[tokio::test(start_paused = true)]
async fn any_core_takes_a_report() {
    let (mut bench, other) = Bench::beside_another().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    let claimed = claims.recv().await.unwrap();
    let attempt = Attempt { number: 1, response_status: Some(500), ..Attempt::default() };
    other.dispatcher.report(vec![EndedAttempt { delivery: claimed.delivery.id.clone(), attempt }]).await.unwrap();
    assert_eq!(bench.delivery(&event, "wh_1").await.status(), Status::Retrying);
    // The sending core receives the notification of the retry before it is due.
    assert!(bench.stays_away(&mut claims).await);
    bench.clock.advance(60_000);
    let again = claims.recv().await.unwrap();
    assert_eq!((&again.delivery.event_id, again.delivery.attempt_count()), (&event, 1));
}

#[tokio::test(start_paused = true)]
async fn withdrawn_live_access_cancels_what_waits_and_approval_revives_none_of_it() {
    let mut bench = Bench::new().await;
    bench.live_webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(1);
    bench.clock.advance(10);
    // One waits for its second attempt, one is under way, one was never tried.
    let retrying = bench.post_in(Dataset::Live).await;
    let claimed = claims.recv().await.unwrap();
    bench.report(&claimed, 500).await;
    let under_way = bench.post_in(Dataset::Live).await;
    let claimed = claims.recv().await.unwrap();
    let pending = bench.post_in(Dataset::Live).await;
    assert!(bench.stays_away(&mut claims).await);
    let all = [retrying.as_str(), &under_way, &pending];
    let [first, second, third] = all;
    assert_eq!(bench.counted(first, "wh_1").await, Status::Retrying);
    assert_eq!(
        (bench.counted(second, "wh_1").await, bench.counted(third, "wh_1").await),
        (Status::Pending, Status::Pending)
    );

    bench.clock.advance(10);
    bench.withdraw().await;
    for event in all {
        assert_eq!(bench.counted(event, "wh_1").await, Status::Failed);
    }
    // The attempt under way still ends.
    bench.report(&claimed, 200).await;
    let ended = bench.delivery(second, "wh_1").await;
    assert_eq!((ended.status(), ended.attempt_count(), ended.delivered_at), (Status::Failed, 1, None));
    // An event without live access makes no delivery.
    bench.clock.advance(10);
    let unseen = bench.post_in(Dataset::Live).await;
    bench.approve().await;
    // Approving an approved project does nothing to waiting deliveries.
    bench.clock.advance(10);
    let later = bench.post_in(Dataset::Live).await;
    bench.approve().await;
    let claimed = claims.recv().await.unwrap();
    assert_eq!(claimed.delivery.event_id, later);
    bench.report(&claimed, 204).await;
    assert_eq!(bench.counted(&later, "wh_1").await, Status::Delivered);
    for _ in 0..3 {
        bench.clock.advance(60_000);
        assert!(bench.stays_away(&mut claims).await, "what was cancelled is sent");
    }
    for event in all {
        assert_eq!(bench.counted(event, "wh_1").await, Status::Failed);
        bench.becomes(event, "wh_1", Status::Failed).await;
    }
    assert_eq!(bench.find(&unseen, "wh_1").await, None);
}

#[tokio::test(start_paused = true)]
async fn withdrawn_live_access_leaves_test_deliveries_alone() {
    let mut bench = Bench::new().await;
    bench.approve().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(1);
    let event = bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 500).await;
    bench.withdraw().await;
    assert_eq!(bench.counted(&event, "wh_1").await, Status::Retrying);
    bench.clock.advance(60_000);
    assert_eq!(claims.recv().await.unwrap().delivery.event_id, event);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_on_a_lease_that_was_lost() {
    let (mut bench, other) = Bench::beside_another().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(1);
    for _ in 0..3 {
        bench.post().await;
    }
    let first = claims.recv().await.unwrap();
    assert!(bench.stays_away(&mut claims).await, "more than its capacity");
    // The others are in memory when the heartbeats lapse and another core takes the shard.
    let now_ms = bench.core.shared.clock.now_ms();
    steal(&other, shard_of("wh_1"), now_ms + 2 * GONE_MS).await;
    bench.clock.advance(GONE_MS);
    bench.report(&first, 200).await;
    assert!(bench.stays_away(&mut claims).await, "sent without a lease");
    bench.clock.advance(GONE_MS);
    let mut sent = std::collections::HashSet::from([first.delivery.id.clone()]);
    for _ in 0..2 {
        let claimed = claims.recv().await.unwrap();
        assert!(sent.insert(claimed.delivery.id.clone()), "sent twice");
        bench.report(&claimed, 200).await;
    }
    assert!(bench.stays_away(&mut claims).await);
}

#[tokio::test(start_paused = true)]
async fn a_requested_retry_is_sent_at_once_and_only_once() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 500).await;
    bench.clock.advance(1_000);
    let now_ms = bench.core.shared.clock.now_ms();
    let before = bench.delivery(&event, "wh_1").await;
    assert!(before.next_attempt_at.is_some_and(|due_at| due_at > now_ms));
    // Requested twice.
    for _ in 0..2 {
        bench.core.shared.hasten(&before, now_ms).await.unwrap();
    }
    let claimed = claims.recv().await.unwrap();
    assert_eq!((&claimed.delivery.event_id, claimed.delivery.attempt_count()), (&event, 1));
    assert!(bench.stays_away(&mut claims).await, "it is out");
    bench.report(&claimed, 500).await;
    let after = bench.delivery(&event, "wh_1").await;
    assert_eq!((after.attempt_count(), after.next_attempt_at), (2, Some(now_ms + 5 * 60_000)));
    // Nothing is sent at the time that was queued first, and the third attempt has its usual time.
    bench.clock.advance(5 * 60_000 - 1);
    assert!(bench.stays_away(&mut claims).await);
    bench.clock.advance(1);
    let claimed = claims.recv().await.unwrap();
    assert_eq!(claimed.delivery.attempt_count(), 2);
    bench.report(&claimed, 200).await;
    // A request for an attempt that is already over changes nothing.
    bench.core.shared.hasten(&before, bench.core.shared.clock.now_ms()).await.unwrap();
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(bench.delivery(&event, "wh_1").await.status(), Status::Delivered);
}

//! Live webhooks of new organizations, where the plan demands verified endpoints.

use super::*;
use crate::{
    domain::window::DAY_MS,
    tests::harness::{NOON, ids, settings},
};

impl Bench {
    /// A core whose plans verify endpoints for a day.
    async fn verifying() -> Self {
        let clock = ManualClock::new();
        let mut settings = settings();
        settings.plans.values_mut().for_each(|plan| plan.verify_endpoints_days = 1);
        let core = Core::start(memory(&clock), settings, clock.clone(), ids(1)).await.unwrap();
        Self::of(core, clock).await
    }

    /// Sends a test, or the replay of an event.
    async fn request(&self, webhook: &str, name: &str, replay_of: Option<&str>) {
        let now_ms = self.core.shared.clock.now_ms();
        let delivery = Delivery {
            id: delivery_id(webhook, now_ms, &[name]),
            webhook_id: webhook.to_owned(),
            event_id: name.to_owned(),
            event_type: EventType::ThesisCreated.into(),
            body: b"{}".to_vec(),
            status: Status::Pending.into(),
            next_attempt_at: Some(now_ms),
            created_at: now_ms,
            is_test: replay_of.is_none(),
            replay_of: replay_of.map(str::to_owned),
            ..Delivery::default()
        };
        let pending = PendingDelivery { delivery, body: Bytes::from_static(b"{}"), erasure: 0, epoch: 0 };
        self.core.shared.create_deliveries(vec![pending], true, now_ms).await.unwrap();
    }

    /// Sends a test, and returns its claim.
    async fn test(&self, claims: &mut mpsc::Receiver<ClaimedAttempt>, name: &str) -> ClaimedAttempt {
        self.request("wh_1", name, None).await;
        let claimed = claims.recv().await.unwrap();
        assert_eq!(claimed.delivery.event_id, name);
        claimed
    }

    async fn set_url(&self, url: &str) {
        let webhook = Webhook::clone(self.core.shared.control.state().webhook("wh_1").unwrap());
        self.change(ControlChange::Webhook(Webhook { url: url.to_owned(), ..webhook })).await;
    }

    fn verified_at(&self, webhook: &str) -> Option<i64> {
        self.core.shared.control.state().webhook(webhook).unwrap().verified_at
    }
}

#[tokio::test(start_paused = true)]
async fn events_and_replays_wait_until_the_endpoint_has_answered_a_test() {
    let mut bench = Bench::verifying().await;
    bench.live_webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post_in(Dataset::Live).await;
    bench.request("wh_1", "replayed", Some("del_1")).await;
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(bench.delivery(&event, "wh_1").await.status(), Status::Pending);
    let failed = bench.test(&mut claims, "failed").await;
    bench.report(&failed, 500).await;
    // The URL changes while the attempt is under way to the former one.
    let moved = bench.test(&mut claims, "moved").await;
    bench.set_url("https://another.example.com/").await;
    bench.report(&moved, 204).await;
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(bench.verified_at("wh_1"), None);
    let succeeded = bench.test(&mut claims, "succeeded").await;
    bench.report(&succeeded, 204).await;
    assert_eq!(bench.verified_at("wh_1"), Some(NOON));
    let mut sent =
        [claims.recv().await.unwrap(), claims.recv().await.unwrap()].map(|claimed| claimed.delivery.event_id.clone());
    sent.sort();
    let mut expected = [event, "replayed".to_owned()];
    expected.sort();
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_older_organizations_and_test_webhooks_need_no_test() {
    let mut bench = Bench::verifying().await;
    bench.live_webhook("wh_live").await;
    bench.webhook("wh_test").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let test_event = bench.post().await;
    assert_eq!(claims.recv().await.unwrap().delivery.event_id, test_event);
    let live_event = bench.post_in(Dataset::Live).await;
    assert!(bench.stays_away(&mut claims).await);
    bench.clock.advance(DAY_MS);
    loop {
        let claimed = claims.recv().await.unwrap();
        // The attempt for the test webhook is late by now, and comes again.
        if claimed.delivery.webhook_id == "wh_live" {
            assert_eq!(claimed.delivery.event_id, live_event);
            return;
        }
    }
}

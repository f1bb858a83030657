//! Deliveries of an event whose text is erased before they are sent.

use super::*;
use crate::{
    delivery::dispatch::unsendable::MAX_ERASURE_AGE_MS,
    domain::observation::{Observation, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken},
    operations::{admin::erase_thesis::erase_thesis, replay_delivery::replay},
};

const SECRET: &str = "my name and address";

impl Bench {
    /// Observes a thing of live data. Returns the id of its thesis.
    async fn observe(&self, revision: i64, seen: ObservedThing) -> String {
        let observation = Observation { observed_at: revision, revision: Some(revision), seen };
        self.core.datasets.observe_here(&Dataset::Live, observation).await.unwrap().id
    }

    /// Posts a thesis with the text that is to be erased. Returns its id.
    async fn post_secret(&self) -> String {
        let (upstream_id, handle) = ("u".to_owned(), "ann".to_owned());
        let profile = ObservedProfile { upstream_id, handle, ..ObservedProfile::default() };
        let (chain, address, symbol) = ("base".to_owned(), "0xa".to_owned(), "RUN".to_owned());
        let token = ObservedToken { chain, address, symbol, ..ObservedToken::default() };
        let (upstream_id, text) = ("post".to_owned(), SECRET.to_owned());
        let (created_at, updated_at) = (1_000, 1_000);
        let thesis =
            ObservedThesis { upstream_id, profile, token, text, created_at, updated_at, ..ObservedThesis::default() };
        self.observe(1, ObservedThing::Thesis(Box::new(thesis))).await
    }

    /// Deletes that thesis, and erases its text.
    async fn erase(&self, id: &str) {
        self.observe(2, ObservedThing::Deletion("post".to_owned())).await;
        let (dataset, reason) = ("live".to_owned(), "the author asked".to_owned());
        let message = thesis_proto::v1::EraseThesisRequest { dataset, id: id.to_owned(), reason };
        assert_eq!(erase_thesis(&self.core, &Actor::operator(None), &message).await.unwrap().entries, 2);
    }

    /// A delivery of the creation of a thesis.
    async fn delivery_of(&self, thesis_id: &str) -> Delivery {
        let found = self.core.shared.theses.theses(&[("live", thesis_id)]).await.unwrap().pop().flatten();
        let (dataset, seq) = ("live".to_owned(), found.unwrap().sequence.unwrap());
        let event = EventRef { dataset, seq, ..EventRef::default() };
        Delivery::pending("del_1".to_owned(), "wh_1".to_owned(), 1_000, event)
    }
}

fn text(body: &[u8]) -> String {
    let event: serde_json::Value = serde_json::from_slice(body).unwrap();
    event["data"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_retry_and_a_replay_are_sent_without_an_erased_text() {
    let bench = Bench::new().await;
    bench.live_webhook("wh_1").await;
    bench.clock.advance(10);
    let dispatcher = &bench.core.dispatcher;
    let (_place, mut claims) = dispatcher.join(8);
    let thesis_id = bench.post_secret().await;
    let first = bench.next_claim(&mut claims).await;
    assert_eq!(text(&first.body), SECRET);
    bench.report(&first, 500).await;
    // It is sent again before the erasure, and its body is kept for what follows.
    let replayed = replay(&bench.core, &first.delivery, bench.core.shared.clock.now_ms(), "before").await.unwrap();
    assert_eq!((replayed.body.len(), replayed.seq), (0, first.delivery.seq));
    let second = bench.next_claim(&mut claims).await;
    assert_eq!((second.delivery.id.as_str(), text(&second.body).as_str()), (replayed.id.as_str(), SECRET));
    bench.report(&second, 500).await;

    bench.erase(&thesis_id).await;
    for delivery in [&*first.delivery, &replayed] {
        assert_eq!(text(&dispatcher.body_of(delivery).await.unwrap()), "", "in the delivery log");
    }
    replay(&bench.core, &first.delivery, bench.core.shared.clock.now_ms(), "after").await.unwrap();
    assert_eq!(text(&bench.next_claim(&mut claims).await.body), "", "the new replay");
    bench.clock.advance(60_000);
    for _ in 0..2 {
        assert_eq!(text(&bench.next_claim(&mut claims).await.body), "", "the retries");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_in_memory_is_sent_without_an_erased_text() {
    let mut bench = Bench::new().await;
    bench.live_webhook("wh_1").await;
    bench.clock.advance(10);
    let (_place, mut claims) = bench.core.dispatcher.join(1);
    bench.post_in(Dataset::Live).await;
    let other = bench.next_claim(&mut claims).await;
    // The worker has no room for a second one.
    let thesis_id = bench.post_secret().await;
    bench.until(async || bench.core.dispatcher.queue_metrics().normal.ready == 1).await;
    bench.erase(&thesis_id).await;
    bench.report(&other, 200).await;
    let claimed = bench.next_claim(&mut claims).await;
    let delivered: serde_json::Value = serde_json::from_slice(&claimed.body).unwrap();
    assert_eq!((&delivered["data"]["thesis_id"], text(&claimed.body)), (&thesis_id.into(), String::new()));
}

#[tokio::test(start_paused = true)]
async fn the_delivery_log_of_another_core_has_no_erased_text() {
    let (bench, other) = Bench::beside_another().await;
    let thesis_id = bench.post_secret().await;
    let delivery = bench.delivery_of(&thesis_id).await;
    assert_eq!(text(&other.dispatcher.body_of(&delivery).await.unwrap()), SECRET);
    bench.erase(&thesis_id).await;
    assert_eq!(text(&other.dispatcher.body_of(&delivery).await.unwrap()), "");
}

#[tokio::test(start_paused = true)]
async fn another_core_sends_an_erased_text_for_a_second_at_most() {
    let (bench, other) = Bench::beside_another().await;
    let webhook = bench.webhook("wh_1").await;
    let thesis_id = bench.post_secret().await;
    let delivery = bench.delivery_of(&thesis_id).await;
    let body = other.dispatcher.body_of(&delivery).await.unwrap();
    let mut pending = PendingDelivery { delivery, body, erasure: 0, epoch: 1 };
    let now_ms = other.shared.clock.now_ms();
    other.dispatcher.prepare(&mut pending, &webhook, now_ms).await.unwrap().unwrap();
    assert_eq!((text(&pending.body).as_str(), pending.erasure), (SECRET, 0));
    bench.erase(&thesis_id).await;
    bench.clock.advance(MAX_ERASURE_AGE_MS);
    other.dispatcher.prepare(&mut pending, &webhook, now_ms).await.unwrap().unwrap();
    assert_eq!(text(&pending.body), "");
    assert_eq!(pending.erasure, bench.core.shared.log.newest_erasure("live"));
}

/// Adds five ready deliveries of different logs and webhooks.
fn add_five(dispatcher: &Dispatcher, now_ms: i64) -> Vec<Delivery> {
    let pending = |number: usize| {
        let (id, webhook) = (format!("del_{number}"), format!("wh_{number}"));
        Delivery::pending(
            id,
            webhook,
            now_ms,
            EventRef { dataset: format!("log_{number}"), seq: 1, ..EventRef::default() },
        )
    };
    let deliveries: Vec<Delivery> = (0..5).map(pending).collect();
    for delivery in deliveries.clone() {
        let pending = PendingDelivery { delivery, body: Bytes::new(), erasure: 0, epoch: 1 };
        dispatcher.state.lock().add_ready(pending, now_ms);
    }
    deliveries
}

#[tokio::test(start_paused = true)]
async fn the_logs_of_the_next_deliveries_share_one_read_of_their_erasures() {
    let store = SharedMemory::without_threads();
    let bench = Bench::on(store.clone(), ManualClock::new()).await;
    let (dispatcher, now_ms) = (&bench.core.dispatcher, bench.core.shared.clock.now_ms());
    let (_place, _claims) = dispatcher.join(8);
    let deliveries = add_five(dispatcher, now_ms);
    let before = store.calls(&schema::LOG_CHECKPOINT);
    dispatcher.read_next_erasures(now_ms).await.unwrap();
    for delivery in &deliveries {
        assert_eq!(dispatcher.recent_erasure(delivery).await.unwrap(), 0);
    }
    assert_eq!(store.calls(&schema::LOG_CHECKPOINT) - before, 1);
}

#[tokio::test(start_paused = true)]
async fn deliveries_wait_for_a_failing_store_once_a_round_and_no_log_holds_up_the_others() {
    let store = SharedMemory::without_threads();
    let bench = Bench::on(store.clone(), ManualClock::new()).await;
    let (dispatcher, now_ms) = (&bench.core.dispatcher, bench.core.shared.clock.now_ms());
    let (_place, _claims) = dispatcher.join(8);
    add_five(dispatcher, now_ms);
    store.set_away(true);
    let mut read_failed = false;
    // The second round tries each delivery. Their webhooks do not exist, so none stays in memory.
    for ready in [5, 0] {
        assert!(dispatcher.hand_out_ready(false, &mut read_failed, now_ms).await.is_empty());
        assert_eq!((dispatcher.queue_metrics().normal.ready, read_failed), (ready, ready > 0));
    }
}

//! What a core finds in the store: when it takes a shard over, and when no other core notifies it.

use super::*;
use crate::{
    operations::replay_delivery::replay,
    replicas::members::first_of,
    start::CoreSettings,
    testing::{ids, settings},
};

impl Bench {
    /// Waits until something holds.
    async fn until(&self, holds: impl AsyncFn() -> bool) {
        for _ in 0..1_000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            // Paused time runs ahead while the store's own thread works; this waits for it.
            self.core.shared.backend.apply(Vec::new()).await.unwrap();
        }
        panic!("it never held");
    }

    /// The next attempt that is handed out.
    async fn claim(&self, claims: &mut mpsc::Receiver<Claimed>) -> Claimed {
        self.until(async || !claims.is_empty()).await;
        claims.try_recv().unwrap()
    }

    /// Creates a disabled webhook; gives a delivery of an event to it that is not stored and has its own body.
    async fn disabled_webhook(&self, id: &str, due_at: i64) -> Delivery {
        let mut webhook = self.webhook(id).await;
        webhook.set_status(WebhookStatus::Disabled.into(), clock_now(&self.core));
        self.change(ControlChange::Webhook(webhook)).await;
        let told = EventRef { event_id: "evt_1".to_owned(), event_type: 1, ..EventRef::default() };
        let pending = Delivery::pending(delivery_id(id, due_at, &[]), id.to_owned(), due_at, told);
        Delivery { body: b"{}".to_vec(), ..pending }
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_hands_out_an_attempt() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let leases = [&cores[0].dispatcher.shards, &cores[1].dispatcher.shards];
    let now = clock_now(&cores[0]);
    assert!(leases[0].lease(3, now, now + LEASE_MS).await.unwrap());
    assert!(!leases[1].lease(3, now, now + LEASE_MS).await.unwrap(), "held by the other");
    assert!(leases[0].lease(3, now, now + LEASE_MS).await.unwrap(), "renewed by its holder");
    let later = now + LEASE_MS;
    assert!(leases[1].lease(3, later, later + LEASE_MS).await.unwrap(), "free once it has ended");
}

#[tokio::test(start_paused = true)]
async fn the_first_worker_gets_what_was_due_before_it_came() {
    let clock = ManualClock::new();
    let settings = CoreSettings { sandbox_fixtures: false, ..settings() };
    let started = Core::start(shared_memory(&clock), settings, clock.clone(), ids(1)).await;
    let mut bench = Bench::of(started.unwrap(), clock).await;
    bench.webhook("wh_1").await;
    let event = bench.post().await;
    bench.becomes(&event, "wh_1", Status::Pending).await;
    bench.clock.advance(10 * 60_000);
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    assert_eq!(bench.claim(&mut claims).await.delivery.event_id, event);
}

#[tokio::test(start_paused = true)]
async fn a_replay_without_a_notification_is_sent_although_older_rows_wait() {
    let (bench, other) = Bench::beside_another().await;
    let older = bench.disabled_webhook("wh_1", clock_now(&bench.core) - 600_000).await;
    let (dispatcher, deliveries) = (&bench.core.dispatcher, &bench.core.shared.deliveries);
    deliveries.create(&[&older], older.created_at).await.unwrap();
    // In the next minute a core notes how far the marks of a shard are read once it has taken the shard over.
    bench.clock.advance(60_000);
    let (_place, mut claims) = dispatcher.join(8);
    bench.until(async || deliveries.queue.done(shard_of("wh_1")).await.unwrap().is_some()).await;
    bench.core.shared.hints.hear([("wh_1".to_owned(), older.created_at)]);
    bench.until(async || dispatcher.state.lock().waiting().count() == 1).await;
    // The cores have no addresses, so they do not reach each other.
    let sent = replay(&other, &older, clock_now(&other), "seed").await.unwrap();
    bench.clock.advance(2_000);
    assert_eq!(bench.claim(&mut claims).await.delivery.id, sent.id);
}

#[tokio::test(start_paused = true)]
async fn what_a_leaving_shard_holds_back_is_sent_when_it_stays_after_all() {
    let (bench, other) = Bench::beside_another().await;
    let cores = [bench.core.shared.replica.as_str(), &other.shared.replica];
    let is_of_other = |webhook: &String| first_of(cores, &shard_of(webhook).to_string()) == Some(cores[1]);
    let webhook = (0..).map(|number| format!("wh_{number}")).find(is_of_other).unwrap();
    let (dispatcher, now_ms) = (&bench.core.dispatcher, clock_now(&bench.core));
    let original = bench.disabled_webhook(&webhook, now_ms).await;
    let (_place, mut claims) = dispatcher.join(2);
    let mut replays = Vec::new();
    for seed in ["1", "2", "3"] {
        replays.push(replay(&bench.core, &original, now_ms, seed).await.unwrap().id);
    }
    let out = [bench.claim(&mut claims).await, bench.claim(&mut claims).await];
    bench.until(async || dispatcher.queue().normal.ready == 1).await;

    let (place, _claims) = other.dispatcher.join(1);
    bench.until(async || !dispatcher.shards.serves(shard_of(&webhook), now_ms)).await;
    bench.report(&out[0], 200).await;
    bench.until(async || dispatcher.queue().normal.ready == 0).await;
    // The attempt that is still out keeps the shard here until the other core has no worker any more.
    drop(place);
    let last = bench.claim(&mut claims).await;
    let mut sent: Vec<String> = out.iter().chain([&last]).map(|claimed| claimed.delivery.id.clone()).collect();
    sent.sort_unstable();
    replays.sort_unstable();
    assert_eq!(sent, replays);
}

//! What a core finds in the store: when it takes a shard over, and when no other core notifies it.

use super::*;
use crate::{
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
            tokio::time::sleep(LOOK_EVERY).await;
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

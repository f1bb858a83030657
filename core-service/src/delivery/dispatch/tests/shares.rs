//! The shares of cores in the shards, and what their leases cost.

use std::collections::BTreeMap;

use super::*;
use crate::tables::{
    leases::{self, LeaseWrite, ShardLease},
    queue::SHARDS,
};

/// Gives a shard to a core until a time, although the lease of another core has not ended.
pub(super) async fn steal(core: &Core, shard: i64, until: i64) {
    let (before, lease) = leases::read_all(&core.shared.backend).await.unwrap().remove(&shard).unwrap();
    let (owner, epoch) = (core.shared.replica.clone(), lease.epoch + 1);
    let lease = ShardLease { owner, epoch, free_at: Some(until) };
    let write = LeaseWrite { shard, before: Some(before), lease };
    assert!(leases::write(&core.shared.backend, vec![write]).await.unwrap());
}

/// Lets seconds pass, in which the heartbeats of all cores arrive.
async fn pass(clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds {
        clock.advance(1_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The epoch of each shard that a core serves.
fn served(core: &Core) -> BTreeMap<i64, i64> {
    let (shards, now_ms) = (&core.dispatcher.shards, clock_now(core));
    let served = (0..SHARDS).filter(|shard| shards.serves(*shard, now_ms));
    served.map(|shard| (shard, shards.tenure(shard, now_ms).unwrap().epoch)).collect()
}

#[tokio::test(start_paused = true)]
async fn cores_share_the_shards_and_one_takes_over_those_of_a_dead_one() {
    let clock = ManualClock::new();
    let backend = shared_memory(&clock);
    let cores = [core(Arc::clone(&backend), &clock, 1).await, core(backend, &clock, 2).await];
    let (first_place, _claims) = cores[0].dispatcher.join(1);
    pass(&clock, 3).await;
    assert_eq!(served(&cores[0]).len(), 64);
    let (_place, _claims) = cores[1].dispatcher.join(1);
    pass(&clock, 5).await;
    let parts = [served(&cores[0]), served(&cores[1])];
    assert_eq!([parts[0].len(), parts[1].len()], [32, 32]);
    assert!(parts[0].keys().all(|shard| !parts[1].contains_key(shard)), "one shard at two cores");
    // Its heartbeats end, and with them its leases.
    cores[0].stop.cancel();
    pass(&clock, 8).await;
    assert_eq!(served(&cores[1]).len(), 32);
    pass(&clock, 7).await;
    let all = served(&cores[1]);
    assert_eq!((served(&cores[0]).len(), all.len()), (0, 64));
    for (shard, epoch) in &parts[0] {
        assert_eq!(all[shard], epoch + 1);
    }
    for (shard, epoch) in &parts[1] {
        assert_eq!(all[shard], *epoch);
    }
    drop(first_place);
}

#[tokio::test(start_paused = true)]
async fn a_core_that_ends_gives_its_shards_up_at_once() {
    let (bench, other) = Bench::beside_another().await;
    let (_place, _claims) = bench.core.dispatcher.join(1);
    pass(&bench.clock, 3).await;
    bench.core.close().await;
    let (_place, _claims) = other.dispatcher.join(1);
    pass(&bench.clock, 3).await;
    assert_eq!(served(&other).len(), 64);
    assert!(served(&other).values().all(|epoch| *epoch == 2));
}

#[tokio::test(start_paused = true)]
async fn attempts_of_a_core_that_ends_have_the_time_to_be_reported() {
    let change_leases: fn(&SharedMemory) = |backend| backend.lose_next(&schema::SHARD_LEASE);
    let refuse_leases: fn(&SharedMemory) = |backend| backend.refuse(Some("webhooks".to_owned()));
    // Leases that cannot be given up last as long as the heartbeats, and the last one may be a second old.
    for (hinder, seconds) in [(change_leases, ORPHAN_MS / 1_000 - 1), (refuse_leases, GONE_MS / 1_000 - 2)] {
        let clock = ManualClock::new();
        let backend = SharedMemory::new(&clock);
        let mut bench = Bench::on(backend.clone(), Arc::clone(&clock)).await;
        let other = Bench { core: core(backend.beside(), &clock, 2).await, clock, posted: 0 };
        bench.webhook("wh_1").await;
        let (_place, mut claims) = bench.core.dispatcher.join(1);
        let event = bench.post().await;
        assert_eq!(bench.next_claim(&mut claims).await.delivery.event_id, event);
        pass(&bench.clock, 3).await;
        hinder(&backend);
        bench.core.close().await;

        let (_place, mut claims) = other.core.dispatcher.join(1);
        pass(&other.clock, seconds.unsigned_abs()).await;
        assert!(claims.is_empty(), "sent again before a report could come");
        pass(&other.clock, 4).await;
        assert_eq!(other.next_claim(&mut claims).await.delivery.event_id, event);
    }
}

#[tokio::test(start_paused = true)]
async fn the_leases_of_an_idle_core_cost_a_read_in_ten_seconds() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let core = core(backend.clone(), &clock, 1).await;
    let (_place, _claims) = core.dispatcher.join(1);
    pass(&clock, 5).await;
    assert_eq!(served(&core).len(), 64);
    let tables = [&schema::SHARD_LEASE, &schema::QUEUE_DONE, &schema::QUEUE_MARK];
    let before = tables.map(|table| backend.calls(table));
    pass(&clock, 600).await;
    let calls = [0, 1, 2].map(|table| backend.calls(tables[table]) - before[table]);
    assert!(calls[0] <= 62, "{} requests for leases", calls[0]);
    // Each minute one write for all shards, and a read of the marks of each.
    assert!(calls[1] <= 12 && calls[2] <= 13 * 64, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_another_core_has_taken_is_noticed() {
    let (bench, other) = Bench::beside_another().await;
    let (_place, _claims) = bench.core.dispatcher.join(1);
    pass(&bench.clock, 3).await;
    steal(&other, 7, clock_now(&bench.core) + 30_000).await;
    pass(&bench.clock, 12).await;
    assert_eq!(served(&bench.core).len(), 63);
    pass(&bench.clock, 30).await;
    assert_eq!(served(&bench.core)[&7], 3);
}

//! Reads of the store by a core that takes a shard over, or that no other core notifies.

use super::{super::read::LATE_MINUTES, *};
use crate::{
    domain::window::MINUTE_MS,
    operations::replay_delivery::replay,
    replicas::shard_cores::choose,
    start::CoreSettings,
    tables::queue::minute_of,
    tests::harness::{ids, settings},
};

impl Bench {
    /// Waits until something holds.
    pub(super) async fn until(&self, holds: impl AsyncFn() -> bool) {
        for _ in 0..1_000 {
            if holds().await {
                return;
            }
            self.pass_round().await;
        }
        panic!("it never held");
    }

    /// The next attempt that is handed out.
    pub(super) async fn next_claim(&self, claims: &mut mpsc::Receiver<ClaimedAttempt>) -> ClaimedAttempt {
        self.until(async || !claims.is_empty()).await;
        claims.try_recv().unwrap()
    }

    /// Creates a disabled webhook; gives a delivery of an event to it that is not stored and has its own body.
    pub(super) async fn disabled_webhook(&self, id: &str, due_at: i64) -> Delivery {
        let mut webhook = self.webhook(id).await;
        webhook.set_status(WebhookStatus::Disabled.into(), clock_now(&self.core));
        self.change(ControlChange::Webhook(webhook)).await;
        unstored(id, due_at)
    }
}

/// A delivery of an event that has its own body and is not stored.
pub(super) fn unstored(webhook: &str, due_at: i64) -> Delivery {
    let event = EventRef { event_id: "evt_1".to_owned(), event_type: 1, ..EventRef::default() };
    let pending = Delivery::pending(delivery_id(webhook, due_at, &[]), webhook.to_owned(), due_at, event);
    Delivery { body: b"{}".to_vec(), ..pending }
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
    assert_eq!(bench.next_claim(&mut claims).await.delivery.event_id, event);
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
    bench.core.shared.hints.add_queues([("wh_1".to_owned(), older.created_at)]);
    bench.until(async || dispatcher.state.lock().waiting().count() == 1).await;
    // The cores have no addresses, so they do not reach each other.
    let sent = replay(&other, &older, clock_now(&other), "seed").await.unwrap();
    bench.clock.advance(2_000);
    assert_eq!(bench.next_claim(&mut claims).await.delivery.id, sent.id);
}

/// Lets time pass while both cores keep what they have.
pub(super) async fn pass(bench: &Bench, seconds: u64) {
    for _ in 0..seconds {
        bench.clock.advance(1_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_leaving_shard_holds_back_is_sent_when_it_stays_after_all() {
    // Old attempts are held back while the core notes how far marks are read, which it does once a minute.
    for (age_s, then_s) in [(0, 0), (298, 3)] {
        hold_back(age_s, then_s).await;
    }
}

async fn hold_back(age_s: u64, then_s: u64) {
    let (bench, other) = Bench::beside_another().await;
    let cores = [bench.core.shared.replica.as_str(), &other.shared.replica];
    let shards = choose(&cores.map(str::to_owned));
    let is_of_other = |webhook: &String| shards[usize::try_from(shard_of(webhook)).unwrap()] == cores[1];
    let mut webhooks = (0..).map(|number| format!("wh_{number}")).filter(is_of_other);
    let webhook = webhooks.next().unwrap();
    let second = webhooks.find(|second| shard_of(second) == shard_of(&webhook)).unwrap();
    let (dispatcher, now_ms) = (&bench.core.dispatcher, clock_now(&bench.core));
    let original = bench.disabled_webhook(&webhook, now_ms).await;
    let mut replays = Vec::new();
    for seed in ["1", "2"] {
        replays.push(replay(&bench.core, &original, now_ms, seed).await.unwrap().id);
    }
    pass(&bench, age_s).await;
    let (_place, mut claims) = dispatcher.join(2);
    let out = [bench.next_claim(&mut claims).await, bench.next_claim(&mut claims).await];
    let original = bench.disabled_webhook(&second, now_ms).await;
    let third = Delivery { replay_of: Some(original.id.clone()), ..original };
    // Its mark is written as late as it may be, for the minute up to which this core notes the marks as read next.
    let created_at = clock_now(&bench.core) - LATE_MINUTES * MINUTE_MS;
    bench.core.shared.deliveries.create(&[&third], created_at).await.unwrap();
    bench.core.shared.hints.add_queues([(second, now_ms)]);
    replays.push(third.id);
    bench.until(async || dispatcher.queue_metrics().normal.ready == 1).await;

    let (place, _claims) = other.dispatcher.join(1);
    bench.until(async || !dispatcher.shards.serves(shard_of(&webhook), clock_now(&bench.core))).await;
    bench.report(&out[0], 200).await;
    bench.until(async || dispatcher.queue_metrics().normal.ready == 0).await;
    pass(&bench, then_s).await;
    // The attempt that is still out keeps the shard here until the other core has no worker any more.
    drop(place);
    let last = bench.next_claim(&mut claims).await;
    let mut sent: Vec<String> = out.iter().chain([&last]).map(|claimed| claimed.delivery.id.clone()).collect();
    sent.sort_unstable();
    replays.sort_unstable();
    assert_eq!(sent, replays);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_wrong_holds_up_no_attempt() {
    let (bench, _) = Bench::beside_another().await;
    let delivery = bench.disabled_webhook("wh_1", clock_now(&bench.core)).await;
    let (_place, mut claims) = bench.core.dispatcher.join(2);
    let deliveries = &bench.core.shared.deliveries;
    let done = async || deliveries.queue.done(shard_of("wh_1")).await.unwrap();
    let now_ms = clock_now(&bench.core);
    bench.clock.advance(2 * 3_600_000);
    bench.until(async || done().await.is_some()).await;
    pass(&bench, 120).await;
    assert!(done().await.is_some_and(|done| done > minute_of(now_ms)));
    bench.clock.advance(now_ms - clock_now(&bench.core));
    // Nobody notifies the dispatcher of it.
    let replay = Delivery { replay_of: Some(delivery.id.clone()), ..delivery };
    deliveries.create(&[&replay], now_ms).await.unwrap();
    pass(&bench, 300).await;
    assert_eq!(bench.next_claim(&mut claims).await.delivery.id, replay.id);
}

/// The attempts and the status of a delivery.
fn outcome(delivery: &Delivery) -> (Vec<Option<i32>>, Status) {
    (delivery.attempts.iter().map(|attempt| attempt.response_status).collect(), delivery.status())
}

/// Two cores with the same attempt out: one that stood still with it, and one that took the shard over.
struct Takeover {
    former: Bench,
    late: ClaimedAttempt,
    next: Bench,
    again: ClaimedAttempt,
    claims: mpsc::Receiver<ClaimedAttempt>,
    event: String,
    _places: [WorkerPlace; 2],
}

impl Takeover {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let backend = shared_memory(&clock);
        let mut former = Bench::on(Arc::clone(&backend), Arc::clone(&clock)).await;
        former.webhook("wh_1").await;
        let (place, mut claims) = former.core.dispatcher.join(8);
        let event = former.post().await;
        let late = claims.recv().await.unwrap();
        former.core.stop.cancel();
        let next = Bench { core: core(backend, &clock, 2).await, clock, posted: 0 };
        let (next_place, mut claims) = next.core.dispatcher.join(8);
        // This core waits from when it has seen the last heartbeat, so that comes before the clock moves.
        assert!(next.stays_away(&mut claims).await, "the leases are not over");
        next.clock.advance(GONE_MS);
        let again = claims.recv().await.unwrap();
        assert_eq!(again.delivery, late.delivery);
        Self { former, late, next, again, claims, event, _places: [place, next_place] }
    }

    async fn stored(&self) -> (Vec<Option<i32>>, Status) {
        outcome(&self.next.delivery(&self.event, "wh_1").await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_that_a_former_owner_reports_late_stays() {
    for is_first in [true, false] {
        let mut cores = Takeover::new().await;
        let delivered = (vec![Some(200)], Status::Delivered);
        if is_first {
            cores.former.report(&cores.late, 200).await;
            assert_eq!(cores.stored().await, delivered);
            cores.next.report(&cores.again, 500).await;
        } else {
            cores.next.report(&cores.again, 500).await;
            assert_eq!(cores.stored().await, (vec![Some(500)], Status::Retrying));
            cores.former.report(&cores.late, 200).await;
        }
        assert_eq!(cores.stored().await, delivered);
        // The new owner had queued a retry. It removes the row once it is due.
        cores.next.clock.advance(60_000);
        let queue = &cores.next.core.shared.deliveries.queue;
        let to = clock_now(&cores.next.core);
        let is_empty = async || queue.read("wh_1", &(0, String::new()), to, 10).await.unwrap().is_empty();
        cores.next.until(is_empty).await;
        assert!(cores.next.stays_away(&mut cores.claims).await, "sent after a success");
        assert_eq!(cores.stored().await, delivered);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_a_former_owner_reports_late_overwrites_nothing() {
    let cores = Takeover::new().await;
    cores.next.report(&cores.again, 500).await;
    cores.former.report(&cores.late, 502).await;
    assert_eq!(cores.stored().await, (vec![Some(500)], Status::Retrying));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_a_former_owner_queued_stays_until_its_delivery_expects_it() {
    let mut cores = Takeover::new().await;
    let next = &cores.next;
    let waits = || next.core.dispatcher.state.lock().waiting().count() == 1;
    next.set_status("wh_1", WebhookStatus::Disabled).await;
    next.core.dispatcher.release_claim(&cores.again.delivery.id, 1);
    next.until(async || waits()).await;
    // The former owner stands still between the two writes of its report.
    let deliveries = &cores.former.core.shared.deliveries;
    let now_ms = clock_now(&next.core);
    let attempt = Attempt { number: 1, response_status: Some(500), ..Attempt::default() };
    let (before, after) = (Delivery::clone(&cores.late.delivery), cores.late.delivery.after(attempt, now_ms));
    deliveries.queue.enqueue(&[&after], Vec::new(), now_ms).await.unwrap();
    // The new owner takes its shards over again, and reads the retry when it is due.
    next.clock.advance(60_000);
    for _ in 0..50 {
        next.pass_round().await;
    }
    next.until(async || waits()).await;
    let written = deliveries.advance(&[DeliveryChange { before, after, epoch: 1 }], now_ms).await.unwrap();
    assert!(written.iter().all(|written| written.is_ok()));
    assert_eq!(cores.stored().await, (vec![Some(500)], Status::Retrying));
    next.set_status("wh_1", WebhookStatus::Enabled).await;
    let claimed = next.next_claim(&mut cores.claims).await;
    assert_eq!((&claimed.delivery.event_id, claimed.delivery.attempt_count()), (&cores.event, 1));
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_the_last_core_may_have_sent_is_read_first() {
    let (bench, _) = Bench::beside_another().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let serves = || bench.core.dispatcher.shards.serves(shard_of("wh_1"), clock_now(&bench.core));
    bench.until(async || serves()).await;
    // The clock of the core that created it is ahead, and the shard's last core has sent it.
    let (deliveries, now_ms) = (&bench.core.shared.deliveries, clock_now(&bench.core));
    let before = unstored("wh_1", now_ms + CLOCK_SKEW_MS - 1);
    deliveries.create(&[&before], now_ms).await.unwrap();
    let attempt = Attempt { number: 1, response_status: Some(200), ..Attempt::default() };
    let change = DeliveryChange { after: before.after(attempt, now_ms), before: before.clone(), epoch: 1 };
    deliveries.advance(&[change], now_ms).await.unwrap().pop().unwrap().unwrap();
    let pending = PendingDelivery { body: before.body.clone().into(), delivery: before, erasure: 0, epoch: 0 };
    bench.core.shared.hints.add_deliveries([pending]);
    assert!(bench.stays_away(&mut claims).await, "sent twice");
    bench.clock.advance(CLOCK_SKEW_MS);
    assert!(bench.stays_away(&mut claims).await, "sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_to_many_endpoints_costs_at_most_two_and_a_half_requests() {
    const ENDPOINTS: usize = 50;
    const EVENTS: usize = 5;
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(backend.clone(), clock).await;
    let (_place, mut claims) = bench.core.dispatcher.join(2 * ENDPOINTS);
    let shards = &bench.core.dispatcher.shards;
    let now_ms = clock_now(&bench.core);
    let serves_all = async || (0..crate::tables::queue::SHARDS).all(|shard| shards.serves(shard, now_ms));
    bench.until(serves_all).await;
    // Until then it reads deliveries that another core may have sent.
    bench.clock.advance(CLOCK_SKEW_MS);
    assert!(bench.stays_away(&mut claims).await);
    for number in 0..ENDPOINTS {
        bench.webhook(&format!("wh_{number}")).await;
    }
    let tables = [&schema::DELIVERY, &schema::DELIVERY_BUCKET, &schema::QUEUE_MARK, &schema::WEBHOOK_STREAK];
    let requests = || tables.iter().map(|table| backend.partition_requests(table)).sum::<usize>();
    let before = requests();
    for _ in 0..EVENTS {
        bench.post().await;
        for _ in 0..ENDPOINTS {
            let claimed = bench.next_claim(&mut claims).await;
            bench.report(&claimed, 200).await;
        }
    }
    let (made, deliveries) = (requests() - before, ENDPOINTS * EVENTS);
    assert!(made >= 2 * deliveries, "{made} requests for {deliveries} deliveries are too few to be all");
    assert!(2 * made <= 5 * deliveries, "{made} requests for {deliveries} deliveries");
}

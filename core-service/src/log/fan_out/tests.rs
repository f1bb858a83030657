use std::pin::pin;

use bytes::Bytes;
use futures::poll;
use prost::Message as _;
use thesis_proto::v1::{EventType, WebhookStatus};
use tokio::time::timeout;

use super::*;
use crate::{
    domain::{
        account::Actor,
        control::ControlChange,
        delivery::{Delivery, delivery_id},
        entry::{Kind, ThesisCreated},
        row::{Profile, Thesis, Token},
    },
    key,
    service::Core,
    store::{Backend, SharedBackend, schema},
    tables::log::{ImportMark, LogStore},
    tests::{
        faulty::MemoryStore,
        harness::{ManualClock, SharedMemory, core},
    },
};

/// A core that only does what it is asked to, by default on a store that several share.
struct Bench<S = SharedMemory> {
    store: Arc<S>,
    core: Arc<Core>,
    dataset: Dataset,
}

impl Bench {
    async fn new() -> Self {
        let clock = ManualClock::new();
        Self::on(SharedMemory::new(&clock), &clock).await
    }
}

impl<S: Backend> Bench<S> {
    async fn on(store: Arc<S>, clock: &Arc<ManualClock>) -> Self {
        let backend: SharedBackend = store.clone();
        let core = core(backend, clock, 1).await;
        core.stop.cancel();
        let project = core.shared.control.state().projects().next().unwrap().id.clone();
        Self { store, core, dataset: Dataset::of_project(&project) }
    }

    async fn webhook(&self, id: &str, updated_at: i64) {
        let webhook = Webhook {
            id: id.to_owned(),
            project_id: self.dataset.project_id().unwrap().to_owned(),
            events: vec![EventType::ThesisCreated.into()],
            status: WebhookStatus::Enabled.into(),
            updated_at,
            ..Webhook::default()
        };
        self.change(ControlChange::Webhook(webhook)).await;
    }

    async fn change(&self, change: ControlChange) {
        self.core
            .shared
            .control
            .change(Actor::service().does("test"), |_| Ok((vec![change.clone()], ())))
            .await
            .unwrap();
    }

    fn fan_out(&self) -> FanOut {
        FanOut::new(Arc::clone(&self.core.shared), Arc::clone(&self.core.peers), self.dataset.clone())
    }

    /// Appends entries to the log, as another core does; nobody makes their rows.
    async fn append(&self, bodies: &[Bytes]) -> u64 {
        let (log, name) = (LogStore::new(self.store.clone()), self.dataset.to_string());
        let head = log.head(&name, 0, crate::store::Consistency::Quorum).await.unwrap();
        log.append(&name, head, [1; 16], bodies).await.unwrap();
        head + bodies.len() as u64
    }

    async fn checkpoint(&self) -> u64 {
        self.core.shared.log.checkpoint(&self.dataset.to_string(), FAN_OUT).await.unwrap()
    }

    async fn delivery(&self, event: &str, webhook: &str) -> Option<Delivery> {
        self.delivery_at(1, event, webhook).await
    }

    async fn delivery_at(&self, created_at: i64, event: &str, webhook: &str) -> Option<Delivery> {
        self.core.shared.deliveries.get(&delivery_id(webhook, created_at, &[event])).await.unwrap()
    }
}

fn event(number: u64) -> Bytes {
    event_at(number, 1)
}

fn event_at(number: u64, created_at: i64) -> Bytes {
    let created = ThesisCreated {
        thesis: Thesis { id: format!("th_{number}"), ..Thesis::default() },
        profile: Profile { handle: "@one".to_owned(), ..Profile::default() },
        token: Token { symbol: "$ONE".to_owned(), ..Token::default() },
        ..ThesisCreated::default()
    };
    let kind = Some(Kind::ThesisCreated(created));
    let entry = Entry { id: format!("evt_{number}"), created_at, test: true, kind, ..Entry::default() };
    entry.encode_to_vec().into()
}

#[tokio::test]
async fn what_another_core_has_done_is_not_done_again() {
    let bench = Bench::new().await;
    bench.webhook("wh_1", 0).await;
    let (mut one, mut other) = (bench.fan_out(), bench.fan_out());
    let upto = bench.append(&[event(1), event(2)]).await;
    one.advance(upto).await.unwrap();
    other.advance(upto).await.unwrap();
    let writes = bench.store.applied(&schema::DELIVERY);
    assert!(writes > 0 && bench.checkpoint().await == upto);
    // Both learn of another entry; `one` is faster.
    let upto = bench.append(&[event(3)]).await;
    one.advance(upto).await.unwrap();
    let once = bench.store.applied(&schema::DELIVERY);
    other.advance(upto).await.unwrap();
    assert_eq!(bench.store.applied(&schema::DELIVERY), once, "it did it again");
    // `one` fails, and meanwhile the other does the work.
    bench.store.set_away(true);
    let upto = upto + 1;
    one.advance(upto).await.unwrap_err();
    bench.store.set_away(false);
    assert_eq!(bench.append(&[event(4)]).await, upto);
    other.advance(upto).await.unwrap();
    let once = bench.store.applied(&schema::DELIVERY);
    one.advance(upto).await.unwrap();
    assert_eq!(bench.store.applied(&schema::DELIVERY), once, "it did it again");
    assert!(bench.delivery("evt_4", "wh_1").await.is_some());
}

#[tokio::test]
async fn deliveries_that_may_have_been_sent_are_read_first() {
    let bench = Bench::new().await;
    bench.webhook("wh_1", 0).await;
    let (shared, name) = (&bench.core.shared, bench.dataset.to_string());
    let append_own = async |head, number| {
        shared.log.append(&name, head, [1; 16], &[event(number)]).await.unwrap();
        head + 1
    };
    // Numbers of deliveries that go to a worker from memory, and of queues to read.
    let hints = || {
        let hints = shared.hints.take_pending();
        (hints.deliveries.len(), hints.queues.len())
    };
    let mut fan_out = bench.fan_out();
    // The core that appended this may have ended before it stored its position.
    let upto = bench.append(&[event(1)]).await;
    fan_out.advance(upto).await.unwrap();
    assert_eq!(hints(), (0, 1));
    let upto = append_own(upto, 2).await;
    fan_out.advance(upto).await.unwrap();
    assert_eq!(hints(), (1, 0));
    // A write that fails may have created some.
    let upto = append_own(upto, 3).await;
    bench.store.refuse_changes(Some(&key!["wh_1"]));
    fan_out.advance(upto).await.unwrap_err();
    bench.store.refuse_changes(None);
    fan_out.advance(upto).await.unwrap();
    assert_eq!(hints(), (0, 1));
    let upto = append_own(upto, 4).await;
    fan_out.advance(upto).await.unwrap();
    assert_eq!(hints(), (1, 0));
    // So may one that was made for a fan-out which has ended since then.
    let upto = append_own(upto, 5).await;
    bench.store.refuse_changes(Some(&key!["wh_1"]));
    fan_out.advance(upto).await.unwrap_err();
    bench.store.refuse_changes(None);
    let mut fan_out = bench.fan_out();
    fan_out.advance(upto).await.unwrap();
    assert_eq!(hints(), (0, 1));
    let upto = append_own(upto, 6).await;
    fan_out.advance(upto).await.unwrap();
    assert_eq!(hints(), (1, 0));
}

#[tokio::test]
async fn an_event_may_have_more_webhooks_than_a_write_has_deliveries() {
    const WEBHOOKS: usize = 1_100;
    let bench = Bench::new().await;
    bench.webhook("wh_0", 0).await;
    let webhook = Webhook::clone(bench.core.shared.control.state().webhook("wh_0").unwrap());
    let changes =
        (1..WEBHOOKS).map(|number| ControlChange::Webhook(Webhook { id: format!("wh_{number}"), ..webhook.clone() }));
    let changes: Vec<ControlChange> = changes.collect();
    let act = Actor::service().does("test");
    bench.core.shared.control.change(act, |_| Ok((changes.clone(), ()))).await.unwrap();
    let upto = bench.append(&[1, 2, 3, 4, 5].map(event)).await;
    let before = bench.store.applied(&schema::DELIVERY);
    bench.fan_out().advance(upto).await.unwrap();
    assert_eq!(bench.checkpoint().await, upto);
    assert_eq!(bench.store.applied(&schema::DELIVERY) - before, 2 * 5 * WEBHOOKS, "a delivery has two rows");
    for number in [0, 499, 500, 1_099] {
        assert!(bench.delivery("evt_5", &format!("wh_{number}")).await.is_some(), "{number}");
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_holds_up_none_that_follow() {
    let bench = Bench::new().await;
    bench.webhook("wh_1", 0).await;
    let upto = bench.append(&[event(1), Bytes::from_static(b"\xff\xff\xff"), event(3)]).await;
    bench.fan_out().advance(upto).await.unwrap();
    assert_eq!(bench.checkpoint().await, upto);
    for event in ["evt_1", "evt_3"] {
        assert!(bench.delivery(event, "wh_1").await.is_some(), "{event}");
    }
}

#[tokio::test]
async fn an_entry_of_a_newer_version_waits_for_a_core_that_knows_it() {
    let bench = Bench::new().await;
    bench.webhook("wh_1", 0).await;
    let newer = Entry { id: "evt_2".to_owned(), created_at: 1, test: true, ..Entry::default() };
    let upto = bench.append(&[event(1), newer.encode_to_vec().into(), event(3)]).await;
    bench.fan_out().advance(upto).await.unwrap_err();
    assert_eq!(bench.checkpoint().await, upto - 2);
    assert!(bench.delivery("evt_1", "wh_1").await.is_some());
    assert!(bench.delivery("evt_3", "wh_1").await.is_none());
}

#[tokio::test]
async fn a_webhook_that_changed_twice_in_a_millisecond_is_matched_by_its_last_filters() {
    let bench = Bench::new().await;
    let mut fan_out = bench.fan_out();
    bench.webhook("wh_1", 7).await;
    let webhook = Webhook::clone(bench.core.shared.control.state().webhook("wh_1").unwrap());
    for (number, (tokens, gets)) in [(&["$TWO"][..], false), (&[], true), (&["$ONE"], true)].into_iter().enumerate() {
        let tokens = tokens.iter().map(|token| (*token).to_owned()).collect();
        bench.change(ControlChange::Webhook(Webhook { tokens, ..webhook.clone() })).await;
        let upto = bench.append(&[event(number as u64)]).await;
        fan_out.advance(upto).await.unwrap();
        assert_eq!(bench.delivery(&format!("evt_{number}"), "wh_1").await.is_some(), gets, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_core_that_takes_over_matches_entries_again_if_their_position_is_not_stored() {
    let bench = Bench::on(SharedMemory::without_threads(), &ManualClock::new()).await;
    bench.webhook("wh_1", 0).await;
    let webhook = Webhook::clone(bench.core.shared.control.state().webhook("wh_1").unwrap());
    let set_tokens = async |token: &str| {
        let changed = Webhook { tokens: vec![token.to_owned()], ..webhook.clone() };
        bench.change(ControlChange::Webhook(changed)).await;
    };
    set_tokens("$TWO").await;
    let mut one = bench.fan_out();
    let upto = bench.append(&[event(1), event(2)]).await;
    one.advance(upto).await.unwrap();
    assert_eq!((one.done, bench.checkpoint().await), (upto, 0));
    // The first core ends here. The webhook gets the events, as if their fan-out were late.
    set_tokens("$ONE").await;
    let mut other = bench.fan_out();
    let upto = bench.append(&[event(3)]).await;
    other.advance(upto).await.unwrap();
    for event in ["evt_1", "evt_2", "evt_3"] {
        assert!(bench.delivery(event, "wh_1").await.is_some(), "{event}");
    }
    assert_eq!(bench.checkpoint().await, upto);
    // A core that goes on stores its position before it uses new settings.
    set_tokens("$TWO").await;
    let upto = bench.append(&[event(4)]).await;
    other.advance(upto).await.unwrap();
    set_tokens("$ONE").await;
    let upto = bench.append(&[event(5)]).await;
    other.advance(upto).await.unwrap();
    bench.fan_out().advance(upto).await.unwrap();
    let found = [bench.delivery("evt_4", "wh_1").await, bench.delivery("evt_5", "wh_1").await];
    assert_eq!(found.map(|delivery| delivery.is_some()), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_position_that_could_not_be_stored_in_time_is_stored_later() {
    let bench = Bench::on(SharedMemory::without_threads(), &ManualClock::new()).await;
    let mut fan_out = bench.fan_out();
    let upto = bench.append(&[event(1)]).await;
    fan_out.advance(upto).await.unwrap();
    bench.store.refuse_changes(Some(&key![bench.dataset.to_string(), FAN_OUT]));
    let (_sender, mut position) = watch::channel(upto);
    let wait = CHECKPOINT_INTERVAL * 3 / 2;
    timeout(wait, fan_out.wait_for_position(&mut position)).await.unwrap_err();
    assert_eq!(bench.checkpoint().await, 0);
    bench.store.refuse_changes(None);
    timeout(wait, fan_out.wait_for_position(&mut position)).await.unwrap_err();
    assert_eq!(bench.checkpoint().await, upto);
}

#[tokio::test]
async fn events_of_the_time_in_which_a_webhook_was_disabled_are_never_delivered() {
    let bench = Bench::new().await;
    bench.webhook("wh_1", 0).await;
    let mut webhook = Webhook::clone(bench.core.shared.control.state().webhook("wh_1").unwrap());
    webhook.set_status(WebhookStatus::Disabled.into(), 10_000);
    webhook.set_status(WebhookStatus::Enabled.into(), 20_000);
    bench.change(ControlChange::Webhook(webhook)).await;
    let times = [9_000, 11_000, 13_000, 17_000, 19_000, 21_000];
    let events: Vec<Bytes> = (1..).zip(times).map(|(number, at)| event_at(number, at)).collect();
    let upto = bench.append(&events).await;
    bench.fan_out().advance(upto).await.unwrap();
    let mut delivered = Vec::new();
    for (number, at) in (1..).zip(times) {
        if bench.delivery_at(at, &format!("evt_{number}"), "wh_1").await.is_some() {
            delivered.push(at);
        }
    }
    // Within two seconds of a change the clocks of two cores decide nothing.
    assert_eq!(delivered, [9_000, 11_000, 19_000, 21_000]);
}

#[tokio::test]
async fn imported_entries_are_passed_for_good() {
    let bench = Bench::new().await;
    bench.webhook("wh_1", 0).await;
    let (log, name) = (&bench.core.shared.log, bench.dataset.to_string());
    let mark = ImportMark { entries: 3, sha256: [0; 32] };
    log.append_marked(&name, 0, [1; 16], &[event(1), event(2)], Some(&mark)).await.unwrap();
    bench.fan_out().advance(2).await.unwrap();
    // A program that knows nothing of imports goes on from there.
    assert_eq!(bench.checkpoint().await, 3);
    let upto = bench.append(&[event(3), event(4)]).await;
    bench.fan_out().advance(upto).await.unwrap();
    let mut found = Vec::new();
    for number in 1..=4 {
        found.push(bench.delivery(&format!("evt_{number}"), "wh_1").await.is_some());
    }
    assert_eq!(found, [false, false, false, true]);
}

/// The embedded store makes deliveries durable only later, and an edit of their webhook at once.
#[tokio::test(start_paused = true)]
async fn a_crash_after_an_edit_undoes_no_delivery_from_before_it() {
    let bench = Bench::on(Arc::new(MemoryStore::new(true)), &ManualClock::new()).await;
    bench.webhook("wh_1", 0).await;
    let upto = bench.append(&[event(1)]).await;
    bench.fan_out().advance(upto).await.unwrap();
    let webhook = Webhook::clone(bench.core.shared.control.state().webhook("wh_1").unwrap());
    let disabled = Webhook { status: WebhookStatus::Disabled.into(), disabled_at: Some(1), ..webhook };
    bench.change(ControlChange::Webhook(disabled)).await;
    bench.store.lose_power();
    assert!(bench.delivery("evt_1", "wh_1").await.is_some());
    assert_eq!(bench.checkpoint().await, upto);
    // The deliveries of a page under way are among them: an edit waits for its end.
    let held = bench.core.shared.control.hold_settings().await;
    let mut change = pin!(bench.webhook("wh_1", 0));
    for _ in 0..20 {
        assert!(poll!(&mut change).is_pending());
        tokio::task::yield_now().await;
    }
    drop(held);
    change.await;
}

#[tokio::test]
async fn an_event_is_excluded_if_it_is_older_than_its_webhook_by_more_than_the_clock_skew() {
    let (created_at, last_disabled_from, last_disabled_until) = (50_000, 60_000, 70_000);
    let webhook = Webhook { created_at, last_disabled_from, last_disabled_until, ..Webhook::default() };
    let are_excluded = |fan_out: &FanOut, times: [i64; 3]| {
        times.map(|created_at| fan_out.is_excluded(&Entry { created_at, ..Entry::default() }, &webhook))
    };
    let beside_others = Bench::new().await.fan_out();
    assert_eq!(are_excluded(&beside_others, [47_999, 62_001, 67_999]), [true; 3]);
    assert_eq!(are_excluded(&beside_others, [48_000, 62_000, 68_000]), [false; 3]);
    let alone = Bench::on(Arc::new(MemoryStore::new(true)), &ManualClock::new()).await.fan_out();
    assert_eq!(are_excluded(&alone, [49_999, 60_001, 69_999]), [true; 3]);
    assert_eq!(are_excluded(&alone, [50_000, 60_000, 70_000]), [false; 3]);
}

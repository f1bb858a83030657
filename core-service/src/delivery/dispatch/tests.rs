mod cancelled;
mod erased;
mod lanes;
mod outage;
mod reports;
mod shares;
mod takeover;
mod thin;
mod verification;
mod waiting;

use thesis_proto::v1::{EventType, WebhookStatus};

use super::{
    endpoint::{MAX_OUT_PER_WEBHOOK, MIN_OUT_PER_WEBHOOK},
    *,
};
use crate::{
    domain::{
        account::Actor,
        control::ControlChange,
        dataset::Dataset,
        delivery::{Attempt, EventRef, Status, delivery_id},
        row::{NewThesis, Profile, Thesis, Token},
    },
    keys::key_ring::SealPurpose,
    replicas::members::GONE_MS,
    service::Core,
    store::{Change, SharedBackend, schema},
    tests::harness::{ManualClock, SharedMemory, core, memory, shared_memory},
};

const PROJECT: &str = "hooks";

struct Bench {
    clock: Arc<ManualClock>,
    core: Arc<Core>,
    posted: i64,
}

impl Bench {
    async fn new() -> Self {
        let clock = ManualClock::new();
        Self::on(memory(&clock), clock).await
    }

    async fn on(backend: SharedBackend, clock: Arc<ManualClock>) -> Self {
        Self::of(core(backend, &clock, 1).await, clock).await
    }

    async fn of(core: Arc<Core>, clock: Arc<ManualClock>) -> Self {
        let bench = Self { clock, core, posted: 0 };
        let organization_id = bench.core.shared.control.state().organizations().next().unwrap().id.clone();
        bench
            .change(ControlChange::Project(crate::domain::control::Project {
                id: PROJECT.to_owned(),
                organization_id,
                name: PROJECT.to_owned(),
                ..Default::default()
            }))
            .await;
        bench
    }

    /// One core, and another on the same store.
    async fn beside_another() -> (Self, Arc<Core>) {
        let clock = ManualClock::new();
        let backend = shared_memory(&clock);
        let bench = Self::on(Arc::clone(&backend), Arc::clone(&clock)).await;
        (bench, core(backend, &clock, 2).await)
    }

    async fn change(&self, change: ControlChange) {
        self.core
            .shared
            .control
            .change(Actor::service().does("test"), |_| Ok((vec![change.clone()], ())))
            .await
            .unwrap();
    }

    async fn webhook(&self, id: &str) -> Webhook {
        let webhook = Webhook {
            id: id.to_owned(),
            project_id: PROJECT.to_owned(),
            url: format!("https://{id}.example.com/"),
            events: vec![EventType::ThesisCreated.into()],
            status: WebhookStatus::Enabled.into(),
            secret: self.core.shared.keys.seal(SealPurpose::WebhookSecret(id), b"whsec_x"),
            created_at: self.core.shared.clock.now_ms(),
            ..Webhook::default()
        };
        self.change(ControlChange::Webhook(webhook.clone())).await;
        webhook
    }

    async fn post(&mut self) -> String {
        self.post_in(Dataset::of_project(PROJECT)).await
    }

    async fn post_in(&mut self, dataset: Dataset) -> String {
        self.posted += 1;
        let profile = Profile { id: "fp_1".to_owned(), handle: "@one".to_owned(), ..Profile::default() };
        let token = Token { id: "tk_1".to_owned(), symbol: "$ONE".to_owned(), ..Token::default() };
        let thesis = Thesis {
            id: format!("th_{}", self.posted),
            profile_id: profile.id.clone(),
            token_id: token.id.clone(),
            created_at: self.core.shared.clock.now_ms(),
            ..Thesis::default()
        };
        let new = NewThesis {
            thesis,
            profile,
            token,
            test: dataset != Dataset::Live,
            at: None,
            trace: Vec::new(),
            max_theses: None,
        };
        self.core.datasets.create_thesis(&dataset, new).await.unwrap().entry.id
    }

    /// Makes a live webhook of a project that is approved for live access.
    async fn live_webhook(&self, id: &str) {
        self.approve().await;
        let webhook = Webhook { live: true, ..self.webhook(id).await };
        self.change(ControlChange::WebhookDeleted(id.to_owned())).await;
        self.change(ControlChange::Webhook(webhook)).await;
    }

    /// A delivery's status as it counts.
    async fn counted(&self, event: &str, webhook: &str) -> Status {
        let delivery = self.delivery(event, webhook).await;
        let state = self.core.shared.control.state();
        let now_ms = self.core.shared.clock.now_ms();
        DeliveryRule::of(&state, state.webhook(webhook).unwrap(), now_ms).counted(delivery).status()
    }

    async fn find(&self, event: &str, webhook: &str) -> Option<Delivery> {
        let now_ms = self.core.shared.clock.now_ms();
        let page = self.core.shared.deliveries.page(webhook, None, now_ms, 1_000).await.unwrap();
        page.into_iter().filter_map(|(_, delivery)| delivery).find(|delivery| delivery.event_id == event)
    }

    async fn delivery(&self, event: &str, webhook: &str) -> Delivery {
        self.find(event, webhook).await.unwrap()
    }

    /// True if nothing is handed out while the dispatcher looks several times.
    async fn stays_away(&self, claims: &mut mpsc::Receiver<ClaimedAttempt>) -> bool {
        for _ in 0..6 {
            self.pass_round().await;
        }
        claims.try_recv().is_err()
    }

    /// Lets one poll of the dispatcher pass.
    async fn pass_round(&self) {
        tokio::time::sleep(POLL_INTERVAL).await;
        // Paused time runs ahead while the store's own thread works; this waits for it.
        self.core.shared.backend.apply(Vec::new()).await.unwrap();
    }

    /// Waits until a delivery has this status.
    async fn becomes(&self, event: &str, webhook: &str, status: Status) {
        for _ in 0..10_000 {
            if self.find(event, webhook).await.is_some_and(|delivery| delivery.status() == status) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        panic!("{webhook} never became {status:?}");
    }

    async fn report(&self, claimed: &ClaimedAttempt, response_status: i32) {
        let attempt = Attempt {
            number: claimed.delivery.attempt_count() + 1,
            response_status: Some(response_status),
            ..Attempt::default()
        };
        let report = EndedAttempt { delivery: claimed.delivery.id.clone(), attempt };
        self.core.dispatcher.report(vec![report]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_delivery_is_tried_six_times_by_the_table() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    for (number, minutes) in [(1, 1), (2, 5), (3, 30), (4, 120), (5, 720)] {
        let claimed = claims.recv().await.unwrap();
        assert_eq!(
            (claimed.delivery.event_id.as_str(), claimed.delivery.attempt_count() + 1),
            (event.as_str(), number)
        );
        bench.report(&claimed, 500).await;
        let delivery = bench.delivery(&event, "wh_1").await;
        let due = bench.core.shared.clock.now_ms() + minutes * 60_000;
        assert_eq!((delivery.status(), delivery.next_attempt_at), (Status::Retrying, Some(due)));
        bench.clock.advance(minutes * 60_000 - 1);
        assert!(bench.stays_away(&mut claims).await, "attempt {} came early", number + 1);
        bench.clock.advance(1);
    }
    bench.report(&claims.recv().await.unwrap(), 500).await;
    let delivery = bench.delivery(&event, "wh_1").await;
    assert_eq!((delivery.status(), delivery.attempt_count(), delivery.next_attempt_at), (Status::Failed, 6, None));
    bench.clock.advance(86_400_000);
    assert!(bench.stays_away(&mut claims).await);
}

#[tokio::test(start_paused = true)]
async fn a_report_counts_once() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    let claimed = claims.recv().await.unwrap();
    bench.report(&claimed, 204).await;
    bench.report(&claimed, 500).await;
    let delivery = bench.delivery(&event, "wh_1").await;
    assert_eq!((delivery.status(), delivery.attempt_count()), (Status::Delivered, 1));
    assert!(bench.stays_away(&mut claims).await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_no_more_than_it_can_take_and_another_gets_what_it_left() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (place, mut claims) = bench.core.dispatcher.join(2);
    for _ in 0..3 {
        bench.post().await;
    }
    let first = [claims.recv().await.unwrap(), claims.recv().await.unwrap()];
    assert!(bench.stays_away(&mut claims).await, "more than its capacity");
    bench.report(&first[0], 200).await;
    let third = claims.recv().await.unwrap();
    drop((place, claims));

    let (_place, mut claims) = bench.core.dispatcher.join(8);
    assert!(bench.stays_away(&mut claims).await, "attempts under way may still be reported");
    bench.clock.advance(ORPHAN_MS);
    let mut left: Vec<String> = Vec::new();
    for _ in 0..2 {
        left.push(claims.recv().await.unwrap().delivery.id.clone());
    }
    left.sort_unstable();
    let mut expected = [first[1].delivery.id.clone(), third.delivery.id.clone()];
    expected.sort_unstable();
    assert_eq!(left, expected);
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_a_deleted_webhook_end_and_those_of_a_disabled_one_wait() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_deleted").await;
    let mut disabled = bench.webhook("wh_disabled").await;
    let (place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    for _ in 0..2 {
        bench.report(&claims.recv().await.unwrap(), 500).await;
    }
    drop((place, claims));
    bench.change(ControlChange::WebhookDeleted("wh_deleted".to_owned())).await;
    disabled.status = WebhookStatus::Disabled.into();
    bench.change(ControlChange::Webhook(disabled)).await;
    bench.clock.advance(60_000);
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    bench.becomes(&event, "wh_deleted", Status::Failed).await;
    assert!(bench.stays_away(&mut claims).await);
    assert_eq!(bench.delivery(&event, "wh_disabled").await.status(), Status::Retrying);
}

#[tokio::test(start_paused = true)]
async fn one_webhooks_backlog_leaves_room_for_its_neighbours() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_busy").await;
    let (place, mut claims) = bench.core.dispatcher.join(MAX_OUT_PER_WEBHOOK + 8);
    for _ in 0..MAX_OUT_PER_WEBHOOK + 20 {
        bench.post().await;
    }
    bench.webhook("wh_calm").await;
    bench.clock.advance(1);
    bench.post().await;
    loop {
        let claimed = claims.recv().await.unwrap();
        if claimed.webhook.id == "wh_calm" {
            break;
        }
    }
    drop(place);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_fails_and_holds_up_nothing() {
    let mut bench = Bench::new().await;
    let mut sealed_elsewhere = bench.webhook("wh_secret").await;
    sealed_elsewhere.secret = bench.core.shared.keys.seal(SealPurpose::WebhookSecret("wh_other"), b"whsec_x");
    bench.change(ControlChange::Webhook(sealed_elsewhere)).await;
    bench.webhook("wh_fine").await;
    // Deliveries whose events are not in the log, or are no events there.
    let head = bench.core.shared.log.head("sandbox", 0, crate::store::Consistency::Quorum).await.unwrap();
    let at = clock_now(&bench.core) - 1;
    let nothing = |number: u64| {
        let event_id = format!("evt_lost {number}");
        let id = delivery_id("wh_fine", at, &[&event_id]);
        let event = EventRef {
            event_id,
            event_type: 1,
            dataset: "sandbox".to_owned(),
            seq: head + 1 + number,
            trace: Vec::new(),
        };
        Delivery::pending(id, "wh_fine".to_owned(), at, event)
    };
    let garbage = bytes::Bytes::from_static(b"\xff\xff");
    bench.core.shared.log.append("sandbox", head, [9; 16], &[garbage]).await.unwrap();
    let lost: Vec<Delivery> = (0..2).map(nothing).collect();
    bench.core.shared.deliveries.create(&lost.iter().collect::<Vec<_>>(), clock_now(&bench.core)).await.unwrap();
    bench.core.dispatcher.state.lock().read_from(&"wh_fine".into(), at);
    let event = bench.post().await;

    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let claimed = claims.recv().await.unwrap();
    assert_eq!((claimed.webhook.id.as_str(), &claimed.delivery.event_id), ("wh_fine", &event));
    bench.report(&claimed, 200).await;
    for delivery in &lost {
        bench.becomes(&delivery.event_id, "wh_fine", Status::Failed).await;
        let failed = bench.delivery(&delivery.event_id, "wh_fine").await;
        assert_eq!(failed.attempts.len(), 1);
        assert_eq!(failed.attempts[0].failure.as_deref(), Some("the event cannot be read"));
        assert_eq!(failed.next_attempt_at, None);
    }
    // A later attempt may find the secret readable.
    bench.becomes(&event, "wh_secret", Status::Retrying).await;
    let delivery = bench.delivery(&event, "wh_secret").await;
    assert_eq!(delivery.attempts[0].failure.as_deref(), Some("the signing secret cannot be read"));
    assert_eq!(delivery.next_attempt_at, Some(clock_now(&bench.core) + 60_000));
    assert!(bench.stays_away(&mut claims).await);
    assert!(bench.core.dispatcher.state.lock().is_empty(), "nothing is waited for");
}

fn clock_now(core: &Core) -> i64 {
    core.shared.clock.now_ms()
}

fn status_of(bench: &Bench, webhook: &str) -> WebhookStatus {
    let status = bench.core.shared.control.state().webhook(webhook).unwrap().status;
    WebhookStatus::try_from(status).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_gone_disables_its_webhook_at_once() {
    let mut bench = Bench::new().await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(8);
    let event = bench.post().await;
    bench.report(&claims.recv().await.unwrap(), 410).await;
    assert_eq!(status_of(&bench, "wh_1"), WebhookStatus::Disabled);
    assert_eq!(bench.delivery(&event, "wh_1").await.status(), Status::Failed);
    bench.post().await;
    assert!(bench.stays_away(&mut claims).await, "a disabled webhook gets nothing new");
}

#[tokio::test(start_paused = true)]
async fn fifty_failures_in_a_row_over_a_day_disable_a_webhook() {
    let clock = ManualClock::new();
    let backend = SharedMemory::new(&clock);
    let mut bench = Bench::on(backend.clone(), clock).await;
    bench.webhook("wh_1").await;
    let (_place, mut claims) = bench.core.dispatcher.join(1);
    let mut fail = async |bench: &mut Bench, response: i32| {
        bench.post().await;
        let claimed = claims.recv().await.unwrap();
        bench.report(&claimed, response).await;
        // A repeated report is not counted.
        bench.report(&claimed, response).await;
        status_of(bench, "wh_1")
    };
    // Failures within a day disable nothing, however many.
    for _ in 0..50 {
        assert_eq!(fail(&mut bench, 500).await, WebhookStatus::Enabled);
    }
    let calls = backend.calls(&schema::WEBHOOK_STREAK);
    for _ in 0..5 {
        assert_eq!(fail(&mut bench, 500).await, WebhookStatus::Enabled);
    }
    assert_eq!(backend.calls(&schema::WEBHOOK_STREAK), calls + 5, "they are read and not written");
    // A delivered attempt starts the count anew.
    bench.core.shared.deliveries.note_outcomes("wh_1", &[true], bench.core.shared.clock.now_ms()).await.unwrap();
    for _ in 0..49 {
        assert_eq!(fail(&mut bench, 500).await, WebhookStatus::Enabled);
    }
    bench.clock.advance(86_400_000);
    assert_eq!(fail(&mut bench, 500).await, WebhookStatus::DisabledFailing);
    let streak = bench.core.shared.deliveries.note_outcomes("wh_1", &[false], 0).await.unwrap();
    assert_eq!(streak.failures, 1, "whoever enables it begins anew");
}

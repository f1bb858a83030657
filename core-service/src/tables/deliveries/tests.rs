use super::*;
use crate::{
    domain::{
        attempt_counts::AttemptCounts,
        delivery::{Attempt, EventRef, Status, delivery_id},
        window::{HOUR_MS, MINUTE_MS},
    },
    tests::{
        faulty::MemoryStore,
        harness::{NOON, damage_delivery},
    },
};

const WEBHOOK: &str = "wh_1";

fn pending(created_at: i64) -> Delivery {
    let event =
        EventRef { event_id: format!("evt_{created_at}"), dataset: "live".to_owned(), seq: 1, ..EventRef::default() };
    Delivery::pending(delivery_id(WEBHOOK, created_at, &[]), WEBHOOK.to_owned(), created_at, event)
}

/// The change by an attempt with this response, under an epoch.
fn attempted(before: &Delivery, response_status: i32, epoch: i64) -> DeliveryChange {
    let number = before.attempt_count() + 1;
    let attempt = Attempt { number, response_status: Some(response_status), ..Attempt::default() };
    DeliveryChange { after: before.after(attempt, before.created_at + 1), before: before.clone(), epoch }
}

async fn store() -> DeliveryStore {
    let store = DeliveryStore::new(Arc::new(MemoryStore::new(false)), "run".to_owned());
    store.create(&[&pending(NOON)], NOON).await.unwrap();
    store
}

async fn advance(store: &DeliveryStore, change: &DeliveryChange) {
    for outcome in store.advance(std::slice::from_ref(change), NOON).await.unwrap() {
        outcome.unwrap();
    }
}

async fn queued(store: &DeliveryStore) -> Vec<i64> {
    let rows = store.queue.read(WEBHOOK, &(0, String::new()), NOON + DAY_MS, 100).await.unwrap();
    rows.into_iter().map(|row| row.due_at).collect()
}

#[tokio::test]
async fn of_two_owners_a_success_decides_or_else_the_later_one_in_any_order() {
    let first = pending(NOON);
    // The former owner reports late; its successor fails twice and gives the delivery up.
    let one = attempted(&first, 500, 2);
    let two = attempted(&one.after, 410, 2);
    for (late_status, status) in [(200, Status::Delivered), (500, Status::Failed), (410, Status::Failed)] {
        // A core that owns no attempts keeps the epoch of the row that it read, which is 0 here.
        for late_epoch in [0, 1] {
            let late = attempted(&first, late_status, late_epoch);
            let kept = if status == Status::Delivered { &late.after } else { &two.after };
            for order in [[&late, &one, &two], [&one, &late, &two], [&one, &two, &late]] {
                let store = store().await;
                for change in order {
                    advance(&store, change).await;
                }
                let stored = store.get(&first.id).await.unwrap().unwrap();
                assert_eq!((&stored, stored.status()), (kept, status));
                assert!(queued(&store).await.is_empty(), "nothing is due");
                let page = store.page(WEBHOOK, None, NOON, 10).await.unwrap();
                assert_eq!(page, [((NOON, first.id.clone()), Some(kept.clone()))]);
            }
        }
    }
}

#[tokio::test]
async fn a_repeated_change_or_creation_changes_nothing() {
    let first = pending(NOON);
    let store = store().await;
    let failed = attempted(&first, 500, 1);
    for _ in 0..2 {
        advance(&store, &failed).await;
        store.create(&[&first], NOON).await.unwrap();
        assert_eq!(store.get_with_epoch(&first.id).await.unwrap(), Some((failed.after.clone(), 1)));
        assert_eq!(queued(&store).await, [NOON + 1 + MINUTE_MS]);
    }
}

#[tokio::test]
async fn a_page_goes_over_all_buckets_and_on_where_it_ended() {
    let store = DeliveryStore::new(Arc::new(MemoryStore::new(false)), "run".to_owned());
    // Some at the same time, then one in every 20th bucket.
    let times = (0..5).chain((1..100).map(|number| number * 100 * MINUTE_MS)).map(|age| NOON - age);
    let mut created: Vec<Delivery> = times.map(pending).collect();
    store.create(&created.iter().collect::<Vec<_>>(), NOON).await.unwrap();
    created.sort_by_key(|delivery| std::cmp::Reverse(delivery.created_at));
    for limit in [1, 3, 7, 200] {
        let (mut after, mut listed) = (None, Vec::new());
        loop {
            let page = store.page(WEBHOOK, after.as_ref(), NOON, limit).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            listed.extend(page.into_iter().filter_map(|(_, delivery)| delivery));
        }
        assert_eq!(listed, created, "{limit}");
    }
    let all = store.queue.read(WEBHOOK, &(0, String::new()), NOON, 200).await.unwrap();
    assert_eq!(all.len(), created.len());
}

#[tokio::test]
async fn a_damaged_row_keeps_its_place_in_a_page() {
    let backend: SharedBackend = Arc::new(MemoryStore::new(false));
    let store = DeliveryStore::new(Arc::clone(&backend), "run".to_owned());
    let created = [NOON, NOON - 1, NOON - 2].map(pending);
    store.create(&created.iter().collect::<Vec<_>>(), NOON).await.unwrap();
    damage_delivery(&backend, &created[1].id).await;
    let page = store.page(WEBHOOK, None, NOON, 10).await.unwrap();
    let [first, second, third] = created;
    let place = |delivery: &Delivery| (delivery.created_at, delivery.id.clone());
    let expected = [(place(&first), Some(first)), (place(&second), None), (place(&third), Some(third))];
    assert_eq!(page, expected);
}

/// Deliveries of two days and some hours, and what two processes report of them: each a fair share of all responses.
async fn reported(stores: &[DeliveryStore; 2]) {
    let statuses = [Some(200), Some(503), None, Some(204), Some(410)];
    for number in 0..400_usize {
        let created_at = NOON - i64::try_from(number).unwrap() * 7 * MINUTE_MS;
        let mut delivery = pending(created_at);
        stores[number % 2].create(&[&delivery], created_at).await.unwrap();
        for attempt in 0..=number % 4 {
            let Some(due_at) = delivery.next_attempt_at.filter(|due_at| *due_at <= NOON) else { break };
            let status = statuses[(number * 7 + attempt) % statuses.len()];
            let latency_ms = i32::try_from(number * 13 % 5_000).unwrap();
            let attempt = Attempt {
                number: delivery.attempt_count() + 1,
                started_at: due_at,
                response_status: status,
                latency_ms,
                failure: None,
            };
            let after = delivery.after(attempt, due_at + i64::from(latency_ms));
            let change = DeliveryChange { before: delivery, after: after.clone(), epoch: 1 };
            advance(&stores[(number + 1) % 2], &change).await;
            delivery = after;
        }
    }
}

#[tokio::test]
async fn the_counts_are_those_of_the_delivery_log() {
    let backend: SharedBackend = Arc::new(MemoryStore::new(false));
    let stores = ["a", "b"].map(|run| DeliveryStore::new(backend.clone(), run.to_owned()));
    reported(&stores).await;
    // As a process reads them that has started since.
    let reader = DeliveryStore::new(backend, "c".to_owned());
    let totals = reader.attempt_totals(WEBHOOK, NOON).await.unwrap();
    let page = reader.page(WEBHOOK, None, NOON, 1_000).await.unwrap();
    let log: Vec<Delivery> = page.into_iter().filter_map(|(_, delivery)| delivery).collect();
    assert_eq!(log.len(), 400);
    let recount = |since: i64| {
        let mut counts = AttemptCounts::default();
        for attempt in log.iter().flat_map(|delivery| &delivery.attempts).filter(|attempt| attempt.started_at >= since)
        {
            counts.add_attempt(attempt.has_succeeded(), attempt.response_status.map(|_| attempt.latency_ms));
        }
        counts
    };
    for (shown, since) in [&totals.hour, &totals.day].into_iter().zip(AttemptTotals::begins(NOON)) {
        let expected = recount(since);
        assert!(expected.attempts > 5 && expected.attempts < recount(0).attempts);
        assert_eq!(AttemptCounts { began_retrying: 0, ended_retrying: 0, ..shown.clone() }, expected);
    }
    let mut sum = AttemptCounts::default();
    totals.hours.iter().for_each(|counts| sum.add(counts));
    assert_eq!(sum, totals.day);
    let last_hour = totals.hours.last().unwrap();
    assert_eq!(last_hour, &totals.hour);
    assert_eq!(totals.by_hour(NOON).last().map(|(begin, _)| begin), Some(AttemptTotals::begins(NOON)[0]));
    let oldest = async |counted: fn(Delivery) -> Delivery| {
        reader.oldest_pending(WEBHOOK, &totals, Some(NOON - DAY_MS), NOON, counted).await.unwrap()
    };
    let pending = log.iter().filter(|delivery| !delivery.is_over()).map(|delivery| delivery.created_at).min();
    assert!(pending.is_some());
    assert_eq!(oldest(|delivery| delivery).await, pending);
    assert_eq!(oldest(|delivery| delivery.cancelled()).await, None, "the rule has ended all of them");
}

#[tokio::test]
async fn the_oldest_delivery_may_wait_for_its_first_attempt() {
    let store = store().await;
    store.create(&[&pending(NOON - HOUR_MS), &pending(NOON - DAY_MS)], NOON).await.unwrap();
    let totals = store.attempt_totals(WEBHOOK, NOON).await.unwrap();
    let oldest = async |since: Option<i64>| {
        store.oldest_pending(WEBHOOK, &totals, since, NOON, |delivery| delivery).await.unwrap()
    };
    assert_eq!(oldest(Some(NOON - 2 * HOUR_MS)).await, Some(NOON - HOUR_MS));
    assert_eq!(oldest(Some(NOON - 2 * DAY_MS)).await, Some(NOON - DAY_MS));
    // A backlog is followed to its begin, and what lies before it costs no read.
    assert_eq!(oldest(None).await, Some(NOON - HOUR_MS));
    let backlog: Vec<Delivery> = (0..60).map(|age| pending(NOON - age * 5 * MINUTE_MS)).collect();
    store.create(&backlog.iter().collect::<Vec<_>>(), NOON).await.unwrap();
    assert_eq!(oldest(None).await, Some(NOON - 59 * 5 * MINUTE_MS));
}

#[tokio::test]
async fn the_oldest_delivery_is_found_beside_a_damaged_one() {
    let backend: SharedBackend = Arc::new(MemoryStore::new(false));
    let store = DeliveryStore::new(Arc::clone(&backend), "run".to_owned());
    let [damaged, retried] = [NOON, NOON + 1].map(pending);
    store.create(&[&damaged, &retried], NOON).await.unwrap();
    advance(&store, &attempted(&retried, 503, 1)).await;
    damage_delivery(&backend, &damaged.id).await;
    let totals = store.attempt_totals(WEBHOOK, NOON).await.unwrap();
    let oldest = store.oldest_pending(WEBHOOK, &totals, None, NOON, |delivery| delivery).await.unwrap();
    assert_eq!(oldest, Some(NOON + 1));
}

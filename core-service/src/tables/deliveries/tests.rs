use std::sync::Arc;

use super::*;
use crate::{
    domain::{
        delivery::{Attempt, EventRef, Status, delivery_id},
        window::MINUTE_MS,
    },
    tests::{faulty::MemoryStore, harness::NOON},
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
    let store = DeliveryStore::new(Arc::new(MemoryStore::new(false)));
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
                assert_eq!(page, [((NOON, first.id.clone()), kept.clone())]);
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
    let store = DeliveryStore::new(Arc::new(MemoryStore::new(false)));
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
            listed.extend(page.into_iter().map(|(_, delivery)| delivery));
        }
        assert_eq!(listed, created, "{limit}");
    }
    let all = store.queue.read(WEBHOOK, &(0, String::new()), NOON, 200).await.unwrap();
    assert_eq!(all.len(), created.len());
}

//! What keys are used for, by hour, kept over a restart.

use std::{collections::BTreeMap, time::Duration};

use thesis_proto::{
    time::{from_millis, to_millis},
    v1::{self, Environment},
};

use crate::harness::{Service, Store, eventually, now_ms};

on_stores_of_their_own![requests_are_counted_by_hour_key_and_class];

/// Usage is stored once a minute, and when a core ends.
const STORED: Duration = Duration::from_secs(100);
const HOUR_MS: i64 = 3_600_000;

async fn requests_are_counted_by_hour_key_and_class(store: Store) {
    let mut service = Service::on(&store, |setup| setup).await;
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    let (used, raw) = owner.key(&project, Environment::Test).await;
    let (unused, _) = owner.key(&project, Environment::Test).await;
    let (client, began) = (service.client(&raw), now_ms());
    for _ in 0..3 {
        client.get("/v1/theses").await.ok(200);
    }
    client.get("/v1/theses/th_unknown").await.error(404, "THESIS_NOT_FOUND");
    client.get("/v1/theses?limit=0").await.error(422, "VALIDATION_FAILED");
    // The core, which is stopped as an operator stops it.
    service.end(0, "TERM").await;
    service.start_again(0).await;
    service.is_ready().await;

    let asked = v1::ListKeyUsageRequest { project_id: project.clone(), from: Some(from_millis(began)), to: None };
    let rows = eventually("the usage is told", STORED, async || {
        let rows = owner.ask().list_key_usage(asked.clone()).await.ok()?.into_inner().data;
        (rows.iter().map(|row| row.requests).sum::<u64>() >= 5).then_some(rows)
    })
    .await;
    let mut sums = BTreeMap::<(&str, &str), (u64, u64)>::new();
    for row in &rows {
        let hour = to_millis(row.hour.as_ref().unwrap());
        assert!(hour % HOUR_MS == 0 && hour + HOUR_MS > began && hour <= now_ms(), "{row:?}");
        let sum = sums.entry((&*row.key_id, &*row.class)).or_default();
        *sum = (sum.0 + row.requests, sum.1 + row.errors);
    }
    assert_eq!(sums, BTreeMap::from([((&*used.id, "standard"), (5, 2))]), "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| row.hour.map(|hour| to_millis(&hour))));
    let later = v1::ListKeyUsageRequest { from: Some(from_millis(began + 2 * HOUR_MS)), ..asked };
    assert!(owner.ask().list_key_usage(later).await.unwrap().into_inner().data.is_empty());

    let list = v1::AccountServiceListKeysRequest { project_id: project };
    let keys = owner.ask().list_keys(list).await.unwrap().into_inner().data;
    let last_use = |id: &str| keys.iter().find(|key| key.id == id).unwrap().last_used_at.map(|at| to_millis(&at));
    assert!(last_use(&used.id).is_some_and(|at| (began - 60_000..=now_ms()).contains(&at)), "{keys:?}");
    assert_eq!(last_use(&unused.id), None);
}

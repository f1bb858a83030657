//! Conditional writes.

use futures::future::join_all;

use super::{body, fresh, slice, stored, transact, when};
use crate::{
    key,
    store::{
        ConditionalWrite, Consistency, Expect, Scan, SharedBackend, Transaction,
        schema::{ATTEMPTS, EVENT_LOG, IDEMPOTENCY},
    },
};

pub(crate) async fn absent_is_a_condition(backend: &SharedBackend) {
    let key = key![fresh("absent"), "k"];
    let first = |text| vec![when(vec![], Expect::Absent, 1, text)];
    assert!(transact(backend, &IDEMPOTENCY, key.clone(), first("one")).await);
    assert!(!transact(backend, &IDEMPOTENCY, key.clone(), first("two")).await);
    assert_eq!(stored(backend, &IDEMPOTENCY, &key).await, Some((1, "one".to_owned())));
}

pub(crate) async fn version_is_a_condition(backend: &SharedBackend) {
    let key = key![fresh("version"), "k"];
    let step = |from, to| vec![when(vec![], Expect::Version(from), to, "row")];
    assert!(!transact(backend, &IDEMPOTENCY, key.clone(), step(1, 2)).await);
    assert!(transact(backend, &IDEMPOTENCY, key.clone(), vec![when(vec![], Expect::Absent, 7, "row")]).await);
    assert!(!transact(backend, &IDEMPOTENCY, key.clone(), step(6, 8)).await);
    assert!(transact(backend, &IDEMPOTENCY, key.clone(), step(7, 8)).await);
    assert!(!transact(backend, &IDEMPOTENCY, key.clone(), step(7, 9)).await);
    // Here a version is only compared, so it may also fall.
    assert!(transact(backend, &IDEMPOTENCY, key.clone(), step(8, 3)).await);
    assert_eq!(stored(backend, &IDEMPOTENCY, &key).await, Some((3, "row".to_owned())));
}

pub(crate) async fn any_is_none(backend: &SharedBackend) {
    let log = key![fresh("any"), 0];
    for (head, text) in [(Expect::Absent, "first"), (Expect::Version(0), "second")] {
        let version = if head == Expect::Absent { 0 } else { 1 };
        let writes = vec![when(key![-1], head, version, ""), when(key![0], Expect::Any, 1, text)];
        assert!(transact(backend, &EVENT_LOG, log.clone(), writes).await);
        let row = [log.clone(), key![0]].concat();
        assert_eq!(stored(backend, &EVENT_LOG, &row).await, Some((1, text.to_owned())));
    }
}

/// A log with a head, without entries.
async fn log_with_head(backend: &SharedBackend) -> Vec<crate::store::Value> {
    let log = key![fresh("log"), 3];
    assert!(transact(backend, &EVENT_LOG, log.clone(), vec![when(key![-1], Expect::Absent, 1, "head")]).await);
    log
}

pub(crate) async fn all_or_nothing(backend: &SharedBackend) {
    let log = log_with_head(backend).await;
    let batch = |head, second| {
        vec![
            when(key![1], Expect::Any, 1, "one"),
            when(key![-1], Expect::Version(head), 3, "head"),
            when(key![2], second, 1, "two"),
        ]
    };
    let all = Scan::all(&EVENT_LOG, log.clone(), 100);
    for refused in [batch(0, Expect::Any), batch(2, Expect::Absent), batch(1, Expect::Version(1))] {
        assert!(!transact(backend, &EVENT_LOG, log.clone(), refused).await);
        assert_eq!(slice(backend, &all).await, [key![-1]]);
    }
    assert!(transact(backend, &EVENT_LOG, log.clone(), batch(1, Expect::Absent)).await);
    assert_eq!(slice(backend, &all).await, [key![-1], key![1], key![2]]);
    assert_eq!(stored(backend, &EVENT_LOG, &[log, key![-1]].concat()).await, Some((3, "head".to_owned())));
}

pub(crate) async fn deletion_by_condition(backend: &SharedBackend) {
    let subject = key![fresh("deleted")];
    let release = |version| {
        vec![ConditionalWrite {
            clustering: vec![],
            expect: Expect::Version(version),
            version: version + 1,
            body: None,
        }]
    };
    assert!(transact(backend, &ATTEMPTS, subject.clone(), vec![when(vec![], Expect::Absent, 1, "mine")]).await);
    assert!(!transact(backend, &ATTEMPTS, subject.clone(), release(2)).await);
    assert_eq!(stored(backend, &ATTEMPTS, &subject).await, Some((1, "mine".to_owned())));
    assert!(transact(backend, &ATTEMPTS, subject.clone(), release(1)).await);
    assert_eq!(stored(backend, &ATTEMPTS, &subject).await, None);
    assert!(transact(backend, &ATTEMPTS, subject, vec![when(vec![], Expect::Absent, 1, "next")]).await);
}

pub(crate) async fn conditions_are_per_partition(backend: &SharedBackend) {
    let dataset = fresh("apart");
    for bucket in [0, 1] {
        let writes = vec![when(key![-1], Expect::Absent, bucket, "head"), when(key![5], Expect::Absent, 1, "entry")];
        assert!(transact(backend, &EVENT_LOG, key![&dataset, bucket], writes).await);
    }
    let step = vec![when(key![-1], Expect::Version(0), 9, "moved")];
    assert!(transact(backend, &EVENT_LOG, key![&dataset, 0], step.clone()).await);
    assert!(!transact(backend, &EVENT_LOG, key![&dataset, 1], step).await);
    assert_eq!(stored(backend, &EVENT_LOG, key![&dataset, 1, -1]).await, Some((1, "head".to_owned())));
}

/// Sixteen appenders race for each place. One of them wins, or none if some are in doubt.
pub(crate) async fn one_winner_a_round(backend: &SharedBackend) {
    let log = log_with_head(backend).await;
    for round in 1..6 {
        let racers = (0..16).map(|racer: i64| {
            let (backend, partition) = (backend.clone(), log.clone());
            tokio::spawn(async move {
                let name = racer.to_string();
                let writes = vec![
                    when(key![-1], Expect::Version(round), round + 1, &name),
                    when(key![round], Expect::Any, 1, &name),
                ];
                let won = backend.transact(Transaction { table: &EVENT_LOG, partition, writes, ttl: None }).await;
                (racer, won)
            })
        });
        let answers: Vec<_> = join_all(racers).await.into_iter().map(|racer| racer.unwrap()).collect();
        let winners: Vec<_> =
            answers.iter().filter(|(_, won)| matches!(won, Ok(true))).map(|(racer, _)| *racer).collect();
        let in_doubt = answers.iter().filter(|(_, won)| won.is_err()).count();
        assert!(winners.len() == 1 || winners.is_empty() && in_doubt > 0, "{answers:?}");
        let head =
            backend.get(&EVENT_LOG, &[log.clone(), key![-1]].concat(), Consistency::Serial).await.unwrap().unwrap();
        let entry = backend.get(&EVENT_LOG, &[log.clone(), key![round]].concat(), Consistency::Serial).await.unwrap();
        assert_eq!(head.version, round + 1);
        assert_eq!(entry.unwrap().body, head.body);
        if let [winner] = winners[..] {
            assert_eq!(head.body, body(&winner.to_string()));
        }
    }
}

pub(crate) async fn serial_read_sees_winner(backend: &SharedBackend) {
    let log = log_with_head(backend).await;
    for version in 1..10 {
        let writes = vec![when(key![-1], Expect::Version(version), version + 1, "head")];
        assert!(transact(backend, &EVENT_LOG, log.clone(), writes).await);
        let scan = Scan { consistency: Consistency::Serial, ..Scan::all(&EVENT_LOG, log.clone(), 10) };
        assert_eq!(backend.scan(&scan).await.unwrap()[0].version, version + 1);
    }
}

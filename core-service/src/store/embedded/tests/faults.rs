//! A disk that is full, fails, or loses unsynced writes.

use std::sync::{Arc, atomic::Ordering};

use thesis_net::clock::SystemIdSource;

use super::{super::*, Fixed, applied, apply, disk::Disk, insert, inserted};

fn open(disk: &Disk) -> EmbeddedStore {
    open_at(disk, &Arc::default())
}

fn open_at(disk: &Disk, clock: &Arc<Fixed>) -> EmbeddedStore {
    // A cache too small to hide the disk.
    let options = Options { cache_bytes: 0, ..Options::default() };
    EmbeddedStore::open_with_backends(disk.files(), options, clock.clone(), &SystemIdSource).unwrap()
}

#[tokio::test]
async fn full_disk_refuses_writes_and_recovers() {
    let (disk, clock) = (Disk::empty(), Arc::<Fixed>::default());
    let store = open_at(&disk, &clock);
    insert(&store, "early").await.unwrap();
    apply(&store, "not yet synced", 5).await.unwrap();
    disk.room(0);
    for attempt in 0..3 {
        let refused = insert(&store, "late").await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable(_)), "{attempt}: {refused}");
        assert!(matches!(apply(&store, "late", 5).await, Err(StoreError::Unavailable(_))));
        assert!(store.check().await.is_err());
        assert!(inserted(&store, "early").await);
        assert_eq!(applied(&store, "not yet synced").await, Some(5));
        assert!(!inserted(&store, "late").await);
        assert_eq!(applied(&store, "late").await, None);
    }
    disk.room(i64::MAX);
    // The disk is tried once in a second.
    assert!(matches!(insert(&store, "late").await, Err(StoreError::Unavailable(_))));
    clock.0.store(1_000, Ordering::SeqCst);
    assert!(insert(&store, "late").await.unwrap());
    apply(&store, "late", 6).await.unwrap();
    store.check().await.unwrap();
    assert!(inserted(&store, "early").await);
    store.close().await.unwrap();
    let again = open(&disk.after_power_loss());
    assert!(inserted(&again, "early").await && inserted(&again, "late").await);
    assert_eq!(applied(&again, "not yet synced").await, Some(5));
    assert_eq!(applied(&again, "late").await, Some(6));
}

/// The disk fails after each possible number of writes. An acknowledged row is there, before and after a loss of
/// power; a row neither acknowledged nor in doubt is not.
#[tokio::test]
async fn every_failing_write_is_reported_and_survived() {
    let mut in_doubt = 0;
    for room in 0.. {
        let (disk, clock) = (Disk::empty(), Arc::<Fixed>::default());
        let store = open_at(&disk, &clock);
        insert(&store, "early").await.unwrap();
        apply(&store, "early", 5).await.unwrap();
        disk.room(room);
        let answer = insert(&store, "tested").await;
        match &answer {
            Ok(done) => assert!(done),
            Err(StoreError::Unavailable(_)) => assert!(!inserted(&store, "tested").await, "{room}"),
            Err(StoreError::InDoubt(_)) => in_doubt += 1,
            Err(StoreError::Damaged(reason) | StoreError::Unknown(reason)) => panic!("{room}: {reason}"),
        }
        assert!(inserted(&store, "early").await);
        assert_eq!(applied(&store, "early").await, Some(5), "{room}");
        let lost = open(&disk.after_power_loss());
        assert!(inserted(&lost, "early").await);
        if answer.is_ok() {
            assert!(inserted(&lost, "tested").await, "{room}");
            assert_eq!(applied(&lost, "early").await, Some(5), "{room}");
        }
        disk.room(i64::MAX);
        clock.0.store(1_000, Ordering::SeqCst);
        // Repeating the write settles it.
        let absent = !inserted(&store, "tested").await;
        assert_eq!(insert(&store, "tested").await.unwrap(), absent);
        drop(store);
        let lost = open(&disk.after_power_loss());
        assert!(inserted(&lost, "tested").await);
        assert_eq!(applied(&lost, "early").await, Some(5));
        if answer.is_ok() {
            assert!(room > 3 && in_doubt < room, "{room} {in_doubt}");
            return;
        }
    }
}

#[tokio::test]
async fn loss_of_power_undoes_no_conditional_write() {
    let disk = Disk::empty();
    let store = open(&disk);
    apply(&store, "before", 5).await.unwrap();
    insert(&store, "durable").await.unwrap();
    apply(&store, "after", 5).await.unwrap();
    let lost = open(&disk.after_power_loss());
    assert!(inserted(&lost, "durable").await);
    assert_eq!(applied(&lost, "before").await, Some(5));
    assert_eq!(applied(&lost, "after").await, None);
}

#[tokio::test]
async fn applied_is_durable_after_a_second() {
    let (disk, clock) = (Disk::empty(), Arc::new(Fixed::default()));
    let store = open_at(&disk, &clock);
    for (at, lost) in [(0, true), (999, true), (1_000, false)] {
        clock.0.store(at, Ordering::SeqCst);
        apply(&store, "row", at + 1).await.unwrap();
        // The flush comes after the answer, and before this one.
        store.apply(Vec::new()).await.unwrap();
        let found = applied(&open(&disk.after_power_loss()), "row").await;
        assert_eq!(found, (!lost).then_some(at + 1), "{at}");
    }
}

#[tokio::test]
async fn synced_is_durable_at_once() {
    let disk = Disk::empty();
    let store = open(&disk);
    apply(&store, "before", 5).await.unwrap();
    assert_eq!(applied(&open(&disk.after_power_loss()), "before").await, None);
    store.sync().await.unwrap();
    apply(&store, "after", 5).await.unwrap();
    let lost = open(&disk.after_power_loss());
    assert_eq!((applied(&lost, "before").await, applied(&lost, "after").await), (Some(5), None));
}

#[tokio::test]
async fn failed_read_is_read_again() {
    let disk = Disk::empty();
    let store = open(&disk);
    insert(&store, "row").await.unwrap();
    apply(&store, "row", 5).await.unwrap();
    disk.fail_read();
    assert!(inserted(&store, "row").await);
    assert!(!disk.fails_read());
    assert_eq!(applied(&store, "row").await, Some(5));
    store.check().await.unwrap();
    assert!(insert(&store, "next").await.unwrap());
}

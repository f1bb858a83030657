//! A disk that is full, fails, or loses what was not synced.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use parking_lot::Mutex;
use redb::StorageBackend;

use super::{super::*, Fixed, applied, apply, insert, inserted};

/// A disk in memory.
#[derive(Clone, Debug)]
struct Disk(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    /// What programs see, and what a loss of power leaves.
    bytes: Mutex<(Vec<u8>, Vec<u8>)>,
    /// Writes that still work.
    writes_left: AtomicI64,
    /// Reads fail once.
    fail_read: AtomicBool,
}

impl Disk {
    fn new(bytes: Vec<u8>) -> Self {
        let bytes = Mutex::new((bytes.clone(), bytes));
        Self(Arc::new(Inside { bytes, writes_left: i64::MAX.into(), fail_read: false.into() }))
    }

    fn room(&self, writes: i64) {
        self.0.writes_left.store(writes, Ordering::SeqCst);
    }

    fn after_power_loss(&self) -> Self {
        Self::new(self.0.bytes.lock().1.clone())
    }

    fn write_one(&self) -> io::Result<()> {
        let left = self.0.writes_left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 {
            return Ok(());
        }
        self.room(0);
        Err(io::ErrorKind::StorageFull.into())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.0.fail_read.swap(false, Ordering::SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
        let offset = usize::try_from(offset).unwrap();
        let bytes = self.0.bytes.lock();
        let read = bytes.0.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(read);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write_one()?;
        self.0.bytes.lock().0.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.write_one()?;
        let mut bytes = self.0.bytes.lock();
        bytes.1 = bytes.0.clone();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_one()?;
        let offset = usize::try_from(offset).unwrap();
        self.0.bytes.lock().0[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn open(disk: &Disk) -> EmbeddedStore {
    // A cache too small to hide the disk.
    let options = Options { cache_bytes: 0, ..Options::default() };
    EmbeddedStore::open_with_backend(disk.clone(), options, Arc::new(Fixed::default())).unwrap()
}

#[tokio::test]
async fn full_disk_refuses_writes_and_recovers() {
    let disk = Disk::new(Vec::new());
    let store = open(&disk);
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

/// Fails after each possible number of writes: what was acknowledged is there, before and after a loss of power, and
/// what is neither acknowledged nor in doubt is not.
#[tokio::test]
async fn every_failing_write_is_told_and_survived() {
    let mut in_doubt = 0;
    for room in 0.. {
        let disk = Disk::new(Vec::new());
        let store = open(&disk);
        insert(&store, "early").await.unwrap();
        apply(&store, "early", 5).await.unwrap();
        disk.room(room);
        let answer = insert(&store, "tested").await;
        match &answer {
            Ok(done) => assert!(done),
            Err(StoreError::Unavailable(_)) => assert!(!inserted(&store, "tested").await, "{room}"),
            Err(StoreError::InDoubt(_)) => in_doubt += 1,
            Err(StoreError::Damaged(reason)) => panic!("{room}: {reason}"),
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
        // Repeating it settles it.
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
    let disk = Disk::new(Vec::new());
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
    let (disk, clock) = (Disk::new(Vec::new()), Arc::new(Fixed::default()));
    let store = EmbeddedStore::open_with_backend(disk.clone(), Options::default(), clock.clone()).unwrap();
    for (at, lost) in [(0, true), (999, true), (1_000, false)] {
        clock.0.store(at, Ordering::SeqCst);
        apply(&store, "row", at + 1).await.unwrap();
        let found = applied(&open(&disk.after_power_loss()), "row").await;
        assert_eq!(found, (!lost).then_some(at + 1), "{at}");
    }
}

#[tokio::test]
async fn failed_read_is_read_again() {
    let disk = Disk::new(Vec::new());
    let store = open(&disk);
    insert(&store, "row").await.unwrap();
    apply(&store, "row", 5).await.unwrap();
    disk.0.fail_read.store(true, Ordering::SeqCst);
    assert!(inserted(&store, "row").await);
    assert!(!disk.0.fail_read.load(Ordering::SeqCst));
    assert_eq!(applied(&store, "row").await, Some(5));
    store.check().await.unwrap();
    assert!(insert(&store, "next").await.unwrap());
}

//! An append to a log is durable at once, and the rows of its entries follow.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use thesis_net::clock::SystemIdSource;

use super::{
    super::{batch::Batch, database::begin_write, *},
    Fixed, append, append_entry, applied, apply,
    disk::Disk,
    head, insert, rows_follow, write_row,
};
use crate::{
    key,
    store::{
        ConditionalWrite, Expect,
        schema::{SIGNED_TREE, TREE_TILE},
    },
};

fn open_at(disk: &Disk, clock: &Arc<Fixed>) -> EmbeddedStore {
    // A cache too small to hide the disk.
    let options = Options { cache_bytes: 0, ..Options::default() };
    EmbeddedStore::open_with_backends(disk.files(), options, clock.clone(), &SystemIdSource).unwrap()
}

fn open(disk: &Disk) -> EmbeddedStore {
    open_at(disk, &Arc::default())
}

#[tokio::test]
async fn an_append_is_durable_and_its_rows_follow() {
    let (disk, clock) = (Disk::empty(), Arc::<Fixed>::default());
    let store = open_at(&disk, &clock);
    for seq in 0..3 {
        assert!(append(&store, seq).await.unwrap());
    }
    assert_eq!(rows_follow(&store, 3).await, 3);
    let lost = open(&disk.after_power_loss());
    assert_eq!((rows_follow(&lost, 0).await, applied(&lost, "3").await), (3, None));
    // Rows that must be durable bring those before them along.
    insert(&store, "row").await.unwrap();
    assert_eq!(rows_follow(&open(&disk.after_power_loss()), 3).await, 3);
    assert!(append(&store, 3).await.unwrap());
    let lost = open(&disk.after_power_loss());
    assert_eq!((rows_follow(&lost, 3).await, applied(&lost, "4").await), (4, None));
    // So do a second and a sync. The flush of a second comes after the answer to an append, and before its row.
    clock.0.store(1_000, Ordering::SeqCst);
    assert!(append(&store, 4).await.unwrap());
    let lost = open(&disk.after_power_loss());
    assert_eq!((rows_follow(&lost, 4).await, applied(&lost, "5").await), (5, None));
    assert!(append(&store, 5).await.unwrap());
    store.sync().await.unwrap();
    assert_eq!(rows_follow(&open(&disk.after_power_loss()), 6).await, 6);
    // Neither an append whose condition fails nor a sync with nothing to sync waits for the disk.
    let syncs = disk.syncs();
    assert!(!append(&store, 1).await.unwrap());
    store.sync().await.unwrap();
    assert_eq!(disk.syncs(), syncs);
    assert_eq!(rows_follow(&store, 6).await, 6);
}

#[tokio::test]
async fn a_signed_checkpoint_is_durable_after_its_tiles_and_waits_for_no_rows() {
    let disk = Disk::empty();
    let store = open(&disk);
    let body = Some(Bytes::from_static(b"hash"));
    let key = key!["d", "gen_1", 0, 0, 0];
    apply(&store, "row", 5).await.unwrap();
    store.apply(vec![Change { table: &TREE_TILE, key, version: 1, body: body.clone(), ttl: None }]).await.unwrap();
    let write = ConditionalWrite { clustering: key!["log", "checkpoint"], expect: Expect::Absent, version: 1, body };
    let (table, partition, writes) = (&SIGNED_TREE, key!["d"], vec![write]);
    assert!(store.transact(Transaction { table, partition, writes, ttl: None }).await.unwrap());
    let lost = open(&disk.after_power_loss());
    for table in [&TREE_TILE, &SIGNED_TREE] {
        assert_eq!(lost.all(table).await.unwrap().len(), 1, "{}", table.name);
    }
    assert_eq!(applied(&lost, "row").await, None);
}

/// Beside other writes, such an append commits nothing to the log's file.
#[tokio::test]
async fn an_append_whose_condition_fails_writes_nothing() {
    let store = open(&Disk::empty());
    assert!(append(&store, 0).await.unwrap());
    let opened = store.current.read().store.clone().unwrap();
    let tx = begin_write(&opened.databases).unwrap();
    let mut batch = Batch::new(&tx, &opened.numbers, 0);
    let write = ConditionalWrite { clustering: key![-1], expect: Expect::Absent, version: 1, body: None };
    let lost = Transaction { table: &EVENT_LOG, partition: key!["d", 0], writes: vec![write], ttl: None };
    assert_eq!(batch.run(&Write::Transact(lost, Vec::new())).unwrap(), WriteOutcome::Transacted(false));
    let (written, _) = batch.close();
    assert!(!written.log && !written.rows);
}

/// The disk fails after each possible number of writes of an append and its row. An acknowledged entry is there, before
/// and after a loss of power; one neither acknowledged nor in doubt is not. No row is ever there without its entry.
#[tokio::test]
async fn every_failing_write_of_an_append_is_reported_and_survived() {
    let (mut in_doubt, mut without_row) = (0, 0);
    for room in 0.. {
        let (disk, clock) = (Disk::empty(), Arc::<Fixed>::default());
        let store = open_at(&disk, &clock);
        assert!(append(&store, 0).await.unwrap());
        apply(&store, "early", 5).await.unwrap();
        disk.room(room);
        let answer = append_entry(&store, 1).await;
        let has_row = answer.is_ok() && write_row(&store, 2).await.is_ok();
        let found = rows_follow(&store, if has_row { 2 } else { 1 }).await;
        match &answer {
            Ok(done) => assert!(*done && found == 2),
            Err(StoreError::Unavailable(_)) => assert_eq!(found, 1, "{room}"),
            Err(StoreError::InDoubt(_)) => in_doubt += 1,
            Err(StoreError::Damaged(reason) | StoreError::Unknown(reason)) => panic!("{room}: {reason}"),
        }
        without_row += i32::from(answer.is_ok() && !has_row);
        assert_eq!(applied(&store, "early").await, Some(5), "{room}");
        let left = rows_follow(&open(&disk.after_power_loss()), 0).await;
        assert!(left == 2 || answer.is_err() && left == 1, "{room}: {left}");
        disk.room(i64::MAX);
        clock.0.store(1_000, Ordering::SeqCst);
        // Repeating the append settles it.
        let is_missing = head(&store).await == 1;
        assert_eq!(append(&store, 1).await.unwrap(), is_missing);
        assert_eq!(applied(&store, "early").await, Some(5));
        drop(store);
        assert_eq!(rows_follow(&open(&disk.after_power_loss()), 1).await, 2);
        if has_row {
            assert!(room > 3, "{room}");
            println!("of {room}, {in_doubt} were in doubt and {without_row} had no row");
            return;
        }
    }
}

/// Appends to a store on which a flush of rows is due or not, with room for this number of writes.
async fn append_with_room(room: i64, is_due: bool) -> StoreResult<bool> {
    let (disk, clock) = (Disk::empty(), Arc::<Fixed>::default());
    let store = open_at(&disk, &clock);
    assert!(append(&store, 0).await.unwrap());
    clock.0.store(if is_due { 1_000 } else { 0 }, Ordering::SeqCst);
    disk.room(room);
    let answer = append_entry(&store, 1).await;
    // The flush comes after the answer, and before this one.
    drop(store.apply(Vec::new()).await);
    if answer.is_ok() {
        assert_eq!(rows_follow(&store, 1).await, 2, "{room}");
        let lost = open(&disk.after_power_loss());
        assert_eq!(rows_follow(&lost, 0).await, 2, "{room}");
        disk.room(i64::MAX);
        clock.0.store(2_000, Ordering::SeqCst);
        write_row(&store, 2).await.unwrap();
        store.sync().await.unwrap();
        assert_eq!(rows_follow(&open(&disk.after_power_loss()), 2).await, 2, "{room}");
    }
    answer
}

#[tokio::test]
async fn a_flush_that_fails_leaves_no_append_in_doubt() {
    for room in 0.. {
        let (answer, with_flush) = (append_with_room(room, false).await, append_with_room(room, true).await);
        assert_eq!(answer.is_ok(), with_flush.is_ok(), "{room}: {with_flush:?}");
        if answer.is_ok() {
            return;
        }
    }
}

/// Both files are of one moment in a backup, whatever is written meanwhile. The row of the last entry may be missing.
#[tokio::test]
async fn a_backup_has_no_row_without_its_entry() {
    let store = Arc::new(open(&Disk::empty()));
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        for seq in 0..200 {
            assert!(append(&writer, seq).await.unwrap());
        }
    });
    for _ in 0..20 {
        let mut pieces = loop {
            match store.backup(1, Vec::new()).await.unwrap() {
                Backup::Begun(pieces) => break pieces,
                // The thread of the last one has not ended.
                Backup::Busy | Backup::Elsewhere => tokio::task::yield_now().await,
            }
        };
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.recv().await {
            bytes.extend(piece.unwrap().bytes);
        }
        let tables = backup::verify(bytes.as_slice()).unwrap().contents.tables;
        let rows = |name: &str| tables.iter().find(|table| table.name == name).map_or(0, |table| table.rows);
        // The log has a row for its head, too.
        let (entries, profiles) = (rows("event_log").saturating_sub(1), rows("profile"));
        assert!((profiles..=profiles + 1).contains(&entries), "{entries} entries, {profiles} rows");
    }
    writing.await.unwrap();
}

//! Folders and files: opening again, refusing those that must not be opened.

use std::{fs, path::Path, sync::Arc};

use redb::{Database, backends::FileBackend};
use thesis_net::clock::SystemIdSource;

use super::{
    super::{
        database::{FORMAT, set_format},
        store_files::FOLDER,
        summed::Summed,
        *,
    },
    Fixed, append, applied, apply, head, insert, inserted, rows_follow,
};
use crate::{
    key,
    store::{
        ConditionalWrite, Expect,
        schema::{EVENT_LOG, PROFILE},
    },
};

fn open(dir: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(dir, Options::default(), Arc::new(Fixed::default()), &SystemIdSource)
}

/// Copies a store as it is at this moment, as a killed process leaves it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join(FOLDER)).unwrap();
    files_in(from).zip(files_in(to)).map(|(from, to)| fs::copy(from, to).unwrap());
}

#[tokio::test]
async fn opening_again_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("a/b");
    for round in 0..3 {
        let store = open(&nested).unwrap();
        for earlier in 0..round {
            assert!(inserted(&store, &earlier.to_string()).await);
            assert_eq!(applied(&store, &earlier.to_string()).await, Some(5));
        }
        insert(&store, &round.to_string()).await.unwrap();
        apply(&store, &round.to_string(), 5).await.unwrap();
        if round != 1 {
            store.close().await.unwrap();
            store.close().await.unwrap();
            assert!(matches!(insert(&store, "late").await, Err(StoreError::Unavailable(_))));
            assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
        }
    }
}

#[tokio::test]
async fn killed_store_keeps_what_it_acknowledged() {
    let (dir, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path()).unwrap();
    apply(&store, "before", 5).await.unwrap();
    for n in 0..20 {
        assert!(append(&store, n).await.unwrap());
        insert(&store, &n.to_string()).await.unwrap();
        copy(dir.path(), killed.path());
        let after = open(killed.path()).unwrap();
        assert_eq!(applied(&after, "before").await, Some(5));
        assert_eq!(rows_follow(&after, n + 1).await, n + 1);
        for earlier in 0..=n {
            assert!(inserted(&after, &earlier.to_string()).await);
        }
    }
}

/// Datasets have numbers in the file, and none gets another one's.
#[tokio::test]
async fn datasets_keep_apart() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let store = open(dir.path()).unwrap();
        let dataset = format!("dataset {round}");
        let row = |dataset: &str| key![dataset, "id"];
        // A refused write is no row of its dataset.
        let write = ConditionalWrite { clustering: key![-1], expect: Expect::Version(1), version: 2, body: None };
        let (table, partition, writes) = (&EVENT_LOG, key![format!("refused {round}"), 0], vec![write]);
        assert!(!store.transact(Transaction { table, partition, writes, ttl: None }).await.unwrap());
        let body = Some(bytes::Bytes::from(dataset.clone()));
        store.apply(vec![Change { table: &PROFILE, key: row(&dataset), version: 1, body, ttl: None }]).await.unwrap();
        for earlier in 0..=round {
            let dataset = format!("dataset {earlier}");
            let found = store.get(&PROFILE, &row(&dataset), Consistency::Quorum).await.unwrap();
            assert_eq!(found.map(|row| row.body), Some(dataset.into()));
        }
        assert_eq!(store.get(&PROFILE, &row("refused 0"), Consistency::Quorum).await.unwrap(), None);
        assert!(store.scan(&Scan::all(&EVENT_LOG, key!["refused 0", 0], 1)).await.unwrap().is_empty());
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn folder_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let refused = open(dir.path()).err().unwrap();
    assert!(matches!(&refused, OpenError::InUse(path) if path == dir.path()));
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
    store.close().await.unwrap();
    open(dir.path()).unwrap();
}

#[tokio::test]
async fn newer_format_is_refused() {
    for of_log in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let files = files_in(dir.path());
        let path = if of_log { files.log } else { files.rows };
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        let disk = Summed::new(FileBackend::new(file).unwrap());
        let database = Database::builder().create_with_backend(disk).unwrap();
        set_format(&database, FORMAT + 1, 0).unwrap();
        drop(database);
        let refused = open(dir.path()).err().unwrap();
        assert!(matches!(refused, OpenError::Newer { found, .. } if found == FORMAT + 1));
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
    }
}

#[tokio::test]
async fn the_file_of_an_earlier_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.redb"), "redb").unwrap();
    let refused = open(dir.path()).err().unwrap();
    assert!(matches!(refused, OpenError::Older { .. }), "{refused}");
    assert!(refused.to_string().contains("store.redb"), "{refused}");
    assert!(!dir.path().join(FOLDER).exists());
}

#[tokio::test]
async fn a_damaged_or_missing_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..50 {
        insert(&store, &n.to_string()).await.unwrap();
        append(&store, n).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    // The bytes of the bodies in each file.
    let files = files_in(dir.path()).zip(Files { log: 9, rows: 7 });
    for (path, body) in [files.log, files.rows] {
        let whole = fs::read(&path).unwrap();
        // Damage in a body, in the head of the file, in a sum, and in the length.
        let inside = whole.windows(100).position(|window| window == [body; 100]).unwrap();
        let flip = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            bytes
        };
        let cases = [
            ("body", flip(inside)),
            ("magic", flip(4_096)),
            ("root", [&whole[..4_160], &[0xaa; 256], &whole[4_416..]].concat()),
            ("a page's sum", flip(4 * (1 + (inside / 4_096 - 1)) - 4)),
            ("cut", whole[..whole.len() / 2].to_vec()),
            ("empty", Vec::new()),
            ("other", b"something else entirely".repeat(1_000)),
        ];
        for (name, bytes) in cases {
            fs::write(&path, &bytes).unwrap();
            let refused = open(dir.path()).err().unwrap_or_else(|| panic!("{name} was opened"));
            assert!(matches!(&refused, OpenError::Damaged { .. }), "{name}: {refused:?}");
            assert!(refused.to_string().contains(path.to_str().unwrap()), "{name}: {refused}");
            assert_eq!(fs::read(&path).unwrap().len(), bytes.len(), "{name} was changed");
        }
        fs::remove_file(&path).unwrap();
        let refused = open(dir.path()).err().unwrap();
        assert!(matches!(&refused, OpenError::Damaged { .. }) && !path.exists(), "{refused:?}");
        fs::write(&path, &whole).unwrap();
    }
    let again = open(dir.path()).unwrap();
    assert!(inserted(&again, "49").await);
    assert_eq!(rows_follow(&again, 50).await, 50);
}

/// Writes to both files, and closes the store.
async fn write_more(dir: &Path) {
    let store = open(dir).unwrap();
    let head = head(&store).await;
    for n in head..head + 3 {
        assert!(append(&store, n).await.unwrap());
        assert!(insert(&store, &n.to_string()).await.unwrap());
    }
    assert!(append(&store, head + 3).await.unwrap());
    store.close().await.unwrap();
}

/// Two files that do not belong together would have rows without entries, or lack rows whose log has no mark.
#[tokio::test]
async fn a_file_of_another_time_or_store_is_refused() {
    let [dir, earlier, other] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    write_more(dir.path()).await;
    copy(dir.path(), earlier.path());
    write_more(dir.path()).await;
    for _ in 0..2 {
        write_more(other.path()).await;
    }
    let swapped = tempfile::tempdir().unwrap();
    for (from, expected) in [(&earlier, "is older than"), (&other, "belongs to another store than")] {
        let from = files_in(from.path());
        let files = files_in(swapped.path());
        for (from, to) in [(from.log, &files.log), (from.rows, &files.rows)] {
            copy(dir.path(), swapped.path());
            fs::copy(from, to).unwrap();
            let refused = open(swapped.path()).err().unwrap_or_else(|| panic!("{} was opened", to.display()));
            assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }
    // The files of one time and store are whole.
    assert_eq!(rows_follow(&open(earlier.path()).unwrap(), 4).await, 4);
    assert_eq!(rows_follow(&open(dir.path()).unwrap(), 8).await, 8);
}

/// A clean close lets each file note the last commit of the other one, whichever was written last.
#[tokio::test]
async fn an_older_file_is_refused_whichever_was_written_last() {
    for of_log in [true, false] {
        let [dir, earlier] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        write_more(dir.path()).await;
        copy(dir.path(), earlier.path());
        let store = open(dir.path()).unwrap();
        if of_log {
            let body = Some(bytes::Bytes::new());
            let write = ConditionalWrite { clustering: key![-1], expect: Expect::Absent, version: 1, body };
            let (table, partition, writes) = (&EVENT_LOG, key!["d", 1], vec![write]);
            assert!(store.transact(Transaction { table, partition, writes, ttl: None }).await.unwrap());
        } else {
            assert!(insert(&store, "last").await.unwrap());
        }
        store.close().await.unwrap();
        drop(store);
        let (from, to) = (files_in(earlier.path()), files_in(dir.path()));
        let (from, to) = if of_log { (from.log, to.log) } else { (from.rows, to.rows) };
        fs::copy(from, &to).unwrap();
        let refused = open(dir.path()).err().unwrap();
        assert!(refused.to_string().contains("is older than"), "{refused}");
    }
}

#[tokio::test]
async fn sweep_removes_what_expired() {
    let clock = Arc::new(Fixed::default());
    let store = EmbeddedStore::in_memory(clock.clone());
    let change = |id: String, version, ttl| Change {
        table: &PROFILE,
        key: key!["d", id],
        version,
        body: Some(bytes::Bytes::new()),
        ttl,
    };
    let short = (0..2_500).map(|n| change(n.to_string(), 1, Some(10)));
    store.apply(short.collect()).await.unwrap();
    // Written again: one for longer, one for good; one with an older version, which does nothing.
    clock.0.store(5_000, std::sync::atomic::Ordering::Relaxed);
    let again = vec![
        change("0".to_owned(), 2, Some(10)),
        change("1".to_owned(), 2, None),
        change("2".to_owned(), 0, None),
        change("kept".to_owned(), 1, None),
    ];
    store.apply(again).await.unwrap();
    let left = async |now_ms| {
        store.sweep(now_ms).await.unwrap();
        let ids = ["0", "1", "2", "2499", "kept"];
        let mut left = Vec::new();
        for id in ids {
            if applied(&store, id).await.is_some() {
                left.push(id);
            }
        }
        left
    };
    assert_eq!(left(9_999).await, ["0", "1", "2", "2499", "kept"]);
    assert_eq!(left(10_000).await, ["0", "1", "kept"]);
    assert_eq!(left(15_000).await, ["1", "kept"]);
    assert_eq!(left(i64::MAX).await, ["1", "kept"]);
}

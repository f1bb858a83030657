//! Tests of rows with a time to live, on a Cassandra node of this machine. The node deletes the files of a time window
//! as a whole when their rows have expired, and reads of newer rows do not meet expired ones. The tests read the node's
//! files and traces.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process,
};

use bytes::Bytes;
use futures::future::join_all;
use scylla::client::session::Session;
use thesis_net::clock::{Clock as _, SystemClock};

use super::{
    options,
    traces::{deletions_met, until},
};
use crate::{
    domain::window::{DAY_MS, MINUTE_MS},
    key,
    store::{
        Backend as _, Change, ColumnKind, Consistency, Table, Value, schema,
        scylla::{ScyllaStore, migrate, session},
    },
};

/// The tables with time windows whose write times are in milliseconds, and the length of a window in milliseconds.
static TABLES: [(&Table, i64); 4] = [
    (&schema::MINUTE_COUNT, 30 * MINUTE_MS),
    (&schema::TICKET_MOVE, 30 * MINUTE_MS),
    (&schema::AUDIT, 16 * DAY_MS),
    (&schema::KEY_USAGE, 4 * DAY_MS),
];
/// The windows that get a row each, counted back from now.
const WINDOWS: [i64; 5] = [6, 5, 4, 2, 1];
/// The number of windows, from the oldest on, whose rows expire during the test.
const EXPIRING: usize = 3;
/// Seconds to live: of a row that expires during the test, and of one that does not.
const SHORT: u32 = 1;
const LONG: u32 = 86_400;

/// A row whose key columns all hold its number.
fn row(table: &'static Table, number: i64, written_at: i64, ttl: u32) -> Change {
    let columns = table.partition.iter().chain(table.clustering);
    let key = columns.map(|column| match column.kind {
        ColumnKind::Text => Value::Text(number.to_string()),
        ColumnKind::Int => Value::Int(number),
    });
    let body = Some(Bytes::from_static(b"body"));
    Change { table, key: key.collect(), version: written_at, body, ttl: Some(ttl) }
}

/// The folder in which a node keeps the files of a keyspace; none when the node is on another machine.
async fn folder(session: &Session, keyspace: &str) -> Option<PathBuf> {
    let query = "SELECT value FROM system_views.settings WHERE name = 'data_file_directories'";
    let answer = session.query_unpaged(query, ()).await.ok()?.into_rows_result().ok()?;
    let (folders,) = answer.first_row::<(String,)>().ok()?;
    let folders: Vec<PathBuf> = serde_json::from_str(&folders).ok()?;
    folders.into_iter().map(|folder| folder.join(keyspace)).find(|folder| folder.is_dir())
}

/// The data files of a table.
fn files(folder: &Path, table: &Table) -> BTreeSet<String> {
    let names = |folder: &Path| {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let own = names(folder).into_iter().find(|name| name.starts_with(&format!("{}-", table.name))).unwrap();
    names(&folder.join(own)).into_iter().filter(|name| name.ends_with("-Data.db")).collect()
}

async fn alter(session: &Session, keyspace: &str, table: &Table, options: &str) {
    let text = format!("ALTER TABLE {keyspace}.\"{}\" WITH {options}", table.name);
    session.query_unpaged(text, ()).await.unwrap();
}

/// Makes the nodes flush a table twice a second, and search every second for files that have expired. The windows stay
/// as the migrations define them.
async fn flush_often(session: &Session, keyspace: &str, table: &Table) {
    let query = "SELECT compaction FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let answer = session.query_unpaged(query, (keyspace, table.name)).await.unwrap().into_rows_result().unwrap();
    let (mut compaction,) = answer.first_row::<(HashMap<String, String>,)>().unwrap();
    compaction.insert("expired_sstable_check_frequency_seconds".to_owned(), "1".to_owned());
    let compaction: Vec<String> = compaction.iter().map(|(name, value)| format!("'{name}': '{value}'")).collect();
    let options = format!("memtable_flush_period_in_ms = 500 AND compaction = {{{}}}", compaction.join(", "));
    alter(session, keyspace, table, &options).await;
}

/// Writes a row in each window and waits until it is flushed, so that each row has its own file. Returns the files.
async fn write_windows(store: &ScyllaStore, folder: &Path, table: &'static Table, window_ms: i64) -> Vec<String> {
    let now_ms = SystemClock.now_ms();
    let mut written = Vec::new();
    for (number, windows) in WINDOWS.into_iter().enumerate() {
        let before = files(folder, table);
        let ttl = if number < EXPIRING { SHORT } else { LONG };
        let number = i64::try_from(number).unwrap();
        store.apply(vec![row(table, number, now_ms - windows * window_ms, ttl)]).await.unwrap();
        let new = async || files(folder, table).difference(&before).next().cloned();
        written.push(until("the row is in a file", new).await);
    }
    written
}

/// Waits until the node has deleted the files of expired rows. The files of living rows stay unchanged.
async fn expire(store: &ScyllaStore, folder: &Path, table: &'static Table, written: &[String]) {
    let (expired, living) = written.split_at(EXPIRING);
    let are_gone = async || {
        // After each flush the node decides again which files it compacts or deletes.
        store.apply(vec![row(table, 9, SystemClock.now_ms(), LONG)]).await.unwrap();
        let left = files(folder, table);
        expired.iter().all(|file| !left.contains(file)).then_some(())
    };
    until(&format!("the node deletes the expired files of {}", table.name), are_gone).await;
    let left = files(folder, table);
    let kept = living.iter().all(|file| left.contains(file));
    assert!(kept, "{}: {written:?} became {left:?}: the node has merged files of several windows", table.name);
}

/// A list has a lower bound, below which are the expired rows.
async fn reads_of_newer_rows_do_not_meet_expired_ones(store: &ScyllaStore, keyspace: &str) {
    let (old, new) = (300, 10);
    let entry = |at: i64| {
        let ttl = if at < old { SHORT } else { LONG };
        Change { key: key!["aged", 0, at, "id"], ..row(&schema::AUDIT, at, SystemClock.now_ms(), ttl) }
    };
    store.apply((0..old + new).map(entry).collect()).await.unwrap();
    let oldest = key!["aged", 0, 0, "id"];
    let is_gone = async || {
        let found = store.get(&schema::AUDIT, &oldest, Consistency::Quorum).await.unwrap();
        found.is_none().then_some(())
    };
    until("the old entries expire", is_gone).await;
    let all = format!("SELECT * FROM {keyspace}.audit WHERE organization = 'aged' AND bucket = 0");
    let list = format!("{all} AND (at) >= ({old}) ORDER BY at DESC, id DESC LIMIT 100");
    assert_eq!(deletions_met(&store.session, list).await, 0);
    assert!(deletions_met(&store.session, all).await >= u64::try_from(old).unwrap());
}

#[tokio::test]
async fn files_of_time_windows_expire_as_a_whole() {
    let keyspace = format!("expiry_{}_{}", SystemClock.now_ms(), process::id());
    let Some(options) = options(&keyspace) else { return };
    let session = session::open(&options).await.unwrap();
    let with_windows = migrate::ALL.iter().copied().filter(|migration| migration.text.contains("TimeWindow"));
    let with_windows: Vec<_> = with_windows.collect();
    migrate::run(&session, &options, &with_windows, &SystemClock).await.unwrap();
    let store = ScyllaStore::on(session, options);
    let session = &store.session;
    if let Some(folder) = folder(session, &keyspace).await {
        for (table, _) in TABLES {
            flush_often(session, &keyspace, table).await;
        }
        reads_of_newer_rows_do_not_meet_expired_ones(&store, &keyspace).await;
        until("the entries are in a file", async || files(&folder, &schema::AUDIT).pop_first()).await;
        let writing = TABLES.iter().map(|(table, window_ms)| write_windows(&store, &folder, table, *window_ms));
        let written = join_all(writing).await;
        // Until now the nodes kept expired rows, for the sake of nodes that are away.
        for (table, _) in TABLES {
            alter(session, &keyspace, table, "gc_grace_seconds = 0").await;
        }
        let expiring = TABLES.iter().zip(&written).map(|((table, _), files)| expire(&store, &folder, table, files));
        join_all(expiring).await;
    } else {
        eprintln!("left out: the nodes are no Cassandra on this machine");
    }
    session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await.unwrap();
}

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use thesis_net::clock::SystemClock;

use super::*;
use crate::store::{Column, ColumnKind, Table, Writes, schema, scylla::tests::options};

fn columns(columns: &[Column], suffix: &str) -> Vec<String> {
    columns.iter().map(|column| format!("\"{}\"{suffix}", column.name)).collect()
}

/// The text of a table's migration, up to further options.
fn expected(table: &Table) -> String {
    let mut text = format!("CREATE TABLE IF NOT EXISTS \"{}\" (\n", table.name);
    for column in table.partition.iter().chain(table.clustering) {
        let kind = match column.kind {
            ColumnKind::Text => "text",
            ColumnKind::Int => "bigint",
        };
        text += &format!("    \"{}\" {kind},\n", column.name);
    }
    let partition = format!("({})", columns(table.partition, "").join(", "));
    let key = [vec![partition], columns(table.clustering, "")].concat().join(", ");
    text += &format!("    \"version\" bigint,\n    \"body\" blob,\n    PRIMARY KEY ({key})\n)");
    if table.descending {
        text += &format!(" WITH CLUSTERING ORDER BY ({})", columns(table.clustering, " DESC").join(", "));
    }
    text
}

#[test]
fn every_table_has_its_migration() {
    let statements: Vec<String> = ALL.iter().flat_map(Migration::statements).collect();
    for table in schema::ALL {
        let expected = expected(table);
        let rest = statements.iter().find_map(|statement| statement.strip_prefix(&expected));
        let rest = rest.unwrap_or_else(|| panic!("no migration says:\n{expected};"));
        assert!(
            rest.is_empty() || rest.starts_with(" WITH ") || rest.starts_with("\n  AND "),
            "{}: {rest}",
            table.name
        );
        assert!(!rest.contains("CLUSTERING"), "{} has an order that the table has not", table.name);
    }
    let created = statements.iter().filter(|statement| statement.starts_with("CREATE TABLE "));
    assert_eq!(created.count(), schema::ALL.len(), "a table that nothing names");
}

/// The options of a table's compaction after all migrations; none where no migration names them.
fn compaction(table: &Table) -> Option<String> {
    let names = ["TABLE", "EXISTS"].map(|before| format!("{before} \"{}\" ", table.name));
    let latest_first = ALL.iter().flat_map(Migration::statements).rev();
    let mut named = latest_first.filter(|statement| names.iter().any(|name| statement.contains(name)));
    named.find_map(|statement| Some(statement.split_once("compaction = ")?.1.to_owned()))
}

#[test]
fn time_windows_have_the_unit_of_the_write_times() {
    let mut found = 0;
    for table in schema::ALL {
        let Some(options) = compaction(table).filter(|options| options.contains("TimeWindow")) else { continue };
        // The node sets the write time of a conditional write, in microseconds, which is the default. The versions of
        // marks are microseconds, and those of deliveries nearly.
        let in_microseconds = [schema::DELIVERY.name, schema::QUEUE_MARK.name];
        let is_default = table.writes == Writes::Conditional || in_microseconds.contains(&table.name);
        let in_milliseconds = options.contains("'timestamp_resolution': 'MILLISECONDS'");
        assert_eq!(in_milliseconds, !is_default, "{}: {options}", table.name);
        found += 1;
    }
    assert_eq!(found, 9);
}

#[test]
fn the_list_is_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert_eq!(files, ALL.iter().map(|migration| format!("{}.cql", migration.name)).collect::<Vec<_>>());
    for (index, file) in files.iter().enumerate() {
        assert!(file.starts_with(&format!("{:04}_", index + 1)), "{file} is out of order");
    }
}

// Without IF NOT EXISTS: applied twice, they fail.
const FIRST: Migration = Migration { name: "0001_a", text: "CREATE TABLE a (x int PRIMARY KEY);" };
const SECOND: Migration = Migration {
    name: "0002_b",
    text: "-- Two; in one.\nCREATE TABLE b (x int PRIMARY KEY);\nCREATE TABLE d (x int PRIMARY KEY);\n",
};

/// Options with a keyspace of the test's own.
fn fresh() -> Option<ScyllaOptions> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    options(&format!("migrate_{}_{}_{number}", SystemClock.now_ms(), process::id()))
}

async fn migrate(options: &ScyllaOptions, known: &[Migration]) -> Result<(), ConnectError> {
    let session = session::open(options).await?;
    run(&session, options, known, &SystemClock).await
}

async fn drop_keyspace(options: &ScyllaOptions) {
    let session = session::open(options).await.unwrap();
    alter(&session, "dropping", &format!("DROP KEYSPACE {}", options.keyspace)).await.unwrap();
}

#[tokio::test]
async fn two_at_once_on_an_empty_keyspace() {
    let Some(options) = fresh() else { return };
    let known = [FIRST, SECOND];
    let (one, two) = tokio::join!(migrate(&options, &known), migrate(&options, &known));
    one.unwrap();
    two.unwrap();
    migrate(&options, &known).await.unwrap();
    drop_keyspace(&options).await;
}

#[tokio::test]
async fn what_differs_is_refused_by_name() {
    let Some(options) = fresh() else { return };
    migrate(&options, &[FIRST, SECOND]).await.unwrap();

    let changed = Migration { text: "CREATE TABLE IF NOT EXISTS b (x int PRIMARY KEY, y int);", ..SECOND };
    let error = migrate(&options, &[FIRST, changed]).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Changed { migration, .. } if migration == "0002_b"), "{error}");

    let error = migrate(&options, &[FIRST]).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Newer { migration, .. } if migration == "0002_b"), "{error}");

    // A layout that was laid down anew since.
    let anew = Migration { name: "0001_c", text: "CREATE TABLE c (x int PRIMARY KEY);" };
    let error = migrate(&options, &[anew]).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Older { migration, .. } if migration == "0002_b"), "{error}");
    drop_keyspace(&options).await;
}

/// Adds a table that versions without it do not miss.
const THIRD: Migration = Migration {
    name: "0003_c",
    text: "-- One more.\n-- Older versions go on beside this.\nCREATE TABLE c (x int PRIMARY KEY);\n",
};

#[tokio::test]
async fn older_versions_start_beside_what_says_so() {
    let Some(options) = fresh() else { return };
    migrate(&options, &[FIRST, SECOND, THIRD]).await.unwrap();
    migrate(&options, &[FIRST, SECOND]).await.unwrap();
    let error = migrate(&options, &[FIRST]).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Newer { migration, .. } if migration == "0002_b"), "{error}");
    drop_keyspace(&options).await;
}

#[test]
fn only_what_says_so_and_comes_later_is_lived_with() {
    let applied = |migrations: &[Migration]| {
        let mut applied = Applied::default();
        for migration in migrations {
            applied.checksums.insert(migration.name.to_owned(), migration.checksum());
            if migration.lets_older_go_on() {
                applied.beside.insert(migration.name.to_owned());
            }
        }
        applied
    };
    let missing = |has: &[Migration], known: &[Migration]| {
        let missing = applied(has).missing("k", known);
        missing.map(|missing| missing.iter().map(|migration| migration.name).collect::<Vec<_>>())
    };
    assert_eq!(missing(&[FIRST], &[FIRST, SECOND, THIRD]).unwrap(), ["0002_b", "0003_c"]);
    assert_eq!(missing(&[FIRST, SECOND, THIRD], &[FIRST, SECOND]).unwrap(), [""; 0]);
    let refused = missing(&[FIRST, SECOND, THIRD], &[FIRST]).unwrap_err().to_string();
    assert!(refused.contains("newer") && refused.contains("0002_b"), "{refused}");
    // A migration of before the last known one, or of a keyspace that lacks known ones, is of another history.
    for (has, known) in [(&[FIRST, SECOND, THIRD][..], &[FIRST, THIRD][..]), (&[FIRST, THIRD], &[FIRST, SECOND])] {
        let refused = missing(has, known).unwrap_err();
        assert!(matches!(refused, ConnectError::Older { .. }), "{refused}");
    }
}

#[tokio::test]
async fn more_copies_than_nodes_are_refused_with_their_numbers() {
    let Some(options) = fresh() else { return };
    let nodes = options.replication_factor;
    let more = ScyllaOptions { replication_factor: nodes + 2, ..options.clone() };
    let message = format!(
        "{} copies of each row, but {nodes} node{} in the data centre",
        nodes + 2,
        if nodes == 1 { "" } else { "s" }
    );
    assert_eq!(migrate(&more, &[FIRST]).await.unwrap_err().to_string(), message);
    // Nothing was made. A keyspace that somebody made with too many copies is refused too.
    let session = session::open(&options).await.unwrap();
    let replication = format!("{{'class': 'NetworkTopologyStrategy', 'datacenter1': {}}}", nodes + 2);
    let text = format!("CREATE KEYSPACE {} WITH replication = {replication}", options.keyspace);
    alter(&session, "making", &text).await.unwrap();
    assert_eq!(migrate(&options, &[FIRST]).await.unwrap_err().to_string(), message);
    drop_keyspace(&options).await;

    let elsewhere = ScyllaOptions { datacenter: "nowhere".to_owned(), ..options };
    let error = migrate(&elsewhere, &[FIRST]).await.unwrap_err().to_string();
    assert_eq!(error, "no node of the cluster is in the data centre `nowhere`; there are: datacenter1");
}

#[tokio::test]
async fn the_lock_is_one_holders_and_expires() {
    let Some(options) = fresh() else { return };
    let session = session::open(&options).await.unwrap();
    prepare(&session, &options).await.unwrap();
    let mut one = Lock { session: &session, owner: "one".to_owned() };
    let mut two = Lock { session: &session, owner: "two".to_owned() };
    assert!(one.take().await && one.take().await && !two.take().await && !two.renew().await);
    two.release().await;
    assert!(one.renew().await);
    let left = run_step(&session, "", "SELECT TTL(owner) FROM schema_lock", ()).await.unwrap().unwrap();
    let (left,) = left.first_row::<(i32,)>().unwrap();
    assert!((1..=LOCK_SECONDS).contains(&left), "{left}");
    one.release().await;
    assert!(two.take().await);
    drop_keyspace(&options).await;
}

#[tokio::test]
async fn a_keyspace_that_is_no_name_is_refused() {
    let Some(options) = fresh() else { return };
    let options = ScyllaOptions { keyspace: "a; DROP".to_owned(), ..options };
    assert!(matches!(migrate(&options, ALL).await, Err(ConnectError::Keyspace(_))));
}

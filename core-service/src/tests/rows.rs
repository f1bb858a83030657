//! The page about capacity lists the rows of every table, their keys and their lives.

use crate::{
    domain::abuse,
    store::{Column, Table, schema},
    tables::{delivery_buckets, delivery_rows, key_usage, members, queue, stream_tickets},
};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/capacity.md"));

/// The tables whose rows expire, each with the seconds after which all of them do, or those of the first kind.
fn lives() -> [(&'static Table, i64); 8] {
    [
        (&schema::REPLICA_BEAT, members::HEARTBEAT_RETENTION_SECONDS.into()),
        (&schema::DELIVERY, delivery_rows::RETENTION_SECONDS.into()),
        (&schema::DELIVERY_BUCKET, delivery_buckets::NOTE_SECONDS.into()),
        (&schema::QUEUE_MARK, queue::MARK_RETENTION_SECONDS.into()),
        (&schema::WEBHOOK_STREAK, delivery_rows::RETENTION_SECONDS.into()),
        (&schema::ABUSE, abuse::KEPT_MS / 1_000),
        (&schema::KEY_USAGE, key_usage::RETENTION_MS / 1_000),
        (&schema::TICKET_MOVE, stream_tickets::MOVE_RETENTION_SECONDS.into()),
    ]
}

fn columns(columns: &[Column]) -> String {
    columns.iter().map(|column| format!("`{}`", column.name)).collect::<Vec<_>>().join(", ")
}

fn life(seconds: i64) -> String {
    match seconds {
        3_600 => "1 hour".to_owned(),
        _ if seconds % 86_400 == 0 => format!("{} days", seconds / 86_400),
        _ if seconds % 3_600 == 0 => format!("{} hours", seconds / 3_600),
        _ => format!("{} minutes", seconds / 60),
    }
}

#[test]
fn the_page_lists_the_rows_of_every_table() {
    let section = PAGE.split("## Rows of each table\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), schema::ALL.len());
    for (table, row) in schema::ALL.iter().zip(&rows) {
        let [name, key, of, partition, lives] = row[..] else { panic!("{row:?}") };
        let mut expected = columns(table.partition);
        if !table.clustering.is_empty() {
            expected = format!("{expected}; {}", columns(table.clustering));
        }
        assert_eq!((name, key), (&*format!("`{}`", table.name), &*expected));
        assert!(!of.is_empty() && !partition.is_empty() && !lives.is_empty(), "{row:?}");
        assert_eq!(table.clustering.is_empty(), partition.starts_with('1'), "{row:?}");
    }
    for (table, seconds) in lives() {
        let row = rows.iter().find(|row| row[0] == format!("`{}`", table.name)).unwrap();
        assert_eq!(row[4].split(';').next(), Some(life(seconds).as_str()));
    }
}

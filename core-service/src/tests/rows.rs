//! The page about capacity lists the rows of every table, their keys and their lives. The tests of faults check that no
//! row expires where the page says that it lives for good.

use std::collections::HashMap;

use crate::{
    access::{idempotency, limits},
    accounts::attempts,
    domain::{abuse, window::DAY_MS},
    store::{Column, Table, schema},
    tables::{
        account, audit, delivery_buckets, delivery_rows, failed_responses, key_usage, members, queue, request_log,
        stream_tickets, upstream,
    },
};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/capacity.md"));

/// The lives of the rows that expire or are removed, by table. All other rows live for good.
fn lives() -> Vec<(&'static Table, String)> {
    let of_account = format!("{} to {} days", account::RESET_DAYS, account::KNOWN_DAYS);
    vec![
        (&schema::UNFINISHED, "until the work is done".to_owned()),
        (&schema::MINUTE_COUNT, life(limits::MINUTE_KEPT)),
        (
            &schema::REPLICA_BEAT,
            format!(
                "{}; a session for {}",
                life(members::HEARTBEAT_RETENTION_SECONDS),
                life(stream_tickets::SESSION_RETENTION_SECONDS)
            ),
        ),
        (
            &schema::STREAM_TICKET,
            format!(
                "{}; {} from an opening until the closing",
                life(stream_tickets::UNUSED_RETENTION_SECONDS),
                life(stream_tickets::USED_RETENTION_SECONDS)
            ),
        ),
        (&schema::TICKET_MOVE, life(stream_tickets::MOVE_RETENTION_SECONDS)),
        (&schema::IDEMPOTENCY, life_of_ms(2 * idempotency::KEPT_MS)),
        (&schema::DELIVERY, life(delivery_rows::RETENTION_SECONDS)),
        (&schema::DELIVERY_BUCKET, life(delivery_buckets::NOTE_SECONDS)),
        (&schema::QUEUE_MARK, life(queue::MARK_RETENTION_SECONDS)),
        (&schema::WEBHOOK_STREAK, life(delivery_rows::RETENTION_SECONDS)),
        (&schema::ABUSE, life_of_ms(abuse::KEPT_MS)),
        (&schema::ACCOUNT, of_account + "; a password for good"),
        (&schema::ATTEMPTS, life_of_ms(attempts::KEPT_MS) + " after they count"),
        (&schema::AUDIT, life_of_ms(audit::RETENTION_DAYS * DAY_MS)),
        (&schema::KEY_USAGE, life_of_ms(key_usage::RETENTION_MS)),
        (&schema::WEBHOOK_REPLAY, life(delivery_rows::RETENTION_SECONDS)),
        (&schema::REQUEST_LOG, life(request_log::RETENTION_SECONDS)),
        (&schema::FAILED_RESPONSE, life(failed_responses::RETENTION_SECONDS)),
        (&schema::UPSTREAM, life(upstream::LOOKUP_RETENTION_SECONDS) + "; the checkpoint for good"),
    ]
}

/// Returns whether rows of a table may expire, as the page says.
pub(super) fn may_expire(table: &str) -> bool {
    lives().iter().any(|(listed, _)| listed.name == table)
}

fn columns(columns: &[Column]) -> String {
    columns.iter().map(|column| format!("`{}`", column.name)).collect::<Vec<_>>().join(", ")
}

/// A time in the largest unit of which it is a multiple.
fn life(seconds: u32) -> String {
    let units = [(365 * 86_400, "year"), (86_400, "day"), (3_600, "hour"), (60, "minute")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds.is_multiple_of(*unit)).unwrap();
    let count = seconds / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

fn life_of_ms(ms: i64) -> String {
    life(u32::try_from(ms / 1_000).unwrap())
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
    let lives: HashMap<&str, String> = lives().into_iter().map(|(table, life)| (table.name, life)).collect();
    for (table, row) in schema::ALL.iter().zip(&rows) {
        let [name, key, of, partition, life] = row[..] else { panic!("{row:?}") };
        let mut expected = columns(table.partition);
        if !table.clustering.is_empty() {
            expected = format!("{expected}; {}", columns(table.clustering));
        }
        assert_eq!((name, key), (&*format!("`{}`", table.name), &*expected));
        assert!(!of.is_empty() && !partition.is_empty(), "{row:?}");
        assert_eq!(life, lives.get(table.name).map_or("for good", String::as_str), "{name}");
        assert_eq!(table.clustering.is_empty(), partition.starts_with('1'), "{row:?}");
    }
}

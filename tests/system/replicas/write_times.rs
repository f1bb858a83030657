//! The write times of rows, as the nodes keep them.

use std::collections::HashMap;

use scylla::client::session_builder::SessionBuilder;
use serde_json::json;

use super::Second;
use crate::harness::{Receiver, SOON, cluster, eventually, nodes, now_ms, teapot, text};

/// Milliseconds for which the service has written at most, and by which clocks differ at most.
const DAY_MS: i64 = 86_400_000;
const SKEW_MS: i64 = 60_000;

/// The nodes sort rows into time windows by their write times, so both must have one unit.
#[tokio::test]
async fn write_times_have_the_unit_of_the_time_windows() {
    let Some(service) = cluster().await else { return };
    let mut second = Second::start(service);
    // Each of these tables gets a row: `audit` by the new project, `key_usage` when a core ends, `ticket_move` when a
    // ticket is used at another core, `delivery` and `queue_mark` by a webhook, `failed_response` by one that fails,
    // `request_log` by each request.
    let here = service.project().await.test().await.at_one_edge();
    let there = second.client(&here).await;
    let made = there.post_once("/v1/stream/tickets", &json!({}), "write-times").await.ok(201);
    let query = format!("?ticket={}", text(&made, "ticket"));
    let _before = here.with_key(None).stream(&query).await;
    let _after = there.with_key(None).stream(&query).await;
    let receiver = Receiver::start().await;
    here.webhook(&receiver.url, &["thesis.created"]).await;
    here.webhook(&teapot().await, &["thesis.created"]).await;
    let (_, event) = here.thesis("writer", "TIMES", "delivered").await;
    receiver.delivery_of(&event).await;
    second.core.signal("TERM");
    second.core.exit(SOON).await;

    let nodes = nodes().unwrap();
    let session = SessionBuilder::new().known_nodes(nodes.split(',')).build().await.unwrap();
    let keyspace = service.setup.setting("SVC_SCYLLA_KEYSPACE").unwrap();
    let query = "SELECT table_name, compaction FROM system_schema.tables WHERE keyspace_name = ?";
    let tables = session.query_unpaged(query, (keyspace,)).await.unwrap().into_rows_result().unwrap();
    let mut seen = 0;
    for row in tables.rows::<(String, HashMap<String, String>)>().unwrap() {
        let (table, compaction) = row.unwrap();
        if !compaction["class"].ends_with("TimeWindowCompactionStrategy") {
            continue;
        }
        // Rows of `delivery` have their own unit. Those of a queued attempt and its mark have the time at which it is
        // due.
        let (ahead_ms, at_ms): (i64, fn(i64) -> i64) = match compaction.get("timestamp_resolution").map(String::as_str)
        {
            _ if table == "delivery" => (DAY_MS, |time| (time >> 28) * 300_000),
            _ if table == "queue_mark" => (DAY_MS, |time| time / 1_000),
            Some("MILLISECONDS") => (SKEW_MS, |time| time),
            None | Some("MICROSECONDS") => (SKEW_MS, |time| time / 1_000),
            Some(other) => panic!("{table}: {other}"),
        };
        let query = format!("SELECT WRITETIME(body) FROM {keyspace}.{table}");
        let times = eventually(&format!("{table} has a row"), SOON, async || {
            let times = session.query_unpaged(&*query, ()).await.unwrap().into_rows_result().unwrap();
            let times: Vec<i64> = times.rows::<(i64,)>().unwrap().map(|row| row.unwrap().0).collect();
            (!times.is_empty()).then_some(times)
        })
        .await;
        for time in times {
            let age_ms = now_ms() - at_ms(time);
            assert!((-ahead_ms..DAY_MS).contains(&age_ms), "{table}: a row of {time}, {age_ms} ms ago");
        }
        seen += 1;
    }
    assert_eq!(seen, 9);
}

//! What reads meet at the nodes, as their traces tell. Needs a Cassandra: its traces name the deleted rows.

use std::time::Duration;

use scylla::{client::session::Session, statement::Statement};
use thesis_net::clock::{Clock as _, SystemClock};

/// Longest time until a node has done what it does when it has time, in milliseconds.
pub(crate) const PATIENCE_MS: i64 = 60_000;

/// The most deleted or expired cells and rows that any replica met to answer a query.
pub(crate) async fn deletions_met(session: &Session, query: String) -> u64 {
    let mut query = Statement::new(query);
    query.set_tracing(true);
    let traced = session.query_unpaged(query, ()).await.unwrap().tracing_id().unwrap();
    // A node writes its traces when it has time.
    let deadline = SystemClock.now_ms() + PATIENCE_MS;
    loop {
        let events = session.get_tracing_info(&traced).await.unwrap().events;
        // As "Read 0 live rows and 400 tombstone cells".
        let met = events.iter().filter_map(|event| event.activity.as_deref()?.strip_suffix(" tombstone cells"));
        if let Some(met) = met.map(|met| met.rsplit(' ').next().unwrap().parse().unwrap()).max() {
            return met;
        }
        assert!(SystemClock.now_ms() < deadline, "no replica told what it met");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

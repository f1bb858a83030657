//! Traces of reads. Cassandra's traces count the deleted and expired cells that a read meets; ScyllaDB's do not.

use std::time::Duration;

use scylla::{client::session::Session, statement::Statement};
use thesis_net::clock::{Clock as _, SystemClock};

/// Timeout for the background work of a node (it flushes, compacts and writes traces), in milliseconds.
pub(crate) const TIMEOUT_MS: i64 = 60_000;

/// The number of deleted or expired cells and rows that a replica met in a query; the highest of all replicas.
pub(crate) async fn deletions_met(session: &Session, query: String) -> u64 {
    let mut query = Statement::new(query);
    query.set_tracing(true);
    let traced = session.query_unpaged(query, ()).await.unwrap().tracing_id().unwrap();
    // A node writes its traces when it has time.
    until("a replica tells what it met", async || {
        let events = session.get_tracing_info(&traced).await.unwrap().events;
        // As "Read 0 live rows and 400 tombstone cells".
        let met = events.iter().filter_map(|event| event.activity.as_deref()?.strip_suffix(" tombstone cells"));
        met.map(|met| met.rsplit(' ').next().unwrap().parse().unwrap()).max()
    })
    .await
}

/// Polls until something is there. Panics when the background work of a node takes too long.
pub(super) async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = SystemClock.now_ms() + TIMEOUT_MS;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(SystemClock.now_ms() < deadline, "{what}: not within {TIMEOUT_MS} ms");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

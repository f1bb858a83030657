//! Traces of reads. Cassandra's traces count the deleted and expired cells that a read meets; ScyllaDB's do not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use scylla::{
    client::session::Session,
    response::{PagingState, query_result::QueryResult},
    statement::Statement,
};
use thesis_net::clock::{Clock as _, SystemClock};

use crate::store::{
    Backend, Change, Consistency, Row, Scan, StoreResult, Table, Transaction, Value, schema,
    scylla::{ScyllaStore, read},
};

/// Timeout for the background work of a node (it flushes, compacts and writes traces), in milliseconds.
pub(crate) const TIMEOUT_MS: i64 = 60_000;
/// Time between two looks at the work of a node.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A store on a cluster that traces its scans of deliveries while a test requests it.
pub(crate) struct TracedScans {
    store: ScyllaStore,
    is_tracing: AtomicBool,
    /// The number of deleted rows that each traced scan met.
    met: Mutex<Vec<u64>>,
}

impl TracedScans {
    pub(crate) fn new(store: ScyllaStore) -> Arc<Self> {
        Arc::new(Self { store, is_tracing: AtomicBool::new(false), met: Mutex::default() })
    }

    pub(crate) fn set_tracing(&self, is_tracing: bool) {
        self.is_tracing.store(is_tracing, Ordering::SeqCst);
    }

    /// Takes the number of deleted rows that each traced scan met.
    pub(crate) fn take_met(&self) -> Vec<u64> {
        std::mem::take(&mut *self.met.lock())
    }

    /// Sends the statement of a scan with tracing, and notes the deleted rows that it met.
    async fn trace(&self, scan: &Scan) -> StoreResult<()> {
        let (mut statement, values) = read::bind_scan(&self.store, scan).await?;
        statement.set_tracing(true);
        let page = PagingState::start();
        let (answer, _) = self.store.session.execute_single_page(&statement, &values, page).await.unwrap();
        let met = deletions_of(&self.store.session, &answer).await;
        self.met.lock().push(met);
        Ok(())
    }
}

#[async_trait]
impl Backend for TracedScans {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.store.get(table, key, consistency).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.store.get_many(table, keys).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        if scan.table.name == schema::DELIVERY.name && self.is_tracing.load(Ordering::SeqCst) {
            self.trace(scan).await?;
        }
        self.store.scan(scan).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        self.store.apply(changes).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.store.transact(transaction).await
    }

    fn is_exclusive(&self) -> bool {
        self.store.is_exclusive()
    }

    async fn check(&self) -> StoreResult<()> {
        self.store.check().await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.store.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.store.close().await
    }
}

/// The number of deleted or expired cells and rows that a replica met in a query; the highest of all replicas.
pub(crate) async fn deletions_met(session: &Session, query: String) -> u64 {
    let mut query = Statement::new(query);
    query.set_tracing(true);
    let answer = session.query_unpaged(query, ()).await.unwrap();
    deletions_of(session, &answer).await
}

/// [`deletions_met`] in a traced query that was answered.
async fn deletions_of(session: &Session, answer: &QueryResult) -> u64 {
    let traced = answer.tracing_id().unwrap();
    let deadline = SystemClock.now_ms() + TIMEOUT_MS;
    loop {
        // A node writes its traces when it has time, and until then there may be none.
        if let Ok(info) = session.get_tracing_info(&traced).await {
            // As "Read 0 live rows and 400 tombstone cells"; a remark may follow.
            let read = info.events.iter().filter_map(|event| event.activity.as_deref()?.split_once(" tombstone cells"));
            let met = read.map(|(read, _)| read.rsplit(' ').next().unwrap().parse().unwrap());
            if let Some(met) = met.max() {
                return met;
            }
        }
        assert!(SystemClock.now_ms() < deadline, "no replica tells what it met within {TIMEOUT_MS} ms");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Polls until something is there. Panics when the background work of a node takes too long.
pub(super) async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = SystemClock.now_ms() + TIMEOUT_MS;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(SystemClock.now_ms() < deadline, "{what}: not within {TIMEOUT_MS} ms");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

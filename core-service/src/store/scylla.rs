//! The CQL store: ScyllaDB or Apache Cassandra, through the CQL that both support.

mod availability;
pub(crate) mod batches;
mod examine;
pub(crate) mod key_groups;
mod migrate;
mod options;
mod permits;
mod read;
mod retry;
mod session;
mod statements;
#[cfg(test)]
pub(crate) mod tests;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use scylla::client::session::Session;
use thesis_net::clock::SharedClock;
use tokio::sync::watch;

use self::{
    availability::Availability,
    permits::{RequestPermits, TimeLimit},
    statements::Statements,
};
pub use self::{
    examine::{Cluster, Keyspace, examine},
    options::{ConnectError, ScyllaOptions},
};
use super::{Backend, Change, Consistency, Row, Scan, StoreError, StoreResult, Table, Transaction, Value, schema};

/// Maximum number of requests that one call has under way, each counted for each of its partitions.
const MAX_PARALLEL: usize = 64;

/// A store on a CQL cluster, shared with other processes.
pub struct ScyllaStore {
    session: Session,
    statements: Statements,
    availability: Arc<Availability>,
    permits: RequestPermits,
}

impl ScyllaStore {
    /// Connects, creates a missing keyspace, and migrates its tables to this version.
    pub async fn connect(options: ScyllaOptions, clock: SharedClock) -> Result<Self, ConnectError> {
        let session = session::open(&options).await?;
        migrate::run(&session, &options, migrate::ALL, clock.as_ref()).await?;
        Ok(Self::on(session, options))
    }

    fn on(session: Session, options: ScyllaOptions) -> Self {
        let statements = Statements::new(options.keyspace, &options.datacenter);
        Self { session, statements, availability: Availability::start(), permits: RequestPermits::new() }
    }

    /// Sends a request about this many partitions once it has permits for them, and waits for its answer.
    async fn run<T>(
        &self,
        partitions: usize,
        limit: TimeLimit,
        request: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        crate::metrics::STORE_REQUESTS.one().increment(1);
        let answer = self.permits.run(partitions, limit, request).await?;
        self.availability.note_answer();
        Ok(answer)
    }
}

#[async_trait]
impl Backend for ScyllaStore {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        read::get(self, table, key, consistency).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        read::get_many(self, table, keys).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        read::scan(self, scan).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        write::apply(self, changes).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        write::transact(self, &transaction).await
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    fn away(&self) -> Option<watch::Receiver<bool>> {
        Some(self.availability.away())
    }

    async fn check(&self) -> StoreResult<()> {
        self.get(&schema::QUEUE_DONE, &[Value::Int(0)], Consistency::Quorum).await.map(drop)
    }

    async fn sweep(&self, _now_ms: i64) -> StoreResult<()> {
        Ok(())
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}

//! Writes: versioned ones by timestamp, conditional ones by a condition in one partition.

use std::time::Duration;

use futures::{TryFutureExt, TryStreamExt, stream};
use scylla::{
    errors::{DbError, ExecutionError, RequestAttemptError},
    response::query_result::QueryResult,
    statement::{
        batch::{Batch, BatchType},
        prepared::PreparedStatement,
    },
    value::{CqlValue, Row as CqlRow},
};

use super::{
    ScyllaStore, StoreError, StoreResult, TimeLimit,
    batches::{batches, partition_count},
    permits::CallRoom,
    statements::{Bind, Shape},
};
use crate::store::{Change, ConditionalWrite, Expect, Transaction};

/// Time limit of a write. Contended conditions take several rounds.
const WRITE_LIMIT: TimeLimit = TimeLimit { time: Duration::from_secs(5), exceeded: StoreError::InDoubt };

pub(super) async fn apply(store: &ScyllaStore, changes: Vec<Change>) -> StoreResult<()> {
    write_batches(batches(changes), |batch| write(store, batch)).await
}

/// Writes batches, as many at a time as a call has room for.
async fn write_batches<F: Future<Output = StoreResult<()>>>(
    batches: Vec<Vec<Change>>,
    write: impl Fn(Vec<Change>) -> F,
) -> StoreResult<()> {
    let room = CallRoom::new();
    let (room, write) = (&room, &write);
    let batches = stream::iter(batches.into_iter().map(Ok));
    let write_in_turn = |batch: Vec<Change>| async move {
        let _permits = room.enter(partition_count(&batch)).await;
        write(batch).await
    };
    batches.try_for_each_concurrent(None, write_in_turn).await
}

async fn write(store: &ScyllaStore, batch: Vec<Change>) -> StoreResult<()> {
    let mut statements = Vec::with_capacity(batch.len());
    let mut values = Vec::with_capacity(batch.len());
    for change in &batch {
        let mut binds = vec![Bind::Bigint(change.version)];
        let shape = match &change.body {
            Some(body) => {
                binds.extend([ttl(change.ttl), Bind::Blob(body), Bind::Bigint(change.version)]);
                Shape::Put
            }
            None => Shape::Delete,
        };
        binds.extend(change.key.iter().map(Bind::from));
        statements.push(store.statement(change.table, shape).await?);
        values.push(binds);
    }
    // An earlier try, or another batch, may have been written in spite of the last error.
    let doubt = |error: ExecutionError| StoreError::InDoubt(error.to_string());
    let request = send(store, statements, values, true).map_err(doubt);
    store.run(partition_count(&batch), WRITE_LIMIT, request).await.map(drop)
}

pub(super) async fn transact(store: &ScyllaStore, transaction: &Transaction) -> StoreResult<bool> {
    let mut statements = Vec::with_capacity(transaction.writes.len());
    let mut values = Vec::with_capacity(transaction.writes.len());
    for write in &transaction.writes {
        let (shape, binds) = conditional(transaction, write);
        statements.push(store.statement(transaction.table, shape).await?);
        values.push(binds);
    }
    let request = send(store, statements, values, false).map_err(failed);
    let answer = store.run(1, WRITE_LIMIT, request).await?;
    applied(answer).ok_or_else(|| StoreError::InDoubt("the answer to a conditional write is not readable".to_owned()))
}

fn conditional<'a>(transaction: &'a Transaction, write: &'a ConditionalWrite) -> (Shape, Vec<Bind<'a>>) {
    let conditional = write.expect != Expect::Any;
    let mut binds = Vec::new();
    let shape = match &write.body {
        Some(body) => {
            binds.extend([ttl(transaction.ttl), Bind::Blob(body), Bind::Bigint(write.version)]);
            Shape::Set { conditional }
        }
        None => Shape::Remove { conditional },
    };
    binds.extend(transaction.partition.iter().chain(&write.clustering).map(Bind::from));
    match write.expect {
        Expect::Any => {}
        // A missing row reads as nulls.
        Expect::Absent => binds.push(Bind::Null),
        Expect::Version(version) => binds.push(Bind::Bigint(version)),
    }
    (shape, binds)
}

fn ttl(seconds: Option<u32>) -> Bind<'static> {
    Bind::Int(i32::try_from(seconds.unwrap_or(0)).unwrap_or(i32::MAX))
}

/// Sends statements, several of them as one batch.
async fn send(
    store: &ScyllaStore,
    mut statements: Vec<PreparedStatement>,
    values: Vec<Vec<Bind<'_>>>,
    idempotent: bool,
) -> Result<QueryResult, ExecutionError> {
    if let ([statement], [binds]) = (statements.as_slice(), values.as_slice()) {
        return store.session.execute_unpaged(statement, binds.as_slice()).await;
    }
    let mut batch = Batch::new(BatchType::Unlogged);
    for statement in statements.drain(..) {
        batch.append_statement(statement);
    }
    if !idempotent {
        batch.set_execution_profile_handle(Some(store.statements.conditional.clone()));
    }
    batch.set_is_idempotent(idempotent);
    store.session.batch(&batch, values).await
}

/// Reads `[applied]`, the first column on every server. The other columns and their order differ.
fn applied(answer: QueryResult) -> Option<bool> {
    if !answer.is_rows() {
        return Some(true); // the batch had no condition
    }
    let row = answer.into_rows_result().ok()?.first_row::<CqlRow>().ok()?;
    match row.columns.into_iter().next()?? {
        CqlValue::Boolean(applied) => Some(applied),
        _ => None,
    }
}

/// Only an error from before a conditional write began leaves no doubt. "Too few replicas" may also come from its last
/// step, after the decision.
fn failed(error: ExecutionError) -> StoreError {
    let not_sent = match &error {
        ExecutionError::BadQuery(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::PrepareError(_)
        | ExecutionError::ConnectionPoolError(_) => true,
        ExecutionError::LastAttemptError(attempt) => matches!(
            attempt,
            RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
                | RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::DbError(
                    DbError::IsBootstrapping
                        | DbError::Invalid
                        | DbError::SyntaxError
                        | DbError::Unauthorized
                        | DbError::Unprepared { .. }
                        | DbError::ConfigError,
                    _
                )
        ),
        _ => false,
    };
    if not_sent { StoreError::Unavailable(error.to_string()) } else { StoreError::InDoubt(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::{super::permits::RequestPermits, *};
    use crate::{key, store::schema::TOKEN_TOTALS};

    #[tokio::test(start_paused = true)]
    async fn a_large_write_ends_on_a_slow_cluster_and_holds_up_no_read() {
        let permits = RequestPermits::new();
        let request = |partitions: usize| {
            let slow = async {
                sleep(Duration::from_secs(1)).await;
                Ok(())
            };
            permits.run(partitions, WRITE_LIMIT, slow)
        };
        let change = |token: usize| {
            let key = key!["live", format!("tk_{token}"), "fp"];
            Change { table: &TOKEN_TOTALS, key, version: 1, body: None, ttl: None }
        };
        let full = batches((0..64 * 10).map(change).collect());
        assert!(full.len() == 64 && full.iter().all(|batch| partition_count(batch) == 10));
        let read = async {
            sleep(Duration::from_millis(500)).await;
            let sent = Instant::now();
            request(1).await.unwrap();
            sent.elapsed()
        };
        let writing = write_batches(full, |batch| {
            let partitions = partition_count(&batch);
            request(partitions)
        });
        let (written, read) = tokio::join!(writing, read);
        written.unwrap();
        assert!(read <= Duration::from_secs(2), "{read:?}");
    }
}

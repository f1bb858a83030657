//! Counts and times the calls of a store, and creates spans for the calls of sampled requests.

use std::future::Future;

use async_trait::async_trait;
use futures::future::try_join_all;
use thesis_net::trace::{Span, SpanKind};
use tokio::{sync::watch, time::Instant};

use super::{
    Backend, Backup, Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, Table, Transaction, Value,
};
use crate::metrics::{STORE_CALLS, STORE_SECONDS};

/// A store whose calls are observed. It forwards every method of [`Backend`], also methods with a default.
pub struct ObservedStore(SharedBackend);

impl ObservedStore {
    pub fn new(store: SharedBackend) -> Self {
        Self(store)
    }

    /// Observes a call. `outcome` names the outcome of a success.
    async fn call<T>(
        &self,
        call: &'static str,
        table: Option<&'static Table>,
        request: impl Future<Output = StoreResult<T>>,
        outcome: impl Fn(&T) -> &'static str,
    ) -> StoreResult<T> {
        let mut counted =
            CountedCall { call, began: Instant::now(), outcome: "cancelled", span: self.span(call, table) };
        let answer = request.await;
        counted.outcome = answer.as_ref().map_or_else(kind, outcome);
        if let (Some(span), Err(_)) = (&mut counted.span, &answer) {
            span.set("error.type", counted.outcome);
            span.fail(counted.outcome);
        }
        answer
    }

    /// A span of a call, if its request is sampled.
    fn span(&self, call: &'static str, table: Option<&'static Table>) -> Option<Span> {
        let mut span = Span::step(SpanKind::Client, || match table {
            Some(table) => format!("{call} {}", table.name).into(),
            None => call.into(),
        })?;
        span.set("db.system.name", if self.0.is_exclusive() { "redb" } else { "cassandra" });
        span.set("db.operation.name", call);
        if let Some(table) = table {
            span.set("db.collection.name", table.name);
        }
        Some(span)
    }
}

/// A call under way. Dropping it counts it, so a call that its caller gave up counts too.
struct CountedCall {
    call: &'static str,
    began: Instant,
    outcome: &'static str,
    span: Option<Span>,
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        STORE_SECONDS.at(self.call).record(self.began.elapsed().as_secs_f64());
        STORE_CALLS.of(&[self.call, self.outcome]).increment(1);
    }
}

/// The kind of an error, without its text, which may name rows.
fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable(_) => "unavailable",
        StoreError::InDoubt(_) => "in_doubt",
        StoreError::Damaged(_) => "damaged",
        StoreError::Unknown(_) => "unknown",
    }
}

const fn ok<T>(_done: &T) -> &'static str {
    "ok"
}

fn held(holds: &bool) -> &'static str {
    if *holds { "ok" } else { "lost" }
}

/// The table of a call, if all its parts have the same one.
fn table_of(mut tables: impl Iterator<Item = &'static Table>) -> Option<&'static Table> {
    let first = tables.next()?;
    tables.all(|table| std::ptr::eq(table, first)).then_some(first)
}

#[async_trait]
impl Backend for ObservedStore {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.call("get", Some(table), self.0.get(table, key, consistency), ok).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.call("get_many", Some(table), self.0.get_many(table, keys), ok).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.call("scan", Some(scan.table), self.0.scan(scan), ok).await
    }

    async fn scan_many(&self, scans: &[Scan]) -> StoreResult<Vec<Vec<Row>>> {
        if self.0.is_exclusive() {
            let table = table_of(scans.iter().map(|scan| scan.table));
            return self.call("scan", table, self.0.scan_many(scans), ok).await;
        }
        // Other stores get one request for each scan.
        try_join_all(scans.iter().map(|scan| self.scan(scan))).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        let table = table_of(changes.iter().map(|change| change.table));
        self.call("apply", table, self.0.apply(changes), ok).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.call("transact", Some(transaction.table), self.0.transact(transaction), held).await
    }

    async fn transact_with(&self, transaction: Transaction, beside: Vec<Change>) -> StoreResult<bool> {
        self.call("transact", Some(transaction.table), self.0.transact_with(transaction, beside), held).await
    }

    fn is_exclusive(&self) -> bool {
        self.0.is_exclusive()
    }

    fn away(&self) -> Option<watch::Receiver<bool>> {
        self.0.away()
    }

    async fn sync(&self) -> StoreResult<()> {
        self.0.sync().await
    }

    async fn check(&self) -> StoreResult<()> {
        self.0.check().await
    }

    async fn backup(&self, created_at_ms: i64, records: Vec<Change>) -> StoreResult<Backup> {
        self.0.backup(created_at_ms, records).await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.0.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.0.close().await
    }
}

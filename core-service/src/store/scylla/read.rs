//! Reads.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
    time::Duration,
};

use bytes::Bytes;
use futures::{TryFutureExt, future::try_join_all};
use scylla::{
    errors::ExecutionError,
    response::{PagingState, query_result::QueryResult},
    statement::prepared::PreparedStatement,
    value::{CqlValue, Row as CqlRow},
};

use super::{
    ScyllaStore, StoreError, StoreResult, TimeLimit,
    key_groups::{KeyGroup, key_groups},
    permits::CallRoom,
    statements::{Bind, Shape, edge},
};
use crate::store::{Consistency, Row, Scan, Table, Value};

/// Time limit of a read, retries included.
const READ_LIMIT: TimeLimit = TimeLimit { time: Duration::from_secs(2), exceeded: StoreError::Unavailable };

pub(super) async fn get(
    store: &ScyllaStore,
    table: &'static Table,
    key: &[Value],
    consistency: Consistency,
) -> StoreResult<Option<Row>> {
    let statement = store.statement(table, Shape::Get { serial: consistency == Consistency::Serial }).await?;
    let values: Vec<Bind<'_>> = key.iter().map(Bind::from).collect();
    let request = store.session.execute_unpaged(&statement, values).map_err(unavailable);
    let answer = store.run(1, READ_LIMIT, request).await?;
    let Some(mut row) = rows(answer)?.pop() else {
        return Ok(None);
    };
    row.clustering = key.get(table.partition.len()..).unwrap_or_default().to_vec();
    Ok(Some(row))
}

pub(super) async fn get_many(
    store: &ScyllaStore,
    table: &'static Table,
    keys: &[Vec<Value>],
) -> StoreResult<Vec<Option<Row>>> {
    let groups = key_groups(table, keys);
    let room = &CallRoom::new();
    let reads = groups.iter().map(|group| async move {
        let _permits = room.enter(group.partition_count(table)).await;
        get_group(store, table, group).await
    });
    let found: HashMap<&[Value], Row> = try_join_all(reads).await?.into_iter().flatten().collect();
    Ok(keys.iter().map(|key| found.get(key.as_slice()).cloned()).collect())
}

/// Reads the rows of a group that exist, each with its key.
async fn get_group<'a>(
    store: &ScyllaStore,
    table: &'static Table,
    group: &KeyGroup<'a>,
) -> StoreResult<Vec<(&'a [Value], Row)>> {
    if let [key] = group.keys[..] {
        let row = get(store, table, key, Consistency::Quorum).await?;
        return Ok(row.map(|row| (key, row)).into_iter().collect());
    }
    let columns = group.columns;
    let statement = store.statement(table, Shape::GetMany { columns }).await?;
    let mut values: Vec<Bind<'_>> = group.keys[0].iter().map(Bind::from).collect();
    for column in columns {
        values[column] = Bind::List(group.values(column).into_iter().map(Bind::from).collect());
    }
    // A node that pages an answer reads one partition after the other.
    let request = store.session.execute_unpaged(&statement, values).map_err(unavailable);
    let answer = store.run(group.partition_count(table), READ_LIMIT, request).await?;
    let [first, last] = columns;
    let mut found = Vec::with_capacity(group.keys.len());
    for mut row in rows(answer)? {
        let is_of_row =
            |key: &[Value]| row.clustering.first() == Some(&key[first]) && row.clustering.last() == Some(&key[last]);
        // Two lists give the rows of other pairs of their values too.
        let Some(key) = group.keys.iter().copied().find(|key| is_of_row(key)) else { continue };
        row.clustering = key[table.partition.len()..].to_vec();
        found.push((key, row));
    }
    Ok(found)
}

/// The first columns of the rows at a bound.
fn prefix(bound: &Bound<Vec<Value>>) -> &[Value] {
    match bound {
        Bound::Included(columns) | Bound::Excluded(columns) => columns,
        Bound::Unbounded => &[],
    }
}

/// The statement of a scan, and the values that it binds.
pub(super) async fn bind_scan<'a>(
    store: &ScyllaStore,
    scan: &'a Scan,
) -> StoreResult<(PreparedStatement, Vec<Bind<'a>>)> {
    let serial = scan.consistency == Consistency::Serial;
    let shape = Shape::Scan { from: edge(&scan.from), to: edge(&scan.to), reverse: scan.reverse, serial };
    let statement = store.statement(scan.table, shape).await?;
    let columns = scan.partition.iter().chain(prefix(&scan.from)).chain(prefix(&scan.to));
    let mut values: Vec<Bind<'_>> = columns.map(Bind::from).collect();
    values.push(Bind::Int(i32::try_from(scan.limit).unwrap_or(i32::MAX)));
    Ok((statement, values))
}

pub(super) async fn scan(store: &ScyllaStore, scan: &Scan) -> StoreResult<Vec<Row>> {
    if scan.limit == 0 {
        return Ok(Vec::new());
    }
    let (statement, values) = bind_scan(store, scan).await?;
    let mut found = Vec::new();
    let mut page = PagingState::start();
    loop {
        // The result nearly always has one page; a server may end a page early if rows are large.
        let request = store.session.execute_single_page(&statement, &values, page).map_err(unavailable);
        let (answer, next) = store.run(1, READ_LIMIT, request).await?;
        found.append(&mut rows(answer)?);
        match next.into_paging_control_flow() {
            ControlFlow::Continue(state) => page = state,
            ControlFlow::Break(()) => return Ok(found),
        }
    }
}

fn unavailable(error: ExecutionError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Rows of some key columns, body and version.
fn rows(answer: QueryResult) -> StoreResult<Vec<Row>> {
    let damaged = |reason: String| StoreError::Damaged(reason);
    let answer = answer.into_rows_result().map_err(|error| damaged(error.to_string()))?;
    let rows = answer.rows::<CqlRow>().map_err(|error| damaged(error.to_string()))?;
    rows.map(|row| {
        let row = row.map_err(|error| damaged(error.to_string()))?;
        read(row).ok_or_else(|| damaged("a row has columns that this version does not write".to_owned()))
    })
    .collect()
}

fn read(mut row: CqlRow) -> Option<Row> {
    let CqlValue::BigInt(version) = row.columns.pop()?? else {
        return None;
    };
    let CqlValue::Blob(body) = row.columns.pop()?? else {
        return None;
    };
    let clustering = row.columns.into_iter().map(|column| match column? {
        CqlValue::Text(text) => Some(Value::Text(text)),
        CqlValue::BigInt(int) => Some(Value::Int(int)),
        _ => None,
    });
    Some(Row { clustering: clustering.collect::<Option<_>>()?, body: Bytes::from(body), version })
}

//! Reads.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};
use scylla::{
    errors::ExecutionError,
    response::{PagingState, query_result::QueryResult},
    value::{CqlValue, Row as CqlRow},
};

use super::{
    MAX_PARALLEL, ScyllaStore, StoreError, StoreResult, TimeLimit,
    statements::{Bind, Shape, edge},
};
use crate::store::{Consistency, Row, Scan, Table, Value};

/// Maximum number of rows in one request. A node reads them side by side, so it is as for a batch of partitions.
const MAX_GROUP: usize = 10;
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
    let gets = groups(keys).into_iter().map(|group| get_group(store, table, group));
    let found = stream::iter(gets.collect::<Vec<_>>()).buffer_unordered(MAX_PARALLEL);
    let found: Vec<Vec<(&[Value], Row)>> = found.try_collect().await?;
    let found: HashMap<&[Value], Row> = found.into_iter().flatten().collect();
    Ok(keys.iter().map(|key| found.get(key.as_slice()).cloned()).collect())
}

/// Divides keys into groups that differ in their last column alone. Each group is one request.
fn groups(keys: &[Vec<Value>]) -> Vec<Vec<&[Value]>> {
    let mut groups: BTreeMap<&[Value], BTreeSet<&[Value]>> = BTreeMap::new();
    for key in keys {
        groups.entry(&key[..key.len().saturating_sub(1)]).or_default().insert(key);
    }
    let keys = groups.into_values().map(|group| group.into_iter().collect::<Vec<_>>());
    keys.flat_map(|group| group.chunks(MAX_GROUP).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
}

/// Reads the rows of a group that exist. Without clustering columns each row is a partition: the node that gets the
/// request reads them from their replicas, as it writes the partitions of a batch.
async fn get_group<'k>(
    store: &ScyllaStore,
    table: &'static Table,
    group: Vec<&'k [Value]>,
) -> StoreResult<Vec<(&'k [Value], Row)>> {
    if let [key] = *group {
        let row = get(store, table, key, Consistency::Quorum).await?;
        return Ok(row.into_iter().map(|row| (key, row)).collect());
    }
    let statement = store.statement(table, Shape::GetMany).await?;
    let same = group[0][..group[0].len() - 1].iter();
    let mut values: Vec<Bind<'_>> = same.map(Bind::from).collect();
    values.push(Bind::List(group.iter().filter_map(|key| key.last()).map(Bind::from).collect()));
    let request = store.session.execute_unpaged(&statement, values).map_err(unavailable);
    let partitions = if table.clustering.is_empty() { group.len() } else { 1 };
    let rows = rows(store.run(partitions, READ_LIMIT, request).await?)?;
    let found = rows.into_iter().filter_map(|row| {
        let key = *group.iter().find(|key| key.last() == row.clustering.last())?;
        Some((key, Row { clustering: key[table.partition.len()..].to_vec(), ..row }))
    });
    Ok(found.collect())
}

pub(super) async fn scan(store: &ScyllaStore, scan: &Scan) -> StoreResult<Vec<Row>> {
    let limit = i32::try_from(scan.limit).unwrap_or(i32::MAX);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let serial = scan.consistency == Consistency::Serial;
    let shape = Shape::Scan { from: edge(&scan.from), to: edge(&scan.to), reverse: scan.reverse, serial };
    let statement = store.statement(scan.table, shape).await?;
    let prefix = |bound| match bound {
        std::ops::Bound::Included(prefix) | std::ops::Bound::Excluded(prefix) => prefix,
        std::ops::Bound::Unbounded => Vec::new(),
    };
    let (from, to) = (prefix(scan.from.clone()), prefix(scan.to.clone()));
    let mut values: Vec<Bind<'_>> = scan.partition.iter().chain(&from).chain(&to).map(Bind::from).collect();
    values.push(Bind::Int(limit));

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

/// Rows of clustering columns, body and version.
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

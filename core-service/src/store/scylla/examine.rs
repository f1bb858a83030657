//! Looks at a cluster without changing it.

use bytes::Bytes;
use scylla::{client::session::Session, value::CqlTimestamp};
use thesis_net::clock::Clock;

use super::{
    migrate::{self, repeatable, run_step},
    options::{ConnectError, ScyllaOptions},
    session,
    statements::{Bind, Shape},
};
use crate::store::{Table, Value};

/// What a start would find.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes in the data centre.
    pub nodes: usize,
    /// Copies of each row in the data centre.
    pub copies: usize,
    /// The keyspace.
    pub keyspace: Keyspace,
    /// Milliseconds by which the cluster's clock is ahead of this machine's.
    pub ahead_ms: i64,
    /// Milliseconds that the query of the time took; the difference is not known better than that.
    pub within_ms: i64,
    /// The body of the row that was asked for.
    pub row: Option<Bytes>,
}

/// The keyspace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keyspace {
    /// There is none: a start makes it.
    Missing,
    /// Its tables are there; a start applies the named migrations.
    Known(Vec<&'static str>),
}

/// Connects as a start does, and only reads; one row among others.
///
/// # Errors
/// Those of a start with these options.
pub async fn examine(
    options: &ScyllaOptions,
    clock: &dyn Clock,
    table: &Table,
    key: &[Value],
) -> Result<Cluster, ConnectError> {
    let session = session::open(options).await?;
    let (copies, nodes) = session::judge_copies(&session, options)?;
    let keyspace = keyspace(&session, options).await?;
    let (ahead_ms, within_ms) = time(&session, clock).await?;
    let row = row(&session, &options.keyspace, table, key).await?;
    Ok(Cluster { nodes, copies, keyspace, ahead_ms, within_ms, row })
}

/// The body of a row; none where there is no such row, or not even its table.
async fn row(session: &Session, keyspace: &str, table: &Table, key: &[Value]) -> Result<Option<Bytes>, ConnectError> {
    let made = session.get_cluster_state().get_keyspace(keyspace).map(|made| made.tables.contains_key(table.name));
    if made != Some(true) {
        return Ok(None);
    }
    let step = "reading a row";
    let values: Vec<Bind<'_>> = key.iter().map(Bind::from).collect();
    let text = Shape::Get { serial: false }.text(keyspace, table);
    let answer = run_step(session, step, repeatable(&text), values).await?;
    let answer = answer.ok_or_else(|| ConnectError::step(step, "no rows"))?;
    let row = answer.maybe_first_row::<(Vec<u8>, i64)>().map_err(|error| ConnectError::step(step, error))?;
    Ok(row.map(|(body, _version)| Bytes::from(body)))
}

async fn keyspace(session: &Session, options: &ScyllaOptions) -> Result<Keyspace, ConnectError> {
    let name = &options.keyspace;
    let has_migrations =
        session.get_cluster_state().get_keyspace(name).map(|made| made.tables.contains_key("schema_change"));
    match has_migrations {
        None => return Ok(Keyspace::Missing),
        // A start died just after it had made the keyspace.
        Some(false) => return Ok(Keyspace::Known(migrate::ALL.iter().map(|migration| migration.name).collect())),
        Some(true) => {}
    }
    let using = session.use_keyspace(name, false).await;
    using.map_err(|error| ConnectError::step("using the keyspace", error))?;
    let missing = migrate::missing(session, name).await?;
    Ok(Keyspace::Known(missing.iter().map(|migration| migration.name).collect()))
}

/// How far the cluster's clock is ahead, and how long it took to learn that.
async fn time(session: &Session, clock: &dyn Clock) -> Result<(i64, i64), ConnectError> {
    let step = "asking for the time";
    let wrong = |error: &dyn std::fmt::Display| ConnectError::step(step, error);
    let asked = clock.now_ms();
    let answer = run_step(session, step, repeatable("SELECT toTimestamp(now()) FROM system.local"), ()).await?;
    let within = clock.now_ms() - asked;
    let answer = answer.ok_or_else(|| wrong(&"no rows"))?;
    let (CqlTimestamp(there),) = answer.first_row::<(CqlTimestamp,)>().map_err(|error| wrong(&error))?;
    Ok((there - asked - within / 2, within))
}

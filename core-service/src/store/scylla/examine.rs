//! Examines a cluster without changing it.

use scylla::{client::session::Session, value::CqlTimestamp};
use thesis_net::clock::Clock;

use super::{
    ScyllaStore,
    migrate::{self, repeatable, run_step},
    options::{ConnectError, ScyllaOptions},
    read, session,
};
use crate::store::{Row, Scan};

/// The state of the cluster before a start.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Number of nodes in the data centre.
    pub nodes: usize,
    /// Number of copies of each row in the data centre.
    pub copies: usize,
    /// The keyspace.
    pub keyspace: Keyspace,
    /// Milliseconds by which the cluster's clock is ahead of this machine's.
    pub ahead_ms: i64,
    /// Milliseconds that the query of the time took. They limit the accuracy of the difference.
    pub within_ms: i64,
    /// The requested rows.
    pub rows: Vec<Row>,
}

/// The keyspace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keyspace {
    /// The keyspace is missing; a start creates it.
    Missing,
    /// The keyspace exists. A start applies the named migrations.
    Known(Vec<&'static str>),
}

/// Connects as a start does, but only reads. It also reads the requested rows.
pub async fn examine(options: &ScyllaOptions, clock: &dyn Clock, scans: &[Scan]) -> Result<Cluster, ConnectError> {
    let session = session::open(options).await?;
    let (copies, nodes) = session::judge_copies(&session, options)?;
    let keyspace = keyspace(&session, options).await?;
    let (ahead_ms, within_ms) = time(&session, clock).await?;
    let rows = rows(session, options, scans).await?;
    Ok(Cluster { nodes, copies, keyspace, ahead_ms, within_ms, rows })
}

/// Reads the requested rows of the tables that exist.
async fn rows(session: Session, options: &ScyllaOptions, scans: &[Scan]) -> Result<Vec<Row>, ConnectError> {
    let cluster = session.get_cluster_state();
    let Some(keyspace) = cluster.get_keyspace(&options.keyspace) else { return Ok(Vec::new()) };
    let store = ScyllaStore::on(session, options.clone());
    let mut rows = Vec::new();
    for scan in scans.iter().filter(|scan| keyspace.tables.contains_key(scan.table.name)) {
        let slice = read::scan(&store, scan).await;
        rows.extend(slice.map_err(|error| ConnectError::step("reading rows", error))?);
    }
    Ok(rows)
}

async fn keyspace(session: &Session, options: &ScyllaOptions) -> Result<Keyspace, ConnectError> {
    let name = &options.keyspace;
    let has_migrations =
        session.get_cluster_state().get_keyspace(name).map(|keyspace| keyspace.tables.contains_key("schema_change"));
    match has_migrations {
        None => return Ok(Keyspace::Missing),
        // A start died just after it had created the keyspace.
        Some(false) => return Ok(Keyspace::Known(migrate::ALL.iter().map(|migration| migration.name).collect())),
        Some(true) => {}
    }
    let using = session.use_keyspace(name, false).await;
    using.map_err(|error| ConnectError::step("using the keyspace", error))?;
    let missing = migrate::missing(session, name).await?;
    Ok(Keyspace::Known(missing.iter().map(|migration| migration.name).collect()))
}

/// Measures by how much the cluster's clock is ahead, and the duration of the query.
async fn time(session: &Session, clock: &dyn Clock) -> Result<(i64, i64), ConnectError> {
    let step = "asking for the time";
    let wrong = |error: &dyn std::fmt::Display| ConnectError::step(step, error);
    let sent_at = clock.now_ms();
    let answer = run_step(session, step, repeatable("SELECT toTimestamp(now()) FROM system.local"), ()).await?;
    let within = clock.now_ms() - sent_at;
    let answer = answer.ok_or_else(|| wrong(&"no rows"))?;
    let (CqlTimestamp(there),) = answer.first_row::<(CqlTimestamp,)>().map_err(|error| wrong(&error))?;
    Ok((there - sent_at - within / 2, within))
}

//! Migrations: one change a file, each applied once, in order, under a lock that outlives no holder.

use std::{collections::HashMap, time::Duration};

use scylla::{
    client::session::Session,
    response::query_result::QueryRowsResult,
    serialize::row::SerializeRow,
    statement::unprepared::Statement,
    value::{CqlValue, Row},
};
use sha2::{Digest, Sha256};
use thesis_net::clock::Clock;

use super::session::{self, ConnectError, ScyllaOptions};

/// A change of the schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// Number and name, which is its file's name.
    pub(super) name: &'static str,
    /// One statement, which does nothing where it was carried out before.
    pub(super) text: &'static str,
}

impl Migration {
    fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.text))
    }
}

macro_rules! migrations {
    ($($name:literal),+ $(,)?) => {
        &[$(Migration {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/", $name, ".cql")),
        }),+]
    };
}

/// Every migration, in order.
pub(super) const ALL: &[Migration] = migrations![
    "0001_event_log",
    "0002_log_checkpoint",
    "0003_event",
    "0004_profile",
    "0005_upstream_ref",
    "0006_handle_claim",
    "0007_token",
    "0008_token_address",
    "0009_token_symbol",
    "0010_thesis",
    "0011_thesis_index",
    "0012_index_bucket",
    "0013_derive_due",
    "0014_derived",
    "0015_control",
    "0016_usage",
    "0017_wake",
    "0018_idempotency",
    "0019_delivery",
    "0020_delivery_log",
    "0021_queue",
    "0022_ready",
    "0023_ready_done",
    "0024_shard_lease",
    "0025_token_totals",
    "0026_token_author",
    "0027_minute_count",
    "0028_replica_beat",
    "0029_stream_slots",
    "0030_webhook_streak",
    "0031_handle_claims",
    "0032_no_handle_claim",
    "0033_log_loser",
    "0034_event_index",
    "0035_event_symbol",
    "0036_abuse",
];

/// Time for one statement, and again for the nodes to agree on what it changed.
pub(super) const STEP: Duration = Duration::from_secs(10);
/// The lock is renewed before each migration, and so outlives the two steps of one.
const LOCK_SECONDS: i32 = 30;
/// How often the lock is tried.
const PAUSE: Duration = Duration::from_millis(500);
/// How many times: a holder that died is waited out, one that works through every migration too.
const TRIES: u32 = 240;

/// Creates what is missing; refuses a keyspace in which something is otherwise than this version knows.
pub(super) async fn run(
    session: &Session,
    options: &ScyllaOptions,
    known: &[Migration],
    clock: &dyn Clock,
) -> Result<(), ConnectError> {
    let keyspace = &options.keyspace;
    session::judge_copies(session, options)?;
    prepare(session, options).await?;
    let mut lock = Lock { session, owner: session.session_id().to_string() };
    for _ in 0..TRIES {
        if missing(session, keyspace, known).await?.is_empty() {
            return Ok(());
        }
        if !lock.take().await {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        for migration in missing(session, keyspace, known).await? {
            if !lock.renew().await {
                break; // it expired while this process was held up; someone else goes on
            }
            tracing::info!(migration = migration.name, keyspace, "migrating");
            alter(session, migration.name, migration.text).await?;
            let values = (migration.name, migration.checksum(), clock.now_ms());
            let text = "INSERT INTO schema_change (part, name, checksum, applied_at) VALUES ('schema', ?, ?, ?)";
            run_step(session, migration.name, repeatable(text), values).await?;
        }
        lock.release().await;
    }
    Err(ConnectError::Locked(keyspace.clone()))
}

/// The keyspace, and the two tables that the migrations themselves need.
async fn prepare(session: &Session, options: &ScyllaOptions) -> Result<(), ConnectError> {
    let keyspace = &options.keyspace;
    let (datacenter, copies) = (options.datacenter.replace('\'', "''"), options.replication_factor);
    let text = format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} \
         WITH replication = {{'class': 'NetworkTopologyStrategy', '{datacenter}': {copies}}}"
    );
    alter(session, "creating the keyspace", &text).await?;
    let using = session.use_keyspace(keyspace, false).await;
    using.map_err(|error| ConnectError::step("using the keyspace", error))?;
    for (table, columns) in [
        ("schema_lock", "name text PRIMARY KEY, owner text"),
        ("schema_change", "part text, name text, checksum text, applied_at bigint, PRIMARY KEY (part, name)"),
    ] {
        // Nothing locks these two, so two nodes may create them at once; by a given id it is still one table.
        let id = table_id(keyspace, table);
        let text = format!("CREATE TABLE IF NOT EXISTS {table} ({columns}) WITH id = '{id}'");
        alter(session, table, &text).await?;
    }
    Ok(())
}

fn table_id(keyspace: &str, table: &str) -> String {
    let mut hash: [u8; 32] = Sha256::digest(format!("{keyspace}.{table}")).into();
    // The bits that make it a UUID of version 5.
    hash[6] = (hash[6] & 0x0f) | 0x50;
    hash[8] = (hash[8] & 0x3f) | 0x80;
    let hex = hex::encode(hash);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32])
}

/// The migrations that the keyspace lacks.
async fn missing<'a>(
    session: &Session,
    keyspace: &str,
    known: &'a [Migration],
) -> Result<Vec<&'a Migration>, ConnectError> {
    let step = "reading the migrations applied";
    let wrong = |error: &dyn std::fmt::Display| ConnectError::step(step, error);
    // One partition: reading a whole table waits for a node that has just died.
    let text = repeatable("SELECT name, checksum FROM schema_change WHERE part = 'schema'");
    let answer = run_step(session, step, text, ()).await?;
    let answer = answer.ok_or_else(|| wrong(&"no rows"))?;
    let rows = answer.rows::<(String, String)>().map_err(|error| wrong(&error))?;
    let mut applied = rows.collect::<Result<HashMap<_, _>, _>>().map_err(|error| wrong(&error))?;
    let mut missing = Vec::new();
    for migration in known {
        match applied.remove(migration.name) {
            None => missing.push(migration),
            Some(checksum) if checksum == migration.checksum() => {}
            Some(_) => {
                let migration = migration.name.to_owned();
                return Err(ConnectError::Changed { keyspace: keyspace.to_owned(), migration });
            }
        }
    }
    match applied.into_keys().max() {
        Some(migration) => Err(ConnectError::Newer { keyspace: keyspace.to_owned(), migration }),
        None => Ok(missing),
    }
}

/// A statement that changes the schema; returns when all nodes that can be reached know of it.
async fn alter(session: &Session, step: &str, text: &str) -> Result<(), ConnectError> {
    run_step(session, step, text, ()).await?;
    // The driver waits only after statements that changed something, which another process may just have done.
    session.await_schema_agreement().await.map(drop).map_err(|error| ConnectError::step(step, error))
}

/// A statement that may be sent again, to another node.
fn repeatable(text: &str) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_is_idempotent(true);
    statement
}

async fn run_step(
    session: &Session,
    step: &str,
    statement: impl Into<Statement>,
    values: impl SerializeRow,
) -> Result<Option<QueryRowsResult>, ConnectError> {
    let mut statement = statement.into();
    statement.set_request_timeout(Some(STEP));
    let answer = session.query_unpaged(statement, values).await.map_err(|error| ConnectError::step(step, error))?;
    Ok(answer.into_rows_result().ok())
}

/// The lock on the keyspace's schema. A holder that dies loses it by expiry.
struct Lock<'a> {
    session: &'a Session,
    owner: String,
}

impl Lock<'_> {
    async fn take(&mut self) -> bool {
        let text = "INSERT INTO schema_lock (name, owner) VALUES ('schema', ?) IF NOT EXISTS USING TTL ?";
        // A try in doubt may have been a success, which renewing tells.
        self.condition(text, (self.owner.as_str(), LOCK_SECONDS)).await || self.renew().await
    }

    async fn renew(&self) -> bool {
        let text = "UPDATE schema_lock USING TTL ? SET owner = ? WHERE name = 'schema' IF owner = ?";
        self.condition(text, (LOCK_SECONDS, self.owner.as_str(), self.owner.as_str())).await
    }

    async fn release(&self) {
        self.condition("DELETE FROM schema_lock WHERE name = 'schema' IF owner = ?", (self.owner.as_str(),)).await;
    }

    async fn condition(&self, text: &str, values: impl SerializeRow) -> bool {
        let answer = match run_step(self.session, "the lock on the schema", text, values).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "not decided");
                return false;
            }
        };
        let row = answer.and_then(|answer| answer.first_row::<Row>().ok());
        matches!(row.and_then(|row| row.columns.into_iter().next().flatten()), Some(CqlValue::Boolean(true)))
    }
}

#[cfg(test)]
mod tests;

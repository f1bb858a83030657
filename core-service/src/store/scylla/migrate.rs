//! Migrations: one file for each change, applied once, in order, under a lock that expires if its holder dies.
//!
//! The name of a migration is noted once more, in another partition, if its file says that older versions go on beside
//! it. A core refuses a keyspace with a migration that it does not know, unless that one is later than all that it
//! knows and noted there.

mod applied;

use std::time::Duration;

use scylla::{
    client::session::Session,
    response::query_result::QueryRowsResult,
    serialize::row::SerializeRow,
    statement::unprepared::Statement,
    value::{CqlValue, Row},
};
use sha2::{Digest, Sha256};
use thesis_net::clock::Clock;

use self::applied::Applied;
use super::{
    options::{ConnectError, STEP_TIMEOUT, ScyllaOptions},
    session,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// Number and name, as in the name of the file.
    pub(super) name: &'static str,
    /// The statements. Each does nothing if it was carried out before.
    pub(super) text: &'static str,
}

impl Migration {
    /// The statements, without comments.
    fn statements(&self) -> Vec<String> {
        let code: Vec<&str> = self.text.lines().filter(|line| !line.starts_with("--")).collect();
        let code = code.join("\n");
        code.split(';').map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    }

    /// True if older versions, which do not know the migration, can run and start beside it. CONTRIBUTING.md has the
    /// rules.
    fn lets_older_go_on(&self) -> bool {
        self.text.lines().any(|line| line == OLDER_GO_ON)
    }

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

pub(super) const ALL: &[Migration] = migrations![
    "0001_log",
    "0002_events",
    "0003_profiles",
    "0004_tokens",
    "0005_theses",
    "0006_control",
    "0007_access",
    "0008_replicas",
    "0009_webhooks",
    "0010_upstream",
    "0011_accounts",
    "0012_trees",
    "0013_alerts",
    "0014_archive",
    "0015_webhook_replays",
    "0016_request_log",
];

/// The line in a migration that lets older versions run beside it.
const OLDER_GO_ON: &str = "-- Older versions go on beside this.";
/// Duration of the lock in seconds. It is renewed before each statement, and outlasts one with its schema agreement.
const LOCK_SECONDS: i32 = 30;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of tries: enough to outlast the lock of a dead holder, or a holder that applies every migration.
const MAX_LOCK_TRIES: u32 = 240;

/// Creates the keyspace and applies missing migrations. Refuses a keyspace with a changed migration, or with an unknown
/// one that does not let older versions run beside it.
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
    for _ in 0..MAX_LOCK_TRIES {
        if Applied::read(session).await?.missing(keyspace, known)?.is_empty() {
            return Ok(());
        }
        if !lock.take().await {
            tokio::time::sleep(LOCK_RETRY_PAUSE).await;
            continue;
        }
        for migration in Applied::read(session).await?.missing(keyspace, known)? {
            tracing::info!(migration = migration.name, keyspace, "migrating");
            if !migrate(&lock, migration, clock).await? {
                break; // another process continues
            }
        }
        lock.release().await;
    }
    Err(ConnectError::Locked(keyspace.clone()))
}

/// The migrations that a start would apply.
pub(super) async fn missing(session: &Session, keyspace: &str) -> Result<Vec<&'static Migration>, ConnectError> {
    Applied::read(session).await?.missing(keyspace, ALL)
}

/// Applies a migration. Returns false when the lock expired while this process was held up.
async fn migrate(lock: &Lock<'_>, migration: &Migration, clock: &dyn Clock) -> Result<bool, ConnectError> {
    for statement in migration.statements() {
        if !lock.renew().await {
            return Ok(false);
        }
        alter(lock.session, migration.name, &statement).await?;
    }
    if !lock.renew().await {
        return Ok(false);
    }
    applied::note_applied(lock.session, migration, clock).await?;
    Ok(true)
}

/// Creates the keyspace and the two tables that the migrations need.
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
        // No lock guards these two tables, so two nodes may create one at the same time. A fixed id makes it one table.
        let id = table_id(keyspace, table);
        let text = format!("CREATE TABLE IF NOT EXISTS {table} ({columns}) WITH id = '{id}'");
        alter(session, table, &text).await?;
    }
    Ok(())
}

fn table_id(keyspace: &str, table: &str) -> String {
    let mut hash: [u8; 32] = Sha256::digest(format!("{keyspace}.{table}")).into();
    // These bits mark a UUID of version 5.
    hash[6] = (hash[6] & 0x0f) | 0x50;
    hash[8] = (hash[8] & 0x3f) | 0x80;
    let hex = hex::encode(hash);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32])
}

/// Runs a statement that changes the schema. Returns when all reachable nodes know the change.
async fn alter(session: &Session, step: &str, text: &str) -> Result<(), ConnectError> {
    run_step(session, step, text, ()).await?;
    // The driver waits only after its own changes, but another process may just have made this one.
    session.await_schema_agreement().await.map(drop).map_err(|error| ConnectError::step(step, error))
}

/// A statement that may be sent again, to another node.
pub(super) fn repeatable(text: &str) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_is_idempotent(true);
    statement
}

pub(super) async fn run_step(
    session: &Session,
    step: &str,
    statement: impl Into<Statement>,
    values: impl SerializeRow,
) -> Result<Option<QueryRowsResult>, ConnectError> {
    let mut statement = statement.into();
    statement.set_request_timeout(Some(STEP_TIMEOUT));
    let answer = session.query_unpaged(statement, values).await.map_err(|error| ConnectError::step(step, error))?;
    Ok(answer.into_rows_result().ok())
}

/// The lock on the keyspace's schema. It expires if its holder dies.
struct Lock<'a> {
    session: &'a Session,
    owner: String,
}

impl Lock<'_> {
    async fn take(&mut self) -> bool {
        let text = "INSERT INTO schema_lock (name, owner) VALUES ('schema', ?) IF NOT EXISTS USING TTL ?";
        // A try in doubt may have succeeded; the renewal shows whether it did.
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

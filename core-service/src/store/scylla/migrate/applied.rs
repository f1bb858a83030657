//! The migrations of a keyspace, and the check whether this version can run with them.

use std::collections::{HashMap, HashSet};

use scylla::client::session::Session;
use thesis_net::clock::Clock;

use super::{ConnectError, Migration, repeatable, run_step};

const STEP: &str = "reading the migrations applied";
/// Partition with all applied migrations.
const SCHEMA: &str = "schema";
/// Partition with the migrations that let older versions run beside them. Versions that do not know this partition
/// refuse these migrations.
const BESIDE: &str = "beside";

#[derive(Default)]
pub(super) struct Applied {
    /// The checksums of the migrations, by name.
    pub(super) checksums: HashMap<String, String>,
    /// The names of the migrations that let older versions run beside them.
    pub(super) beside: HashSet<String>,
}

impl Applied {
    pub(super) async fn read(session: &Session) -> Result<Self, ConnectError> {
        // The order matters: a migration is noted in `beside` before it is noted as applied.
        let checksums = rows(session, SCHEMA).await?;
        let beside = rows(session, BESIDE).await?.into_keys().collect();
        Ok(Self { checksums, beside })
    }

    /// The migrations that the keyspace lacks.
    pub(super) fn missing<'a>(
        &self,
        keyspace: &str,
        known: &'a [Migration],
    ) -> Result<Vec<&'a Migration>, ConnectError> {
        let changed = known.iter().find(|migration| {
            let applied = self.checksums.get(migration.name);
            applied.is_some_and(|checksum| *checksum != migration.checksum())
        });
        if let Some(migration) = changed {
            let migration = migration.name.to_owned();
            return Err(ConnectError::Changed { keyspace: keyspace.to_owned(), migration });
        }
        let missing: Vec<_> = known.iter().filter(|migration| !self.checksums.contains_key(migration.name)).collect();
        let last = known.last().map_or("", |migration| migration.name);
        let is_newer = |name: &str| missing.is_empty() && name > last;
        let is_known = |name: &str| known.iter().any(|migration| migration.name == name);
        let is_fine = |name: &str| is_known(name) || is_newer(name) && self.beside.contains(name);
        let Some(migration) = self.checksums.keys().filter(|name| !is_fine(name)).max() else { return Ok(missing) };
        let (keyspace, is_newer, migration) = (keyspace.to_owned(), is_newer(migration), migration.clone());
        Err(if is_newer {
            ConnectError::Newer { keyspace, migration }
        } else {
            ConnectError::Older { keyspace, migration }
        })
    }
}

/// Reads the names and checksums of a partition.
async fn rows(session: &Session, part: &str) -> Result<HashMap<String, String>, ConnectError> {
    let wrong = |error: &dyn std::fmt::Display| ConnectError::step(STEP, error);
    // This reads one partition: a read of the whole table would wait for a node that just died.
    let text = repeatable("SELECT name, checksum FROM schema_change WHERE part = ?");
    let answer = run_step(session, STEP, text, (part,)).await?;
    let answer = answer.ok_or_else(|| wrong(&"no rows"))?;
    let rows = answer.rows::<(String, String)>().map_err(|error| wrong(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| wrong(&error))
}

pub(super) async fn note_applied(
    session: &Session,
    migration: &Migration,
    clock: &dyn Clock,
) -> Result<(), ConnectError> {
    let parts: &[&str] = if migration.lets_older_go_on() { &[BESIDE, SCHEMA] } else { &[SCHEMA] };
    for part in parts {
        let values = (*part, migration.name, migration.checksum(), clock.now_ms());
        let text = "INSERT INTO schema_change (part, name, checksum, applied_at) VALUES (?, ?, ?, ?)";
        run_step(session, migration.name, repeatable(text), values).await?;
    }
    Ok(())
}

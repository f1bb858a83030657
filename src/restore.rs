//! `trade-thesis restore`: makes a data folder of a backup, while no service uses it.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use core_service::{
    generation,
    store::embedded::{
        Options,
        backup::{RestoreError, restore, unfinished},
    },
};
use thesis_net::clock::SystemIdSource;
use thesis_proto::time::format_millis;

use crate::{
    Failure,
    config::{Keys, Refused, Settings},
    encryption, secrets,
};

/// Make a data folder of a backup
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The file that `admin backup` made
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The file with an age identity, if the backup is encrypted
    #[arg(long, value_name = "KEYFILE")]
    identity: Option<PathBuf>,
}

/// Restores into the data folder, and prints the remaining steps.
pub(crate) fn run(command: &Restore, settings: &Settings) -> Result<(), Failure> {
    let dir = &settings.store.data_dir;
    let identities = match &command.identity {
        Some(file) => encryption::identities_in(file).map_err(|error| format!("--identity: {error}"))?,
        None => Vec::new(),
    };
    // The copy gets a new generation: cursors of entries that it lacks must not become valid there.
    let (table, row) = generation::row_key();
    let restored = restore(
        &command.from,
        |file| encryption::open(file, &identities),
        dir,
        Options::default(),
        (table, row.as_slice()),
        &SystemIdSource,
    );
    let verified = restored.map_err(|error| match error {
        RestoreError::Backup { .. } => Failure::from(format!("--from: {error}")),
        RestoreError::Occupied { .. } | RestoreError::Open(_) => Refused::new("SVC_DATA_DIR", error).into(),
    })?;
    let contents = &verified.contents;
    let (rows, tables, at) = (contents.rows(), contents.tables.len(), format_millis(contents.created_at_ms));
    let folder = dir.display();
    writeln!(io::stdout(), "Restored {rows} rows of {tables} tables into {folder}, as they were at {at}.")?;
    writeln!(io::stdout(), "{}", key_needed(&settings.keys, dir))?;
    Ok(())
}

/// The files that a start needs besides the store.
fn key_needed(keys: &Keys, dir: &Path) -> String {
    let file = dir.join(secrets::SECRET_KEY);
    let note = "The start checks it.";
    if matches!(keys.secret_key(), Ok(Some(_))) {
        return format!("It holds no keys. SVC_SECRET_KEY must be that of the saved service. {note}");
    }
    if file.exists() {
        return format!("It holds no keys. {} must be that of the saved service. {note}", file.display());
    }
    format!(
        "It holds no keys. Before the start, put the saved service's secret key into {} or set SVC_SECRET_KEY. {note}",
        file.display()
    )
}

/// Refuses a folder in which a restore did not end.
pub(crate) fn demand_finished(dir: &Path) -> Result<(), Refused> {
    unfinished(dir).map_or(Ok(()), |folder| {
        let reason = format!("{} is of a restore that did not end", folder.display());
        let remedy = "run `trade-thesis restore` again, or delete this folder for a new store";
        Err(Refused::new("SVC_DATA_DIR", reason).remedy(remedy))
    })
}

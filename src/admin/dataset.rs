//! Exports a dataset as JSON lines, and imports it elsewhere.
//!
//! Only entries are exported: all rows follow from them. What does not follow is left out: the control log, the
//! position in the upstream's feed, deliveries and queues, idempotency keys.

mod check;
mod file;
mod id_check;

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Seek as _, Write},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use core_service::domain::{dataset::Dataset, entry::Entry};
use serde_json::json;
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::{
    error::ErrorCode,
    v1::{ExportDatasetRequest, ImportDatasetRequest},
};
use tonic::Status;

use self::{
    check::{Checked, check},
    file::{FileWriter, Line, Lines},
};
use super::{
    Client,
    new_file::{NewFile, broken, failed, unless_interrupted},
    output::{CommandOutput, Resource},
};
use crate::terminal::write_stderr;

/// Maximum entries that are sent at once.
const MAX_PART_ENTRIES: usize = 256;
/// Maximum bytes of several entries that are sent at once: core takes a message of 256 KiB.
const MAX_PART_BYTES: usize = 240 * 1024;

/// What is exported.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The dataset: `live`, `sandbox` or `project/<id>`
    #[arg(long, value_name = "DATASET")]
    dataset: String,
    /// A new file for it [default: stdout]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// What is imported.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The dataset that gets the entries: `live`, `sandbox` or `project/<id>`
    #[arg(long, value_name = "DATASET", value_parser = known)]
    dataset: Dataset,
    /// The file of an export; no pipe, since it is read twice
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

fn known(text: &str) -> Result<Dataset, String> {
    Dataset::parse(text).ok_or_else(|| "not live, sandbox, project/<id> or alerts/<project>/<environment>".to_owned())
}

fn refused(why: impl Into<String>) -> Status {
    failed(ErrorCode::InvalidRequest, why)
}

/// Writes a dataset to a new file or stdout.
pub(super) async fn export(arguments: Export, client: Client) -> Result<CommandOutput, Status> {
    let Export { dataset, to } = arguments;
    let Some(to) = to else {
        write(client, &dataset, io::stdout()).await?;
        return Ok(CommandOutput::Printed);
    };
    let new = NewFile::make(to)?;
    let (entries, sha256) = unless_interrupted(write(client, &dataset, &new.file)).await?;
    let file = new.keep()?;
    Ok(CommandOutput::One(Resource(vec![
        ("dataset", json!(dataset)),
        ("entries", json!(entries)),
        ("sha256", json!(sha256)),
        ("file", json!(file.display().to_string())),
    ])))
}

/// Writes all lines; returns the number of entries and their sum.
async fn write(mut client: Client, dataset: &str, to: impl Write) -> Result<(u64, String), Status> {
    let unwritten = |error: io::Error| refused(format!("the export cannot be written: {error}"));
    let mut parts = client.export_dataset(ExportDatasetRequest { dataset: dataset.to_owned() }).await?.into_inner();
    let first = parts.message().await?.ok_or_else(|| Status::internal("core left out the head"))?;
    let mut file =
        FileWriter::begin(BufWriter::new(to), dataset, first.head, SystemClock.now_ms()).map_err(unwritten)?;
    let mut next = 1;
    while let Some(part) = parts.message().await? {
        for body in &part.entries {
            let entry = Entry::read_whole(next, body);
            let entry = entry.map_err(|why| refused(format!("entry {next} of {dataset} {why}")))?;
            file.entry(&Line { seq: next, entry }).map_err(unwritten)?;
            next += 1;
        }
    }
    if next <= first.head {
        return Err(Status::unavailable(format!("the export stopped after {} of {} entries", next - 1, first.head)));
    }
    let sha256 = file.end().map_err(unwritten)?;
    Ok((first.head, sha256))
}

/// Opens an export, if it can be read again.
fn open(from: &Path) -> Result<File, Status> {
    let unusable = |why| refused(format!("--from: {}: {why}; name the file of an export", from.display()));
    let twice = || unusable("an import reads it twice, and this can be read only once".to_owned());
    // To open a named pipe would wait for a writer.
    if from.metadata().map_err(|error| unusable(error.to_string()))?.file_type().is_fifo() {
        return Err(twice());
    }
    let mut file = File::open(from).map_err(|error| unusable(error.to_string()))?;
    file.rewind().map_err(|_| twice())?;
    Ok(file)
}

/// Checks a whole export, then copies its entries.
pub(super) async fn import(arguments: Import, client: Client) -> Result<CommandOutput, Status> {
    let Import { dataset, from } = arguments;
    let mut file = open(&from)?;
    let checked = check(BufReader::new(&file), &dataset).map_err(refused)?;
    file.rewind().map_err(broken(&from))?;
    let imported = send(&checked, BufReader::new(&file), &dataset, client).await?;
    Ok(CommandOutput::One(Resource(vec![
        ("dataset", json!(dataset.to_string())),
        ("entries", json!(checked.entries)),
        ("imported", json!(imported)),
        ("sha256", json!(hex::encode(checked.sha256))),
    ])))
}

/// Copies the missing entries; returns their number.
async fn send(checked: &Checked, file: impl io::BufRead, dataset: &Dataset, mut client: Client) -> Result<u64, Status> {
    let part = |after: u64, entries: Vec<Vec<u8>>| ImportDatasetRequest {
        dataset: dataset.to_string(),
        head: checked.entries,
        sha256: checked.sha256.to_vec().into(),
        after,
        entries: entries.into_iter().map(Into::into).collect(),
    };
    let there = client.import_dataset(part(0, Vec::new())).await?.into_inner().head.min(checked.entries);
    let mut lines = Lines::new(file);
    let (mut after, mut entries, mut bytes) = (there, Vec::new(), 0);
    // The header and the entries.
    for _ in 0..=there {
        lines.next_line().map_err(refused)?;
    }
    for seq in there + 1..=checked.entries {
        let stored = lines.entry().map_err(refused)?.entry.stored(seq);
        if entries.len() == MAX_PART_ENTRIES || bytes + stored.len() > MAX_PART_BYTES && !entries.is_empty() {
            send_part(&mut client, part(after, std::mem::take(&mut entries))).await?;
            (after, bytes) = (seq - 1, 0);
        }
        bytes += stored.len();
        entries.push(stored);
    }
    if !entries.is_empty() {
        send_part(&mut client, part(after, entries)).await?;
    }
    Ok(checked.entries - there)
}

async fn send_part(client: &mut Client, part: ImportDatasetRequest) -> Result<(), Status> {
    let (imported, of) = (part.after, part.head);
    let sent = client.import_dataset(part).await;
    sent.map(drop).inspect_err(|_| write_stderr(&format!("{}\n", broken_off(imported, of))))
}

/// The remedy after an interrupted import.
fn broken_off(imported: u64, of: u64) -> String {
    match imported {
        0 => "no entry is known to be imported; run the command again".to_owned(),
        _ => format!("{imported} of {of} entries are imported; run the command again to go on"),
    }
}

#[cfg(test)]
mod tests;

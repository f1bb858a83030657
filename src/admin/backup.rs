//! A backup of the embedded store, sent by a running core into a file here.

use std::{
    fs::File,
    io::{self, BufReader, IsTerminal as _, Read, Seek as _, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use age::x25519::Recipient;
use clap::Args;
use core_service::store::embedded::backup::{BackupError, Verified, verify};
use rustix::process::nice;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::{
    error::ErrorCode,
    time::from_millis,
    v1::{BackupRequest, BackupResponse},
};
use tokio::time::timeout;
use tonic::Status;

use super::{
    Client,
    new_file::{NewFile, broken, failed, unless_interrupted},
    output::{CommandOutput, Resource, time},
};
use crate::{
    encryption::{self, Encryption},
    terminal::write_stderr,
};

/// Timeout for the next message of core.
const MESSAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum bytes of a message: one very large row.
const MAX_MESSAGE_BYTES: usize = 9 << 20;
/// Interval of the progress display in milliseconds.
const DRAW_INTERVAL_MS: i64 = 1_000;
/// Niceness of the command, so that a service on this machine comes first.
const NICENESS: i32 = 10;

/// Save the embedded store of a running core into a file
#[derive(Debug, Args)]
pub(crate) struct Command {
    /// The file to make; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Encrypt the file by age to this public key, such as age1...; may be given several times
    #[arg(long, value_name = "PUBLIC_KEY", value_parser = encryption::recipient)]
    recipient: Vec<Recipient>,
}

/// A file with the hash of its bytes that were read.
struct Hashed<'a> {
    file: &'a File,
    hash: &'a mut Sha256,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file;
        let count = file.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

/// Reads a whole file back. Length and hash describe the file, even if it is encrypted.
fn read_back(file: &File, encryption: Option<&Encryption>) -> Result<Verified, BackupError> {
    let Some(encryption) = encryption else { return verify(BufReader::new(file)) };
    let mut hash = Sha256::new();
    let verified = encryption.reader(Hashed { file, hash: &mut hash }).and_then(verify)?;
    Ok(Verified { bytes: file.metadata()?.len(), sha256: hex::encode(hash.finalize()), ..verified })
}

/// Reads a whole file back, and keeps it if it is a whole backup.
fn finish(mut new: NewFile, encryption: Option<&Encryption>, rows: u64) -> Result<(Verified, PathBuf), Status> {
    new.file.rewind().map_err(broken(new.draft()))?;
    let verified = read_back(&new.file, encryption)
        .map_err(|error| failed(ErrorCode::InternalError, format!("nothing was saved; what core sent: {error}")))?;
    if verified.contents.rows() != rows {
        let text = format!("nothing was saved: {rows} rows were sent, {} arrived", verified.contents.rows());
        return Err(failed(ErrorCode::InternalError, text));
    }
    Ok((verified, new.keep()?))
}

/// A progress line on a terminal, redrawn in place.
struct Progress {
    drawn_at: i64,
    bytes: u64,
}

impl Progress {
    fn draw(&mut self, message: &BackupResponse, now_ms: i64) {
        self.bytes += message.data.len() as u64;
        let done = message.rows == message.rows_total;
        if now_ms - self.drawn_at >= DRAW_INTERVAL_MS || done {
            let percent = (message.rows * 100).checked_div(message.rows_total).unwrap_or(100);
            let (rows, of, megabytes) = (message.rows, message.rows_total, self.bytes / 1_000_000);
            write_stderr(&format!("\r{percent:>3} %  {rows} of {of} rows, {megabytes} MB "));
            self.drawn_at = now_ms;
        }
    }
}

/// Writes all messages of core into the file; returns the number of rows.
async fn receive(
    client: Client,
    new: &NewFile,
    encryption: Option<&Encryption>,
    progress: &mut Option<Progress>,
) -> Result<u64, Status> {
    let (mut file, draft) = (&new.file, new.draft());
    let Some(encryption) = encryption else { return write_pieces(client, &mut file, draft, progress).await };
    let mut writer = encryption.writer(file).map_err(broken(draft))?;
    let rows = write_pieces(client, &mut writer, draft, progress).await?;
    writer.finish().map_err(broken(draft))?;
    Ok(rows)
}

/// Writes all messages of core; returns the number of rows.
async fn write_pieces(
    mut client: Client,
    to: &mut impl Write,
    draft: &Path,
    progress: &mut Option<Progress>,
) -> Result<u64, Status> {
    let broke_off = |why: &str| Status::unavailable(format!("nothing was saved: {why}"));
    let late = |_| broke_off(&format!("core sent nothing for {} seconds", MESSAGE_TIMEOUT.as_secs()));
    let mut pieces = timeout(MESSAGE_TIMEOUT, client.backup(BackupRequest {})).await.map_err(late)??.into_inner();
    let (mut rows, mut of) = (0, 0);
    loop {
        let piece = timeout(MESSAGE_TIMEOUT, pieces.message()).await.map_err(late)?;
        // An error from core has more details.
        let piece = piece.map_err(|status| match status.details() {
            [] => broke_off(&format!("the backup broke off: {}", status.message())),
            _ => status,
        })?;
        let Some(piece) = piece else { break };
        to.write_all(&piece.data).map_err(broken(draft))?;
        if let Some(progress) = progress {
            progress.draw(&piece, SystemClock.now_ms());
        }
        (rows, of) = (piece.rows, piece.rows_total);
    }
    if rows == of { Ok(rows) } else { Err(broke_off(&format!("core ended the backup after {rows} of {of} rows"))) }
}

/// Runs the command. The progress is shown on a terminal, unless a program reads the output.
pub(super) async fn run(command: Command, client: Client, for_program: bool) -> Result<CommandOutput, Status> {
    let new = NewFile::make(command.to)?;
    let encryption = Encryption::for_recipients(command.recipient);
    // Best effort: without the permission, the command keeps its priority.
    let _ = nice(NICENESS);
    let mut progress = (!for_program && io::stderr().is_terminal()).then_some(Progress { drawn_at: 0, bytes: 0 });
    let client = client.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let received = unless_interrupted(receive(client, &new, encryption.as_ref(), &mut progress)).await;
    if progress.is_some_and(|progress| progress.drawn_at > 0) {
        write_stderr("\n");
    }
    let rows = received?;
    let (verified, file) = finish(new, encryption.as_ref(), rows)?;
    if !for_program {
        write_stderr(
            "The backup has no keys in it. Without the service's secret key (SVC_SECRET_KEY, or secret_key in the data \
             folder) its API keys and its webhooks' secrets are lost: keep a copy of it, in another place.\n",
        );
    }
    Ok(CommandOutput::One(Resource(vec![
        ("object", json!("backup")),
        ("file", json!(file.display().to_string())),
        ("bytes", json!(verified.bytes)),
        ("rows", json!(rows)),
        ("tables", json!(verified.contents.tables.len())),
        ("created_at", time(Some(&from_millis(verified.contents.created_at_ms)))),
        ("sha256", json!(verified.sha256)),
    ])))
}

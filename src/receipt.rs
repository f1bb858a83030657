//! `trade-thesis receipt verify`: checks a receipt or a signed statement, without network access.

mod report;

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use thesis_receipts::{Document, KeyKind, MAX_BYTES, VerifierKey, VerifierKeyError};

use self::report::Report;

/// Work with receipts.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a receipt or a signed statement, without network access
    #[command(
        after_help = "Ends with 0 when it is valid, with 1 when it is not, and with 2 when the file is not readable."
    )]
    Verify(Verify),
}

/// The file to check, and the trusted keys.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A key of the service that you trust, as it lists them at /v1/log/keys [default: the keys that the file names]
    #[arg(long, value_name = "KEY", value_parser = log_key)]
    key: Vec<VerifierKey>,
    /// The key of a witness that must have cosigned
    #[arg(long, value_name = "KEY", value_parser = witness_key)]
    witness: Vec<VerifierKey>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

fn log_key(text: &str) -> Result<VerifierKey, String> {
    key_of_kind(text, KeyKind::Log, "it is the key of a witness, so name it with --witness")
}

fn witness_key(text: &str) -> Result<VerifierKey, String> {
    key_of_kind(text, KeyKind::Witness, "it is the key of a log, so name it with --key")
}

/// A key of the wrong kind is an error of the caller, and must not make a valid file look invalid.
fn key_of_kind(text: &str, kind: KeyKind, otherwise: &str) -> Result<VerifierKey, String> {
    let key: VerifierKey = text.parse().map_err(|error: VerifierKeyError| error.to_string())?;
    if key.kind() == kind { Ok(key) } else { Err(otherwise.to_owned()) }
}

/// Prints the verdict, and returns it as the exit code.
pub(crate) fn run(command: &Command) -> ExitCode {
    let Command::Verify(verify) = command;
    let report = verify.report();
    let text = if verify.json { report.json() } else { report.text() };
    // If stdout fails, nobody has read the verdict, so the exit code is not that of a valid file.
    if writeln!(io::stdout(), "{text}").is_err() { ExitCode::from(2) } else { report.exit_code() }
}

impl Verify {
    fn report(&self) -> Report {
        let bytes = match self.read() {
            Ok(bytes) => bytes,
            Err(error) => return Report::unreadable(format!("{} cannot be read: {error}", self.file.display())),
        };
        match Document::parse(&bytes) {
            Err(error) => Report::unreadable(error.to_string()),
            Ok(document) => match document.verify(&self.key, &self.witness) {
                Err(error) => Report::invalid(error.to_string()),
                Ok(proven) => Report::valid(&document, &proven),
            },
        }
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One more byte than a document may have shows that the file is too large.
        File::open(&self.file)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

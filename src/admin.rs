//! The operator's commands, by gRPC to a running core.

mod abuse;
mod archive;
mod audit;
mod backup;
pub(crate) mod client;
mod dataset;
mod ingest;
mod key;
mod new_file;
mod organization;
mod output;
mod project;
mod thesis;
mod user;
mod webhook;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Subcommand};
use core_service::domain::window::parse_span;
use prost_types::Timestamp;
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::time::{from_millis, parse_iso8601};
use tonic::Status;

use self::{client::Client, output::CommandOutput};
use crate::{config::Settings, terminal::note};

/// Operate a running core.
#[derive(Debug, Args)]
pub(crate) struct Admin {
    /// Print one JSON document on stdout, errors too
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Customers and their plans
    #[command(subcommand)]
    Organization(organization::Command),
    /// Projects of organizations
    #[command(subcommand)]
    Project(project::Command),
    /// API keys of projects
    #[command(subcommand)]
    Key(key::Command),
    /// People who can sign in
    #[command(subcommand)]
    User(user::Command),
    /// Who did what
    #[command(subcommand)]
    Audit(audit::Command),
    /// Addresses that fail to authenticate too often
    #[command(subcommand)]
    Abuse(abuse::Command),
    /// Webhooks of projects, and their deliveries
    #[command(subcommand)]
    Webhook(webhook::Command),
    /// Deleted theses
    #[command(subcommand)]
    Thesis(thesis::Command),
    /// Files of each day
    #[command(subcommand)]
    Archive(archive::Command),
    /// Live data and its upstream
    #[command(subcommand)]
    Ingest(ingest::Command),
    /// Save the embedded store of a running core into a file
    Backup(backup::Command),
    /// Write a dataset's log as JSON lines
    Export(dataset::Export),
    /// Copy an exported dataset into one without entries
    Import(dataset::Import),
}

pub(crate) async fn run(admin: Admin, settings: &Settings) -> ExitCode {
    let client = settings.core_channel(Arc::new(SystemClock)).and_then(|channel| client::client(channel, settings));
    let client = match client {
        Ok(client) => client,
        Err(reason) => return refused(&reason.to_string(), admin.json),
    };
    let output = match admin.subject {
        Subject::Organization(command) => organization::run(command, client).await,
        Subject::Project(command) => project::run(command, client).await,
        Subject::Key(command) => key::run(command, client).await,
        Subject::User(command) => user::run(command, client).await,
        Subject::Audit(command) => audit::run(command, client).await,
        Subject::Abuse(command) => abuse::run(command, client).await,
        Subject::Webhook(command) => webhook::run(command, client, admin.json).await,
        Subject::Thesis(command) => thesis::run(command, client).await,
        Subject::Archive(command) => archive::run(command, client).await,
        Subject::Export(arguments) => dataset::export(arguments, client).await,
        Subject::Import(arguments) => dataset::import(arguments, client).await,
        Subject::Ingest(command) => ingest::run(command, client, admin.json).await,
        Subject::Backup(command) => backup::run(command, client, admin.json).await,
    };
    let cores = settings.addresses.core_url.join(", ");
    match (output, admin.json) {
        (Ok(output), json) => print(&if json { output.json() } else { output.text() }, ExitCode::SUCCESS),
        (Err(status), true) => print(&output::error_json(&status, &cores), ExitCode::FAILURE),
        (Err(status), false) => {
            note(&output::error_text(&status, &cores));
            ExitCode::FAILURE
        }
    }
}

/// Prints why a command cannot run at all: the error of its command line or of a setting.
pub(crate) fn refused(reason: &str, json: bool) -> ExitCode {
    let code = ExitCode::from(2);
    if json {
        return print(&output::refused_json(reason), code);
    }
    note(reason);
    code
}

/// Writes the one document to stdout; a closed stdout makes it a failure.
fn print(text: &str, code: ExitCode) -> ExitCode {
    if text.is_empty() {
        return code;
    }
    if writeln!(io::stdout(), "{text}").is_ok() { code } else { ExitCode::FAILURE }
}

/// A part that every well-formed response has.
fn part<T>(part: Option<T>) -> Result<T, Status> {
    part.ok_or_else(|| Status::internal("core left out the resource"))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    parse_iso8601(text).ok_or_else(|| "not a time such as 2031-01-01T00:00:00Z".to_owned())
}

/// Reads a time, or a span before now.
fn since(text: &str) -> Result<Timestamp, String> {
    let ago = parse_span(text).map(|span| from_millis(SystemClock.now_ms().saturating_sub(span)));
    let read = ago.or_else(|| parse_iso8601(text));
    read.ok_or_else(|| "not a time such as 2031-01-01T00:00:00Z, nor a span such as 24h".to_owned())
}

fn one<T: Into<output::Resource>>(resource: Option<T>) -> Result<CommandOutput, Status> {
    Ok(CommandOutput::One(part(resource)?.into()))
}

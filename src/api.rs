//! `api`: the public API for people and scripts. It prints tables on a terminal and JSON elsewhere.

mod client;
mod login;
mod output;
mod read;
mod tail;
mod verify;
mod webhooks;

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use thesis_net::clock::{SharedIdSource, SystemIdSource};

use self::{client::ApiClient, output::Output};
use crate::{
    Failure,
    account::Account,
    config::Settings,
    http,
    terminal::{is_closed_pipe, note},
};

/// Use the API with an API key.
#[derive(Debug, Args)]
#[command(after_help = "The key is that of SVC_KEY or of a profile: `trade-thesis api login` stores one.\n\
    The exit code is 0 for success, 1 for an error of the API or the network, and 2 for a wrong command line. That of \
    `verify` is 0 when the claim is verified, 1 when it is not, and 2 when there is no verdict.")]
pub(crate) struct Api {
    #[command(flatten)]
    account: Account,
    #[command(flatten)]
    output: output::Arguments,
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// List theses, newest first
    List(read::List),
    /// Read a thesis, profile, token, event, webhook or alert
    Get(read::Get),
    /// Search theses, profiles and tokens
    Search(read::Search),
    /// Check whether somebody posted a thesis on a token in a window
    Verify(verify::Verify),
    /// List events, newest first
    Events(read::Events),
    /// Print events as they happen, until interrupted
    Tail(tail::Tail),
    /// Manage webhooks, their deliveries and secrets
    #[command(subcommand)]
    Webhooks(webhooks::Command),
    /// Show how much of the plan's limits is used
    Usage,
    /// Store a key in a profile: that of --key or SVC_KEY, else the first line of stdin
    Login,
}

/// Calls the API. Returns the exit code.
pub(crate) async fn run(api: Api, settings: &Settings) -> ExitCode {
    let is_verdict = matches!(api.subject, Subject::Verify(_));
    let shows_secret = matches!(&api.subject, Subject::Webhooks(command) if command.shows_secret());
    match call(api, settings).await {
        Ok(code) => code,
        // A verdict that nobody read is none, and a secret that nobody read is lost.
        Err(error) if is_closed_pipe(&error) && !shows_secret => ExitCode::from(if is_verdict { 2 } else { 0 }),
        Err(error) => {
            note(&error.to_string());
            ExitCode::from(if is_verdict { 2 } else { 1 })
        }
    }
}

async fn call(api: Api, settings: &Settings) -> Result<ExitCode, Failure> {
    let Api { account, output, subject } = api;
    let root_certificate = settings.webhooks.root_certificate()?;
    let http = http::client(root_certificate.as_deref())?.build()?;
    let ids: SharedIdSource = Arc::new(SystemIdSource);
    let output = Output::new(&output);
    if let Subject::Login = subject {
        login::run(&account, http, ids).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let credentials = account.credentials()?;
    if let Subject::Tail(tail) = subject {
        tail::run(tail, http, credentials, ids, output).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let client = ApiClient::new(http, credentials, ids);
    match subject {
        Subject::List(list) => read::list(list, &client, &output).await?,
        Subject::Get(get) => read::get(&get, &client, &output).await?,
        Subject::Search(search) => read::search(search, &client, &output).await?,
        Subject::Verify(verify) => return verify::run(verify, &client, &output).await,
        Subject::Events(events) => read::events(events, &client, &output).await?,
        Subject::Webhooks(command) => webhooks::run(command, &client, &output).await?,
        Subject::Usage => output.one(&client.get(&["me", "usage"], &[]).await?)?,
        Subject::Login | Subject::Tail(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

//! The command line: the role or the admin command, and all settings.

use std::{ffi::OsString, process::ExitCode};

use clap::{
    Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use thesis_proto::near;

use crate::{
    admin::{self, Admin},
    config::Settings,
    listen::Listen,
    upstream_sim::UpstreamSim,
};

/// Most words that are told as what may be meant.
const MOST_NEAR: usize = 3;

/// What was asked for.
#[derive(Debug, Parser)]
#[command(
    name = "trade-thesis",
    version,
    about = "Trade thesis data service",
    long_about = "Trade thesis data service: REST, streams, gRPC and signed webhooks.\n\n\
        Without a command it runs everything in one process and keeps its data in the data folder.\n\
        Every setting is a flag and an environment variable; the flag wins."
)]
pub(crate) struct Invocation {
    /// The role to run, or another command; everything in one process without.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// How to run it.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// What to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the core: it owns the data and serves gRPC
    Core,
    /// Run an edge: it serves REST and streams
    Edge,
    /// Run a worker: it sends webhooks
    Worker,
    /// Operate a running core
    Admin(Admin),
    /// Forward events to an endpoint of this machine, signed as a webhook's deliveries are
    Listen(Listen),
    /// Simulate an upstream, with faults on demand
    UpstreamSim(UpstreamSim),
}

/// Reads the command line and the environment. On an error, its message is already printed.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, ExitCode> {
    let mut command = command();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = wants_json(&arguments);
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| Invocation::from_arg_matches(&matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let code = error.exit_code();
            // Only a closed pipe can make this fail.
            let _ = error.print();
            u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        _ => admin::refused(&explain(&error, &command), json),
    })
}

/// Whether a command line, understood or not, asks for a JSON document.
fn wants_json(arguments: &[OsString]) -> bool {
    let has = |word: &str| arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == word);
    has("admin") && has("--json")
}

/// The command line. All settings may come before or after the command.
pub(crate) fn command() -> clap::Command {
    let global = |arg: Arg| arg.global(true).hide_env_values(true);
    let command = without_empty_variables(Invocation::command().mut_args(global));
    let command = command.mut_subcommand("listen", without_empty_variables);
    let mut command = command.mut_subcommand("upstream-sim", without_empty_variables);
    command.build();
    command
        .mut_subcommand("admin", |admin| hide_unused(admin, &["core_url", "service_token", "data_dir"]))
        .mut_subcommand("listen", |listen| hide_unused(listen, &["webhook_ca_file"]))
        .mut_subcommand("upstream-sim", |simulator| hide_unused(simulator, &[]))
}

/// Compose files and the like pass on unset variables as empty ones.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        if empty { arg.env(None::<&str>) } else { arg }
    })
}

/// Leaves settings that a command does not use out of its help.
fn hide_unused(command: clap::Command, used: &[&str]) -> clap::Command {
    let hidden = |arg: Arg| {
        let id = arg.get_id().as_str();
        let is_setting = arg.get_env().is_some() || id == "demo_live";
        let hide = arg.is_global_set() && is_setting && !used.contains(&id);
        arg.hide(hide)
    };
    command.mut_args(hidden).mut_subcommands(|command| hide_unused(command, used))
}

/// The error in the command line, with the variable's name first if it concerns a setting.
pub(crate) fn explain(error: &clap::Error, command: &clap::Command) -> String {
    let text = error.to_string();
    let text: Vec<_> = text.lines().take_while(|line| !line.is_empty()).collect();
    let text = text.join(" ");
    let text = format!("{}{}", text.trim_start_matches("error: "), advice(error));
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return text };
    let flag = flag.trim_start_matches('-').split([' ', '=']).next();
    let variable = command.get_arguments().find(|arg| arg.get_long() == flag).and_then(Arg::get_env);
    variable.map_or_else(|| text.clone(), |variable| format!("{}: {text}", variable.display()))
}

/// What may be meant by an unknown word, or where the known ones are told.
fn advice(error: &clap::Error) -> String {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let near = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(vec![format!("`{name}`")]),
        // The likeliest is the last.
        ContextValue::Strings(names) if !names.is_empty() => {
            Some(names.iter().rev().take(MOST_NEAR).map(|name| format!("`{name}`")).collect())
        }
        _ => None,
    });
    match (near, error.kind()) {
        (Some(near), _) => format!("; did you mean {}?", near::one_of(&near)),
        (None, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => "; see --help".to_owned(),
        (None, _) => String::new(),
    }
}

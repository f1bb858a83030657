//! The command line: the role or the admin command, and all settings.

use std::{error::Error as _, ffi::OsString, process::ExitCode};

use clap::{
    Arg, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};
use thesis_proto::near;

use crate::{
    account,
    admin::{self, Admin},
    api::Api,
    config::Settings,
    doctor::Doctor,
    listen::Listen,
    mcp::Mcp,
    receipt,
    restore::Restore,
    shells::{Completion, Manual},
    upstream_sim::UpstreamSim,
    version,
    witness::Witness,
};

const MAX_NEAR: usize = 3;

/// The variable that names the commit when the program is compiled.
const BUILD: &str = "SVC_BUILD_COMMIT";

/// The settings that decide which parts `doctor` checks, for its help. It checks the others too.
const DOCTORS: &[&str] = &[
    "http_addr",
    "grpc_addr",
    "internal_addr",
    "ops_addr",
    "public_url",
    "core_url",
    "core_ca_file",
    "tls_cert",
    "tls_key",
    "kind",
    "data_dir",
    "scylla_nodes",
    "scylla_keyspace",
    "scylla_replication_factor",
    "scylla_datacenter",
    "scylla_user",
    "scylla_password",
    "scylla_ca_file",
    "secret_key",
    "log_key",
    "witnesses",
    "service_token",
    "plans_file",
    "webhook_ca_file",
    "dns_servers",
];

/// Arguments that the help shows for commands that call the API: the flags of an account, and a setting.
const CALLERS: &[&str] = &["key", "profile", "api", "webhook_ca_file"];

/// The subcommand.
#[derive(Debug, Parser)]
#[command(
    name = "trade-thesis",
    version = version::BOTH,
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
    /// Check a set-up before a start; changes nothing
    Doctor(Doctor),
    /// Operate a running core
    Admin(Admin),
    /// Use the API: theses, events, webhooks
    Api(Api),
    /// Tell by the exit code whether the process at SVC_OPS_ADDR is ready
    Health,
    /// Forward events to an endpoint of this machine, signed as a webhook's deliveries are
    Listen(Listen),
    /// Serve the API's tools to a program that works with a language model (MCP), over stdin and stdout
    Mcp(Mcp),
    /// Check receipts and signed statements
    #[command(subcommand)]
    Receipt(receipt::Command),
    /// Make a data folder of a backup, while no service uses it
    Restore(Restore),
    /// Cosign the checkpoints of logs, so that no service can show two histories of its log
    Witness(Witness),
    /// Simulate an upstream, with faults on demand
    UpstreamSim(UpstreamSim),
    /// Print the completion of bash, zsh or fish
    Completion(Completion),
    /// Write the manual pages of all commands
    Man(Manual),
}

/// Reads the command line and the environment. On an error, its message is already printed.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, ExitCode> {
    let mut command = command();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = wants_json(&arguments);
    let parsed = parse(&mut command, arguments.clone());
    let parsed = parsed.or_else(|error| without_refused(arguments, &error, &command).ok_or(error));
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

fn parse(command: &mut clap::Command, arguments: Vec<OsString>) -> Result<Invocation, clap::Error> {
    let matches = command.try_get_matches_from_mut(arguments)?;
    let mut invocation = Invocation::from_arg_matches(&matches)?;
    if let Some(Command::Doctor(doctor)) = &mut invocation.command {
        doctor.given = given(command, &matches);
        // An empty variable counts as unset.
        let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        doctor.unknown = unknown(set.map(|(name, _)| name.to_string_lossy().into_owned()));
    }
    Ok(invocation)
}

/// The variables of the settings that are given, whether by flags or by variables.
fn given(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let source = |arg: &Arg| matches.value_source(arg.get_id().as_str());
    let settings = command.get_arguments().filter_map(|arg| Some((arg, arg.get_env()?)));
    let given = settings.filter(|(arg, _)| source(arg).is_some_and(|source| source != ValueSource::DefaultValue));
    given.map(|(_, variable)| variable.to_string_lossy().into_owned()).collect()
}

/// The variables that begin like settings but are unknown, each after the known setting that may be meant.
pub(crate) fn unknown(variables: impl Iterator<Item = String>) -> Vec<(Option<String>, String)> {
    let known = known(&Invocation::command());
    let unknown = variables.filter(|name| name.starts_with("SVC_") && name != BUILD && !known.contains(name));
    let nearest = |name: &str| near::nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    let mut unknown: Vec<_> = unknown.map(|name| (nearest(&name), name)).collect();
    unknown.sort_unstable();
    unknown
}

/// The variables of a command and of those below it.
fn known(command: &clap::Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(Arg::get_env).map(|variable| variable.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(known)).collect()
}

/// The invocation of `doctor` without the settings that cannot be read: it reports all of them at once. `None` for
/// another command, or when the command line is still wrong without them.
fn without_refused(mut arguments: Vec<OsString>, error: &clap::Error, first: &clap::Command) -> Option<Invocation> {
    let mut command = first.clone();
    let mut refused = vec![explain(error, first)];
    let mut id = setting(error, &command)?;
    // Each round leaves a setting out, first its flag, then its variable.
    for _ in 0..2 * command.get_arguments().count() {
        if !leave_out(&mut arguments, &id, &command) {
            command = command.mut_arg(&id, |arg| arg.env(None::<&str>));
            command = command.mut_subcommand("doctor", |doctor| {
                doctor.mut_args(|arg| if arg.get_id() == id.as_str() { arg.env(None::<&str>) } else { arg })
            });
        }
        match parse(&mut command, arguments.clone()) {
            Ok(mut invocation) => {
                let Some(Command::Doctor(doctor)) = &mut invocation.command else { return None };
                doctor.refused = refused;
                return Some(invocation);
            }
            Err(error) => {
                id = setting(&error, &command)?;
                let text = explain(&error, first);
                if !refused.contains(&text) {
                    refused.push(text);
                }
            }
        }
    }
    None
}

/// The id of the setting whose value cannot be read.
fn setting(error: &clap::Error, command: &clap::Command) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let arg = named(error, command).filter(|arg| arg.is_global_set())?;
    Some(arg.get_id().to_string())
}

/// Removes a setting's flag with its value; false when it is not there.
fn leave_out(arguments: &mut Vec<OsString>, id: &str, command: &clap::Command) -> bool {
    let long = command.get_arguments().find(|arg| arg.get_id() == id).and_then(Arg::get_long);
    let Some(flag) = long.map(|long| format!("--{long}")) else { return false };
    let joined = format!("{flag}=");
    let is_it = |argument: &OsString| *argument == *flag || argument.to_string_lossy().starts_with(&joined);
    let Some(place) = arguments.iter().position(is_it) else { return false };
    let last = if arguments[place] == *flag { (place + 1).min(arguments.len() - 1) } else { place };
    arguments.drain(place..=last);
    true
}

/// True if a command line, valid or not, requests a JSON document.
fn wants_json(arguments: &[OsString]) -> bool {
    let has = |word: &str| arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == word);
    (has("admin") || has("doctor") || has("receipt")) && has("--json")
}

/// The command line. All settings may come before or after the command.
pub(crate) fn command() -> clap::Command {
    with_settings(Invocation::command())
}

/// The command line for the completion of shells, which would offer all settings behind each command.
pub(crate) fn for_completion() -> clap::Command {
    Invocation::command()
}

/// The command line for manual pages, which need none for `help`.
pub(crate) fn for_manual() -> clap::Command {
    with_settings(Invocation::command().disable_help_subcommand(true))
}

fn with_settings(command: clap::Command) -> clap::Command {
    let global = |arg: Arg| arg.global(true).hide_env_values(true);
    let command = without_empty_variables(command.mut_args(global));
    let command = command.mut_subcommand("api", without_empty_variables);
    let command = command.mut_subcommand("listen", without_empty_variables);
    let command = command.mut_subcommand("mcp", without_empty_variables);
    let mut command = command.mut_subcommand("upstream-sim", without_empty_variables);
    command.build();
    command
        .mut_subcommand("admin", |admin| hide_unused(admin, &["core_url", "core_ca_file", "service_token", "data_dir"]))
        .mut_subcommand("api", |api| hide_unused(api, CALLERS))
        .mut_subcommand("completion", |completion| hide_unused(completion, &[]))
        .mut_subcommand("doctor", |doctor| hide_unused(doctor, DOCTORS))
        .mut_subcommand("health", |health| hide_unused(health, &["ops_addr"]))
        .mut_subcommand("listen", |listen| hide_unused(listen, CALLERS))
        .mut_subcommand("man", |man| hide_unused(man, &[]))
        .mut_subcommand("mcp", |mcp| hide_unused(mcp, CALLERS))
        .mut_subcommand("receipt", |receipt| hide_unused(receipt, &[]))
        .mut_subcommand("restore", |restore| hide_unused(restore, &["data_dir", "secret_key"]))
        .mut_subcommand("upstream-sim", |simulator| hide_unused(simulator, &[]))
        .mut_subcommand("witness", |witness| hide_unused(witness, &["data_dir"]))
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
        // These commands send no webhooks: the certificate is that of the API.
        let is_of_account = used == CALLERS && id == "webhook_ca_file";
        let arg = arg.hide(hide);
        if is_of_account { arg.help_heading(account::HEADING) } else { arg }
    };
    command.mut_args(hidden).mut_subcommands(|command| hide_unused(command, used))
}

/// The error in the command line, with the variable's name first if it concerns a setting.
pub(crate) fn explain(error: &clap::Error, command: &clap::Command) -> String {
    let text = without_password(error).unwrap_or_else(|| error.to_string());
    let text: Vec<_> = text.lines().take_while(|line| !line.is_empty()).collect();
    let text = text.join(" ");
    let text = format!("{}{}", text.trim_start_matches("error: "), advice(error));
    let variable = named(error, command).and_then(Arg::get_env);
    variable.map_or_else(|| text.clone(), |variable| format!("{}: {text}", variable.display()))
}

/// The error without its value, if that may hold a password.
fn without_password(error: &clap::Error) -> Option<String> {
    let ContextValue::String(value) = error.get(ContextKind::InvalidValue)? else { return None };
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else { return None };
    // A list is cut at each comma, even at one in a password.
    let authority = value.split_once("//").and_then(|(_, rest)| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let may_hold = value.contains('@') || port.contains(|letter: char| !letter.is_ascii_digit());
    let reason = error.source().filter(|_| may_hold)?;
    Some(format!("invalid value for '{flag}': {reason}"))
}

/// The flag that an error names.
fn named<'a>(error: &clap::Error, command: &'a clap::Command) -> Option<&'a Arg> {
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else { return None };
    let flag = flag.trim_start_matches('-').split([' ', '=']).next();
    command.get_arguments().find(|arg| arg.get_long() == flag)
}

/// The suggestions for an unknown word, or the page that lists the known words.
fn advice(error: &clap::Error) -> String {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let near = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(name) => Some(vec![format!("`{name}`")]),
        // The likeliest is the last.
        ContextValue::Strings(names) if !names.is_empty() => {
            Some(names.iter().rev().take(MAX_NEAR).map(|name| format!("`{name}`")).collect())
        }
        _ => None,
    });
    match (near, error.kind()) {
        (Some(near), _) => format!("; did you mean {}?", near::one_of(&near)),
        (None, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => "; see --help".to_owned(),
        (None, _) => String::new(),
    }
}

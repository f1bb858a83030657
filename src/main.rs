//! The one binary that people start: the command line, and how the parts are put together.

mod account;
mod admin;
mod api;
mod command;
mod config;
mod demo;
mod doctor;
mod encryption;
mod files;
mod health;
mod http;
mod listen;
mod mcp;
mod metrics;
mod ops;
mod port;
mod ready;
mod receipt;
mod restore;
mod role;
mod roles;
mod secrets;
mod shells;
mod stream;
mod telemetry;
mod terminal;
mod traces;
mod upstream_sim;
mod version;
mod witness;

use std::process::ExitCode;

use command::{Command, Invocation};
use role::Role;

/// The system's allocator took a third of a list's cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An error that ends a command, printed in one line.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // Two providers are compiled in, and a client of HTTP takes the installed one.
    rustls::crypto::ring::default_provider().install_default().expect("nothing was installed before");
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let code = runtime.block_on(run());
    // A task that hangs in a system call must not delay the end.
    runtime.shutdown_background();
    code
}

async fn run() -> ExitCode {
    let Invocation { command, settings } = match command::read(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(code) => return code,
    };
    let role = match command {
        None => Role::All,
        Some(Command::Core) => Role::Core,
        Some(Command::Edge) => Role::Edge,
        Some(Command::Worker) => Role::Worker,
        Some(Command::Doctor(doctor)) => return doctor::run(doctor, &settings).await,
        Some(Command::Admin(admin)) => return admin::run(admin, &settings).await,
        Some(Command::Api(api)) => return api::run(api, &settings).await,
        Some(Command::Completion(shell)) => return printed(shells::complete(&shell, command::for_completion())),
        Some(Command::Man(manual)) => return printed(shells::write_manual(&manual, command::for_manual())),
        Some(Command::Health) => return ended(health::run(&settings).await),
        Some(Command::Listen(listen)) => return ended(listen::run(listen, &settings).await),
        Some(Command::Mcp(mcp)) => return printed(mcp::run(mcp, &settings).await),
        Some(Command::Receipt(command)) => return receipt::run(&command),
        Some(Command::Restore(command)) => return printed(restore::run(&command, &settings)),
        Some(Command::Witness(witness)) => return ended(witness::run(witness, &settings).await),
        Some(Command::UpstreamSim(simulator)) => return ended(upstream_sim::run(simulator).await),
    };
    ended(roles::run(role, settings).await)
}

/// The exit code of a command whose reader may close the output early.
fn printed(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Err(error) if terminal::is_closed_pipe(&error) => ExitCode::SUCCESS,
        outcome => ended(outcome),
    }
}

fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    terminal::note(&error.to_string());
    ExitCode::FAILURE
}

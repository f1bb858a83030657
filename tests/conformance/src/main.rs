//! The command `stream-conformance`: prints one line for each rule. Its exit code is 1 if a rule is broken, and 2 if
//! nothing could be judged.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stream_conformance::{Judgement, client, server};

/// Judge a server or a client of the event streams by the rules of docs/stream-conformance.md
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    judged: Judged,
}

#[derive(Subcommand)]
enum Judged {
    /// Judge a server over SSE, WebSocket and gRPC
    Server(server::Options),
    /// Judge a program that follows a stream over SSE and writes a line with the id of each event
    Client {
        /// The program and its arguments; it gets API_URL and API_KEY (SVC_API_URL and SVC_KEY too)
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        command: Vec<String>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let judged = match Command::parse().judged {
        Judged::Server(options) => server::judge(options).await,
        Judged::Client { command } => client::judge(&command).await,
    };
    match judged {
        Ok(judgements) => report(&judgements),
        Err(why) => {
            eprintln!("stream-conformance: {why}");
            ExitCode::from(2)
        }
    }
}

fn report(judgements: &[Judgement]) -> ExitCode {
    for judgement in judgements {
        println!("{judgement}");
    }
    let failures = judgements.iter().filter(|judgement| judgement.is_failure()).count();
    println!("{failures} of {} judgements are failures", judgements.len());
    ExitCode::from(u8::from(failures > 0))
}

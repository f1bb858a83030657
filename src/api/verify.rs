//! `api verify`: checks whether an author posted a thesis on a token in a time window.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{client::ApiClient, output::Output, time};
use crate::Failure;

#[derive(Debug, Args)]
#[command(after_help = "Ends with 0 when it holds, with 1 when it does not, and with 2 when there is no answer.")]
pub(super) struct Verify {
    /// Author: @handle, or the id of a profile
    #[arg(long, value_name = "AUTHOR")]
    author: String,
    /// Token: SYMBOL, address, chain:address or tk_ id
    #[arg(long, value_name = "TOKEN")]
    token: String,
    /// Chain of the token, if its symbol is on several chains
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// Start of the window: ISO 8601, or a span before now such as 24h
    #[arg(long, value_name = "TIME", value_parser = time)]
    after: String,
    /// End of the window [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    before: Option<String>,
    /// Text that the thesis must contain, in any case
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Add the receipt, or a signed statement
    #[arg(long)]
    receipt: bool,
}

/// Prints the verdict. Returns it as the exit code.
pub(super) async fn run(verify: Verify, client: &ApiClient, output: &Output) -> Result<ExitCode, Failure> {
    let author = if verify.author.starts_with('@') { "handle" } else { "profile_id" };
    let fields = [
        (author, Some(verify.author)),
        ("token", Some(verify.token)),
        ("chain", verify.chain),
        ("created_after", Some(verify.after)),
        ("created_before", verify.before),
        ("contains", verify.contains),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let mut body: Map<String, Value> = fields.collect();
    if verify.receipt {
        body.insert("receipt".to_owned(), json!(true));
    }
    let answer = client.post(&["verify", "thesis"], body.into()).await?;
    output.one(&answer)?;
    let verdict: Value = serde_json::from_str(&answer)?;
    Ok(if verdict["verified"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

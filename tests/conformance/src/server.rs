//! Judges a server.
//!
//! `rules` has the table of rules. The checks are in `every_transport`, `replay`, `past`, `limits`, `sse_only`,
//! `tickets` and `websocket_only`. They speak to the server through `target`, its REST API, and `stream`, an open stream
//! over any transport. The suite makes its events itself, with test theses about tokens that nobody else has named.

mod every_transport;
mod grpc;
mod item;
mod limits;
mod past;
mod replay;
mod rules;
mod socket;
mod sse;
mod sse_only;
mod stream;
mod target;
mod tickets;
mod websocket_only;

use std::time::Duration;

use clap::Args;
use futures::{StreamExt as _, stream::iter};
use tokio::time::timeout;

use self::{replay::backlog, target::Target};
pub use self::{
    rules::{LONG_RULES, RULES, Rule},
    stream::Transport,
};
use crate::{Judgement, Miss};

/// Maximum time for one rule. It leaves time to wait for the rate limits of a small plan.
const RULE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum number of streams that one rule holds open.
const STREAMS_OF_A_RULE: usize = 2;
/// Maximum number of rules that are judged at the same time.
const MAX_PARALLEL: usize = 32;

/// The server, and the keys and events that some rules need.
#[derive(Args)]
pub struct Options {
    /// Base URL of the server, such as http://127.0.0.1:8080
    #[arg(long, env = "API_URL", value_name = "URL")]
    pub url: String,
    /// URL of its gRPC service, such as http://127.0.0.1:50051 [default: gRPC is not judged]
    #[arg(long, env = "GRPC_URL", value_name = "URL")]
    pub grpc: Option<String>,
    /// Test key with the scopes events:read, streams:read and theses:read, of a project that nobody else uses meanwhile
    #[arg(long, env = "API_KEY", hide_env_values = true, value_name = "KEY")]
    pub key: String,
    /// Test key without the scope streams:read
    #[arg(long, env = "NARROW_KEY", hide_env_values = true, value_name = "KEY")]
    pub narrow_key: Option<String>,
    /// Test key of another project, whose plan allows at most 16 streams
    #[arg(long, env = "OTHER_KEY", hide_env_values = true, value_name = "KEY")]
    pub other_key: Option<String>,
    /// Cursor after which there are more than 1,000 theses about the token of --backlog-token
    #[arg(long, value_name = "CURSOR", requires = "backlog_token")]
    pub backlog_cursor: Option<String>,
    /// Symbol of that token
    #[arg(long, value_name = "SYMBOL", requires = "backlog_cursor")]
    pub backlog_token: Option<String>,
    /// Judge also what takes longer than half a minute, and post 1,003 test theses if there is no backlog
    #[arg(long)]
    pub all: bool,
}

/// Judges a server by every rule, in the order of the table.
///
/// # Errors
///
/// The reason why nothing can be judged: an option is wrong, or the server does not accept the key.
pub async fn judge(options: Options) -> Result<Vec<Judgement>, String> {
    let target = Target::new(options)?;
    let places = match target.stream_limit(&target.options.key).await {
        Ok(places) => places,
        Err(Miss::Failed(why)) => return Err(why),
        Err(Miss::NotApplicable(why)) => return Err(why.to_owned()),
    };
    // The posts of a new backlog use up the rate limit, so they come before the rules. If they fail, the rules that
    // need the backlog say why.
    let _posted = backlog(&target).await;
    let long: &[Rule] = if target.options.all { LONG_RULES } else { &[] };
    let checks =
        RULES.iter().chain(long).flat_map(|rule| rule.transports.iter().map(move |transport| (rule, *transport)));
    let judging = checks.map(|(rule, transport)| judge_rule(&target, rule, transport));
    // A plan with few streams is judged rule by rule.
    let parallel = (places / STREAMS_OF_A_RULE).clamp(1, MAX_PARALLEL);
    Ok(iter(judging).buffered(parallel).collect().await)
}

async fn judge_rule(target: &Target, rule: &Rule, transport: Transport) -> Judgement {
    let checked = timeout(RULE_TIMEOUT, rule.check(target, transport)).await;
    let late = || Err(format!("not finished within {} seconds", RULE_TIMEOUT.as_secs()).into());
    Judgement { rule: rule.name, transport: transport.name(), verdict: checked.unwrap_or_else(|_| late()) }
}

//! Judges a client: a program that follows a stream of Server-Sent Events and writes a line with the id of each event
//! that it handles to its standard output.
//!
//! `script` has the connections that the program is served, `run` serves them and records what the program does, and
//! `rules` judges the record.

mod rules;
mod run;
mod script;

pub use self::rules::{RULES, Rule};
use self::{rules::Runs, run::Run};
use crate::Judgement;

/// Judges a program by every rule, in the order of the table. It is started once for each script.
///
/// # Errors
///
/// The reason why the program cannot be run.
pub async fn judge(command: &[String]) -> Result<Vec<Judgement>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let breaks = Run::of(command, &script::breaks()).await.map_err(failed)?;
    let refusal = Run::of(command, &script::refusal()).await.map_err(failed)?;
    let runs = Runs { breaks, refusal };
    let judged = |rule: &Rule| Judgement { rule: rule.name, transport: "sse", verdict: rule.check(&runs) };
    Ok(RULES.iter().map(judged).collect())
}

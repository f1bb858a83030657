//! Live data and its upstream.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, IsTerminal as _},
};

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use serde_json::{Value, json};
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::{
    names::{breaker_name, ingest_state_name},
    time::to_millis,
    v1::{
        BackfillRequest, BackfillResponse, BackfillToken, GetIngestStatusRequest, IngestStatus, LookUps,
        backfill_request::Scope,
    },
};
use tonic::{Status, Streaming};

use super::{
    Client,
    output::{CommandOutput, Resource, time},
    part, since,
};
use crate::terminal::write_stderr;

/// Width of the progress bar in characters.
const BAR_WIDTH: usize = 24;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell how live data follows its upstream
    Status,
    /// Fetch what changed upstream since a time, newest first
    Backfill {
        #[command(flatten)]
        wanted: Wanted,
        /// What changed from then on: a time such as 2031-01-01T00:00:00Z, or a span such as 24h
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Timestamp,
    },
}

/// Whose theses are fetched.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Wanted {
    /// Theses on this token
    #[arg(long, value_name = "CHAIN:ADDRESS", value_parser = token)]
    token: Option<BackfillToken>,
    /// Theses of the profile with this upstream id
    #[arg(long, value_name = "ID")]
    profile: Option<String>,
    /// Everything
    #[arg(long)]
    all: bool,
}

impl Wanted {
    fn scope(self) -> Scope {
        match (self.token, self.profile) {
            (Some(token), _) => Scope::Token(token),
            (None, Some(id)) => Scope::Profile(id),
            (None, None) => Scope::All(self.all),
        }
    }
}

fn token(text: &str) -> Result<BackfillToken, String> {
    let parts = text.split_once(':').filter(|(chain, address)| !chain.is_empty() && !address.is_empty());
    let (chain, address) = parts.ok_or_else(|| "not a chain and an address such as base:0x12ab".to_owned())?;
    Ok(BackfillToken { chain: chain.to_owned(), address: address.to_owned() })
}

/// Counts by name: an object for programs, a line for people.
fn counts(of: HashMap<String, u64>, for_program: bool) -> Value {
    let of: BTreeMap<String, u64> = of.into_iter().collect();
    if for_program {
        return json!(of);
    }
    let line = of.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
    if line.is_empty() { Value::Null } else { json!(line) }
}

fn resource(status: IngestStatus, for_program: bool) -> Resource {
    let (state, breaker) = (ingest_state_name(status.state()), breaker_name(status.breaker()));
    let IngestStatus { position, last_frame_at, lag_ms, last_error, frames, refused, look_ups, .. } = status;
    let LookUps { made, failed, held_back } = look_ups.unwrap_or_default();
    let lookups = if for_program {
        json!({"made": made, "failed": failed, "held_back": held_back})
    } else {
        json!(format!("made {made}, failed {failed}, held back {held_back}"))
    };
    Resource(vec![
        ("state", json!(state)),
        ("position", json!(position)),
        ("last_frame_at", time(last_frame_at.as_ref())),
        ("lag_ms", json!(lag_ms)),
        ("last_error", json!(last_error)),
        ("breaker", json!(breaker)),
        ("frames", counts(frames, for_program)),
        ("refused", counts(refused, for_program)),
        ("look_ups", lookups),
    ])
}

/// A line on a terminal that is written again and again.
struct Bar {
    /// Time at which the backfill ends, in Unix milliseconds.
    since: i64,
    /// Time at which it began.
    now_ms: i64,
    /// Characters of the last line.
    drawn: usize,
}

impl Bar {
    /// The part of the time from now back to `since` that was reached.
    fn percent(&self, progress: &BackfillResponse) -> i64 {
        if progress.done {
            return 100;
        }
        let reached = progress.reached.as_ref().map_or(self.now_ms, to_millis);
        let whole = self.now_ms.saturating_sub(self.since).max(1);
        // The last of it is reached when it is done.
        (self.now_ms.saturating_sub(reached).clamp(0, whole).saturating_mul(100) / whole).min(99)
    }

    fn line(&self, progress: &BackfillResponse) -> String {
        let percent = self.percent(progress);
        let full = usize::try_from(percent).unwrap_or_default() * BAR_WIDTH / 100;
        let (full, rest) = ("#".repeat(full), "-".repeat(BAR_WIDTH - full));
        let BackfillResponse { pages, theses, applied, .. } = progress;
        format!("[{full}{rest}] {percent:>3} %  {pages} pages, {theses} theses, {applied} new")
    }

    fn draw(&mut self, progress: &BackfillResponse) {
        let line = self.line(progress);
        let length = line.chars().count();
        let rest = self.drawn.saturating_sub(length);
        write_stderr(&format!("\r{line}{:rest$}", ""));
        self.drawn = length;
    }
}

/// Reads all progress messages; returns the last one.
async fn follow(
    stream: &mut Streaming<BackfillResponse>,
    mut draw: impl FnMut(&BackfillResponse),
) -> Result<BackfillResponse, Status> {
    let (mut theses, mut applied) = (0, 0);
    while let Some(progress) = stream.message().await? {
        draw(&progress);
        if progress.done {
            return Ok(progress);
        }
        (theses, applied) = (progress.theses, progress.applied);
    }
    Err(Status::unavailable(format!("it stopped after {theses} theses, {applied} of them new")))
}

/// Runs a command. A backfill shows its progress on a terminal, unless a program reads its output.
pub(super) async fn run(command: Command, mut client: Client, for_program: bool) -> Result<CommandOutput, Status> {
    match command {
        Command::Status => {
            let status = client.get_ingest_status(GetIngestStatusRequest {}).await?.into_inner().status;
            Ok(CommandOutput::One(resource(part(status)?, for_program)))
        }
        Command::Backfill { wanted, since } => {
            let mut bar = (!for_program && io::stderr().is_terminal()).then(|| Bar {
                since: to_millis(&since),
                now_ms: SystemClock.now_ms(),
                drawn: 0,
            });
            let request = BackfillRequest { scope: Some(wanted.scope()), since: Some(since) };
            let mut stream = client.backfill(request).await?.into_inner();
            let draw = |progress: &BackfillResponse| {
                if let Some(bar) = &mut bar {
                    bar.draw(progress);
                }
            };
            let ended = follow(&mut stream, draw).await;
            if bar.is_some_and(|bar| bar.drawn > 0) {
                write_stderr("\n");
            }
            let BackfillResponse { pages, theses, applied, .. } = ended?;
            Ok(CommandOutput::One(Resource(vec![
                ("pages", json!(pages)),
                ("theses", json!(theses)),
                ("applied", json!(applied)),
            ])))
        }
    }
}

#[cfg(test)]
mod tests {
    use thesis_proto::{
        time::from_millis,
        v1::{Breaker, IngestState},
    };

    use super::*;

    #[test]
    fn the_bar_tells_how_much_of_the_time_was_reached() {
        let bar = Bar { since: 1_000, now_ms: 2_000, drawn: 0 };
        let at = |reached: Option<i64>| BackfillResponse {
            pages: 3,
            theses: 250,
            applied: 7,
            reached: reached.map(from_millis),
            done: false,
        };
        for (reached, percent) in [(None, 0), (Some(2_000), 0), (Some(1_750), 25), (Some(1_000), 99), (Some(0), 99)] {
            assert_eq!(bar.percent(&at(reached)), percent, "{reached:?}");
        }
        let line = format!("[######{}]  25 %  3 pages, 250 theses, 7 new", "-".repeat(18));
        assert_eq!(bar.line(&at(Some(1_750))), line);
        let done = BackfillResponse { done: true, ..at(None) };
        assert_eq!(bar.line(&done), format!("[{}] 100 %  3 pages, 250 theses, 7 new", "#".repeat(24)));
        // Nothing to go through, and times that are no times.
        assert_eq!(Bar { since: 2_000, ..bar }.percent(&at(Some(2_000))), 0);
        assert_eq!(Bar { since: i64::MIN, now_ms: i64::MAX, drawn: 0 }.percent(&at(Some(0))), 1);
    }

    #[test]
    fn the_status_is_one_document_for_programs_and_lines_for_people() {
        let status = || IngestStatus {
            state: IngestState::Up.into(),
            position: Some("p7".to_owned()),
            last_frame_at: Some(from_millis(1_709_210_096_007)),
            lag_ms: Some(12),
            last_error: None,
            breaker: Breaker::HalfOpen.into(),
            frames: [("thesis.created", 5), ("gap", 1)].map(|(name, count)| (name.to_owned(), count)).into(),
            refused: HashMap::new(),
            look_ups: Some(LookUps { made: 3, failed: 2, held_back: 1 }),
        };
        let expected = json!({
            "state": "up", "position": "p7", "last_frame_at": "2024-02-29T12:34:56.007Z", "lag_ms": 12,
            "last_error": null, "breaker": "half_open", "frames": {"gap": 1, "thesis.created": 5}, "refused": {},
            "look_ups": {"made": 3, "failed": 2, "held_back": 1},
        });
        let json = CommandOutput::One(resource(status(), true)).json();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
        let text = CommandOutput::One(resource(status(), false)).text();
        for part in ["gap 1, thesis.created 5", "made 3, failed 2, held back 1", "half_open"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_token_is_a_chain_and_an_address() {
        let read = |text| token(text).map(|token| (token.chain, token.address));
        assert_eq!(read("sui:0x2::sui::SUI"), Ok(("sui".to_owned(), "0x2::sui::SUI".to_owned())));
        for wrong in ["", ":", "base:", ":0x1", "0x1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

//! `api tail`: events as they happen.

use std::io::{self, Write as _};

use clap::Args;
use reqwest::Client;
use serde_json::Value;
use thesis_net::{clock::SharedIdSource, sse::Event};

use super::output::{Form, Output};
use crate::{
    Failure,
    account::Credentials,
    roles::Signals,
    stream::{Follower, Replay, Sink, StreamClient, Wanted},
    terminal::{fit, note, padded, plain, say, table, width},
};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trade-thesis api tail --events thesis.created --token RUN")]
pub(super) struct Tail {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    replay: Replay,
    /// Resume after this cursor, which `tail` names when it ends
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Prints events until a signal, a refusal, or the end of a replay.
pub(super) async fn run(
    tail: Tail,
    http: Client,
    credentials: Credentials,
    ids: SharedIdSource,
    output: Output,
) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut query = tail.wanted.query();
    query.extend(tail.replay.query());
    let api = StreamClient::new(http, credentials, &query)?;
    let mut follower = Follower::new(api, output, ids, tail.cursor.as_deref());
    let ended = tokio::select! {
        ended = follower.follow() => ended,
        () = signals.next() => Ok(()),
    };
    // After a failure the given cursor may be the cause.
    let newer = follower.cursor().filter(|cursor| ended.is_ok() || tail.cursor.as_deref() != Some(*cursor));
    if let Some(cursor) = newer {
        note(&format!("to resume here: --cursor {cursor}"));
    }
    ended
}

impl Sink for Output {
    fn purpose(&self) -> String {
        String::new()
    }

    async fn take(&mut self, _: &str, event: &Event) -> Result<(), Failure> {
        match self.form {
            Form::Json => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&event.data)?;
                stdout.write_all(b"\n")?;
            }
            Form::Table => say(&shown(&serde_json::from_slice(&event.data)?, width()))?,
        }
        Ok(())
    }
}

/// An event in one line, or in several if it does not fit into a width. Events arrive one by one, so the columns have
/// fixed widths.
fn shown(event: &Value, width: Option<usize>) -> String {
    let cell = |place: &str| plain(event.pointer(place).unwrap_or(&Value::Null));
    let [at, kind, author, token] = ["/created_at", "/type", "/data/profile/handle", "/data/token/symbol"].map(cell);
    let text = cell("/data/text");
    let rows = [vec![padded(&at, 24), padded(&kind, 21), padded(&author, 16), padded(&token, 10), text]];
    width.map_or_else(|| table(&rows), |width| fit(&rows, &[false, false, true, true, true], width))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = json!({
            "created_at": "2026-01-31T12:00:00.000Z", "type": "thesis.created",
            "data": {"profile": {"handle": "@a"}, "token": {"symbol": "$RUN"}, "text": "to\nthe moon"},
        });
        let expected = "2026-01-31T12:00:00.000Z  thesis.created         @a                $RUN        to\\nthe moon";
        assert_eq!(shown(&event, None), expected);
        assert_eq!(shown(&event, Some(120)), expected);
        let (head, text) = expected.split_at(77);
        assert_eq!(shown(&event, Some(80)), format!("{}\n{text}", head.trim_end()));
        assert!(shown(&json!({"type": "new.type"}), Some(80)).contains("new.type"));
        let without_text = shown(&json!({"type": "profile.updated"}), Some(70));
        assert_eq!(without_text, format!("{:26}{:23}-", "-", "profile.updated"));
    }
}

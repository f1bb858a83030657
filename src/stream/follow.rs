//! Follows the stream of events, and reconnects when a connection breaks.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use reqwest::Response;
use serde::Deserialize;
use serde_json::Value;
use thesis_net::{
    backoff::Backoff,
    clock::SharedIdSource,
    sse::{Event, Parser, StreamItem},
};
use tokio::time::{sleep, timeout};

use super::open::{NotOpen, StreamClient};
use crate::{
    Failure,
    http::{Unanswered, whole},
    terminal::note,
};

/// First wait before the stream is opened again, unless the service sends one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait before the stream is opened again.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Maximum silence of a stream, which sends its cursor every 15 s.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// Number of handled events whose ids are kept. A stream that resumes too early repeats the newest ones.
const REMEMBERED: usize = 1_000;
/// Maximum bytes of an id that is kept, so that the kept ids take little memory. Those of the service are shorter.
const MAX_ID_BYTES: usize = 64;

/// Handles each event.
pub(crate) trait Sink {
    /// The end of the note that a stream is open: says what happens to its events. May be empty.
    fn purpose(&self) -> String;

    /// Handles an event with this id. A failure ends the stream.
    async fn take(&mut self, id: &str, event: &Event) -> Result<(), Failure>;
}

/// Passes the events of a stream to a sink, one at a time.
pub(crate) struct Follower<S> {
    api: StreamClient,
    sink: S,
    backoff: Backoff,
    ids: SharedIdSource,
    /// Cursor after the last handled event, for the next stream. `None` until the service has sent one.
    cursor: Option<Arc<str>>,
    /// Ids of the newest handled events.
    handled: VecDeque<String>,
}

/// The part of an event that is needed here.
#[derive(Default, Deserialize)]
struct Named {
    id: String,
}

impl<S: Sink> Follower<S> {
    /// Starts after a cursor, or with new events.
    pub(crate) fn new(api: StreamClient, sink: S, ids: SharedIdSource, cursor: Option<&str>) -> Self {
        let backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        Self { api, sink, backoff, ids, cursor: cursor.map(Arc::from), handled: VecDeque::new() }
    }

    /// The cursor after the last handled event.
    pub(crate) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Handles events until the service refuses or a replay is complete.
    pub(crate) async fn follow(&mut self) -> Result<(), Failure> {
        loop {
            let (why, wait) = match self.api.open(self.cursor.as_deref()).await {
                Ok(stream) => {
                    note(&format!("listening at {}{}", self.api.base(), self.sink.purpose()));
                    match self.take(stream).await? {
                        Some(why) => (why, Duration::ZERO),
                        None => return Ok(()),
                    }
                }
                Err(NotOpen::Complete) => return Ok(()),
                Err(NotOpen::Unanswered(Unanswered::Refused(why))) => return Err(why.into()),
                Err(NotOpen::Unanswered(Unanswered::Later { why, wait })) => (why, wait),
            };
            let pause = self.backoff.next(self.ids.as_ref()).max(wait);
            note(&format!("{why}; opening the stream again in {:.1} s", pause.as_secs_f64()));
            sleep(pause).await;
        }
    }

    /// Handles events until the stream breaks, and returns the reason. None if a replay is complete.
    async fn take(&mut self, mut stream: Response) -> Result<Option<String>, Failure> {
        let mut parser = Parser::new(MAX_EVENT_BYTES);
        loop {
            let piece = match timeout(SILENCE_TIMEOUT, stream.chunk()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => return Ok(Some("the stream ended".to_owned())),
                Ok(Err(error)) => return Ok(Some(whole(error))),
                Err(_) => return Ok(Some(format!("the stream was silent for {} s", SILENCE_TIMEOUT.as_secs()))),
            };
            for item in parser.read(&piece) {
                match item {
                    StreamItem::Retry(first_ms) => self.backoff.set_first(first_ms),
                    StreamItem::Event(event) if event.kind == "stream.end" => return Ok(None),
                    StreamItem::Event(event) => self.handle(event).await?,
                    StreamItem::TooLong { .. } => {
                        return Ok(Some("the stream tells an event of more than 4 MiB".to_owned()));
                    }
                }
            }
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), Failure> {
        self.backoff.reset();
        match event.kind.as_str() {
            "stream.gap" => note(&gap(&event.data, self.api.base())),
            // The stream's cursor.
            kind if kind.starts_with("stream.") => {}
            _ => self.take_once(&event).await?,
        }
        if event.id.is_some() {
            self.cursor = event.id;
        }
        Ok(())
    }

    /// Handles an event unless it was handled before.
    async fn take_once(&mut self, event: &Event) -> Result<(), Failure> {
        let Named { id } = serde_json::from_slice(&event.data).unwrap_or_default();
        if self.handled.contains(&id) {
            return Ok(());
        }
        self.sink.take(&id, event).await?;
        remember(&mut self.handled, id);
        Ok(())
    }
}

/// Keeps the id of a handled event, unless it is empty or too long.
fn remember(handled: &mut VecDeque<String>, id: String) {
    if !(1..=MAX_ID_BYTES).contains(&id.len()) {
        return;
    }
    if handled.len() == REMEMBERED {
        handled.pop_front();
    }
    handled.push_back(id);
}

/// A gap in words.
fn gap(data: &[u8], base: &str) -> String {
    let gap: Value = serde_json::from_slice(data).unwrap_or_default();
    let skipped = gap["skipped"].as_i64().map_or_else(|| "more than 10000".to_owned(), |count| count.to_string());
    let path = gap["path"].as_str().unwrap_or_default();
    format!("{skipped} missed events were left out; {base}{path} lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ids_of_a_usual_length_are_kept() {
        let mut handled = VecDeque::new();
        let longest = "e".repeat(MAX_ID_BYTES);
        for id in [String::new(), longest.clone(), format!("{longest}e")] {
            remember(&mut handled, id);
        }
        assert_eq!(handled, [longest]);
        for number in 0..REMEMBERED {
            remember(&mut handled, number.to_string());
        }
        let ends = (handled.front().map(String::as_str), handled.back().map(String::as_str));
        assert_eq!((handled.len(), ends), (REMEMBERED, (Some("0"), Some("999"))));
    }

    #[test]
    fn a_gap_tells_how_many_and_where() {
        let text = gap(br#"{"first_cursor":"a","last_cursor":"b","skipped":7,"path":"/v1/events?x=1"}"#, "http://a");
        assert_eq!(text, "7 missed events were left out; http://a/v1/events?x=1 lists them");
        let text = gap(br#"{"skipped":null,"path":"/v1/events"}"#, "http://a");
        assert_eq!(text, "more than 10000 missed events were left out; http://a/v1/events lists them");
    }
}

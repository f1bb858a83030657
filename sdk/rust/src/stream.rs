//! Streams of events, which resume by their cursor after any break.

use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use reqwest::{Method, Response, StatusCode};
use url::Url;

use crate::{
    call::{Call, Rows},
    client::{Client, broken},
    error::Error,
    generated::{
        params::StreamEventsParams,
        types::{Event, StreamGap},
    },
    page::Page,
    request::{Query, Request},
    retry::{open_pause_after, pause_after},
    sse::{Frame, Frames},
};

/// The service sends a cursor every 15 seconds, so silence means that the connection is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// The pause before a stream opens again, unless the service sends another.
const DEFAULT_PAUSE: Duration = Duration::from_secs(2);

/// An event or a gap.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamMessage {
    /// The place after this message. Store it when you have handled the message, and give it as `from_cursor` of the
    /// next stream.
    pub cursor: String,
    /// The event or gap.
    pub content: StreamContent,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamContent {
    /// Something happened.
    Event(Box<Event>),
    /// The service skipped events, because more were missed than it replays. [`Client::missed_events`] reads them.
    Gap(StreamGap),
}

/// Follows events. After a break it opens again with the last cursor, so no event is lost or repeated.
#[derive(Debug)]
#[must_use = "nothing is sent until the stream is read"]
pub struct EventStream {
    client: Client,
    request: Request,
    connection: Option<(Response, Frames)>,
    /// The service's pause before the stream opens again.
    pause: Duration,
    /// The pause before the next try.
    waits: Option<Duration>,
    /// Tries since the last frame.
    failures: u32,
    was_open: bool,
    is_ended: bool,
    silence: Duration,
}

/// The result of one read.
enum Step {
    Nothing,
    Message(StreamMessage),
    End,
}

impl Client {
    /// A stream of the events that match the parameters. It opens when it is read.
    pub fn stream(&self, params: &StreamEventsParams) -> EventStream {
        let mut query = params.query();
        query.0.retain(|(name, _)| name != "from_cursor");
        let mut request = Request::new(Method::GET, "/v1/events/stream", &[]).query(query);
        request.last_event_id.clone_from(&params.from_cursor);
        EventStream {
            client: self.clone(),
            request,
            connection: None,
            pause: DEFAULT_PAUSE,
            waits: None,
            failures: 0,
            was_open: false,
            is_ended: false,
            silence: SILENCE,
        }
    }

    /// The events of a gap, the newest first. It may bring a few events of the first and the last millisecond that you
    /// know already: compare their ids.
    pub fn missed_events(&self, gap: &StreamGap) -> Rows<Event> {
        let mut request = Request::new(Method::GET, "/v1/events", &[]);
        let url = Url::parse(&format!("http://gap.invalid{}", gap.path)).ok();
        match url.filter(|url| url.path() == "/v1/events" && url.host_str() == Some("gap.invalid")) {
            Some(url) => request.query = Query(url.query_pairs().into_owned().collect()),
            None => request.fault = Some(format!("{:?} is not the path of a gap", gap.path)),
        }
        Call::<Page<Event>>::json(self, request).rows()
    }
}

impl EventStream {
    /// The cursor up to which the stream has been read. It moves even when no event matches. Store it only when all
    /// messages so far have been handled.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.request.last_event_id.as_deref()
    }

    /// The next message; none at the end of a replay and after an error. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// Fails if another try does not help: the service refused the stream, or the retries of its first opening are used
    /// up.
    pub async fn next_message(&mut self) -> Result<Option<StreamMessage>, Error> {
        while !self.is_ended {
            if let Some(pause) = self.waits {
                self.client.sleep(pause).await;
                self.waits = None;
            }
            match self.step().await {
                Ok(Step::Message(message)) => return Ok(Some(message)),
                Ok(Step::Nothing) => {}
                Ok(Step::End) => self.is_ended = true,
                Err(error) => {
                    self.connection = None;
                    self.waits = self.pause_after(&error);
                    if self.waits.is_none() {
                        self.is_ended = true;
                        return Err(error);
                    }
                }
            }
        }
        self.connection = None;
        Ok(None)
    }

    /// The messages as a stream, which ends after an error.
    pub fn into_stream(self) -> BoxStream<'static, Result<StreamMessage, Error>> {
        stream::try_unfold(self, |mut events| async move {
            let message = events.next_message().await?;
            Ok::<_, Error>(message.map(|message| (message, events)))
        })
        .boxed()
    }

    async fn step(&mut self) -> Result<Step, Error> {
        let Some((response, frames)) = &mut self.connection else { return self.open().await };
        if let Some(frame) = frames.pop() {
            return self.read(frame);
        }
        let piece = tokio::time::timeout(self.silence, response.chunk()).await.map_err(|_| Error::Timeout)?;
        let piece = piece.map_err(broken)?.ok_or_else(|| Error::Connection("the stream ended".into()))?;
        if !frames.push(&piece) {
            return Err(Error::Form("a line of the stream has no end".into()));
        }
        Ok(Step::Nothing)
    }

    async fn open(&mut self) -> Result<Step, Error> {
        let response = tokio::time::timeout(self.client.timeout(), self.client.send(&self.request)).await;
        let response = response.map_err(|_| Error::Timeout)??;
        // The end of a replay.
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(Step::End);
        }
        self.was_open = true;
        self.connection = Some((response, Frames::default()));
        Ok(Step::Nothing)
    }

    fn read(&mut self, frame: Frame) -> Result<Step, Error> {
        self.failures = 0;
        self.pause = frame.retry.unwrap_or(self.pause);
        let form = |error: serde_json::Error| Error::Form(Box::new(error));
        let content = match frame.event.as_str() {
            _ if frame.data.is_empty() => None,
            "stream.gap" => Some(StreamContent::Gap(serde_json::from_str(&frame.data).map_err(form)?)),
            event if event.starts_with("stream.") => None,
            _ => Some(StreamContent::Event(serde_json::from_str(&frame.data).map_err(form)?)),
        };
        self.request.last_event_id = frame.id.or_else(|| self.request.last_event_id.take());
        if frame.event == "stream.end" {
            return Ok(Step::End);
        }
        let cursor = self.request.last_event_id.clone().unwrap_or_default();
        Ok(content.map_or(Step::Nothing, |content| Step::Message(StreamMessage { cursor, content })))
    }

    /// The pause before the stream opens again; none if another try does not help.
    fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        self.failures += 1;
        let pause_after = if self.was_open { open_pause_after } else { pause_after };
        let pause = pause_after(error, self.failures)?;
        let may_open = self.was_open || self.failures <= self.client.max_retries();
        let is_first_break = self.was_open && self.failures == 1 && error.api().is_none();
        may_open.then_some(if is_first_break { self.pause } else { pause })
    }

    #[cfg(test)]
    pub(crate) fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }
}

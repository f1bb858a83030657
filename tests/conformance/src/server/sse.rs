//! A stream of Server-Sent Events.

use std::{collections::VecDeque, time::Duration};

use reqwest::{RequestBuilder, Response, header::HeaderMap};
use serde_json::Value;
use thesis_net::sse::{Event, Parser, StreamItem};

use super::{
    item::{Gap, Item},
    target::{Refusal, Target, whole, within},
};
use crate::{Miss, verdict::ensure};

/// Maximum bytes of an event.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

pub(super) struct Sse {
    response: Response,
    parser: Parser,
    items: VecDeque<Item>,
    /// The last reconnect wait that the stream sent, in milliseconds.
    pub(super) retry_ms: Option<u64>,
    /// All bytes so far, for rules about comments and lines.
    pub(super) raw: Vec<u8>,
}

impl Sse {
    /// Opens a stream, or returns its error.
    pub(super) async fn open(target: &Target, request: RequestBuilder) -> Result<Result<Self, Refusal>, Miss> {
        let opened = target.send(request).await?;
        Ok(opened.map(|response| Self {
            response,
            parser: Parser::new(MAX_EVENT_BYTES),
            items: VecDeque::new(),
            retry_ms: None,
            raw: Vec::new(),
        }))
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the next piece; false at the end of the stream.
    async fn read(&mut self) -> Result<bool, Miss> {
        let Some(piece) = self.response.chunk().await.map_err(whole)? else { return Ok(false) };
        self.raw.extend_from_slice(&piece);
        for item in self.parser.read(&piece) {
            match item {
                StreamItem::Event(event) => self.items.extend(read_item(event)?),
                StreamItem::Retry(wait) => self.retry_ms = Some(wait),
                StreamItem::TooLong { .. } => return Err("an event of more than 1 MiB".into()),
            }
        }
        Ok(true)
    }

    /// The next item.
    pub(super) async fn next(&mut self) -> Result<Item, Miss> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(item);
            }
            ensure!(self.read().await?, "the stream ended");
        }
    }

    /// Waits for the end of the stream, whatever comes before. A broken connection is an end too.
    pub(super) async fn end(&mut self, limit: Duration) -> Result<(), Miss> {
        within(limit, "the end of the stream", async { while matches!(self.read().await, Ok(true)) {} }).await
    }
}

/// The item of an event; none for a type of the stream that the rules do not know.
fn read_item(event: Event) -> Result<Option<Item>, Miss> {
    let Event { id, kind, data } = event;
    let text = String::from_utf8(data).map_err(|_| format!("the data of {kind} is no UTF-8"))?;
    let data: Value = serde_json::from_str(&text).map_err(|_| format!("the data of {kind} is no JSON: {text}"))?;
    let cursor = id.ok_or_else(|| format!("{kind} comes before any id"))?.to_string();
    Ok(match kind.as_str() {
        "stream.cursor" => Some(Item::Cursor(cursor)),
        "stream.end" => Some(Item::End(cursor)),
        "stream.gap" => {
            let gap = Gap::read(&data)?;
            ensure!(gap.last_cursor == cursor, "the id {cursor} of stream.gap is not its last_cursor");
            Some(Item::Gap(gap))
        }
        _ if kind.starts_with("stream.") => None,
        _ => {
            ensure!(data["type"] == kind, "the event field {kind} is not the type {}", data["type"]);
            Some(Item::Event { cursor, event: data })
        }
    })
}

//! Reads events of the feed as frames. A wrong frame is refused and never an error: the feed continues behind it.

#[cfg(test)]
mod tests;

use serde_json::Value;
use thesis_net::sse::{Event, StreamItem};

use super::objects::{self, Refusal};
use crate::domain::observation::{Observation, ObservedThing};

/// Maximum number of bytes of a frame: 256 KiB. The feed's parser keeps as many.
pub const MAX_FRAME: usize = 256 * 1024;
/// Maximum number of bytes of a position.
const MAX_POSITION: usize = 256;

const KINDS: [&str; 8] = [
    "open",
    "thesis.created",
    "thesis.updated",
    "thesis.deleted",
    "thesis.engagement",
    "profile.updated",
    "token.updated",
    "gap",
];
/// The type under which frames of unknown types are counted.
const UNKNOWN: &str = "unknown";

#[derive(Clone, Debug, PartialEq)]
pub enum FrameContent {
    Open {
        /// The upstream's time.
        now_ms: i64,
    },
    /// Observations in the order in which they apply.
    Observations(Vec<Observation>),
    /// The upstream lost frames.
    Gap {
        /// The time since which frames are lost.
        since_ms: i64,
    },
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The position behind the frame. None when the frame has none; then the position does not change.
    pub position: Option<String>,
    /// The type of the frame; `unknown` for other types and for a frame that is too large.
    pub kind: &'static str,
    pub content: FrameContent,
}

/// Reads a frame; none for other parts of the stream.
pub fn read(item: StreamItem, now_ms: i64) -> Option<Frame> {
    let (id, kind, content) = match item {
        StreamItem::Retry(_) => return None,
        StreamItem::TooLong { id } => (id, UNKNOWN, Err(Refusal::TooLarge)),
        StreamItem::Event(Event { id, kind, data }) => {
            let kind = KINDS.into_iter().find(|known| *known == kind).unwrap_or(UNKNOWN);
            (id, kind, read_content(kind, &data, now_ms))
        }
    };
    let is_too_long = id.as_ref().is_some_and(|id| id.len() > MAX_POSITION);
    let content = if is_too_long { Err(Refusal::Position) } else { content };
    let position = id.filter(|id| !is_too_long && !id.is_empty()).map(|id| id.to_string());
    Some(Frame { position, kind, content: content.unwrap_or_else(FrameContent::Refused) })
}

fn read_content(kind: &str, data: &[u8], now_ms: i64) -> Result<FrameContent, Refusal> {
    if data.len() > MAX_FRAME {
        return Err(Refusal::TooLarge);
    }
    // The data of unknown types may have any form.
    if kind == UNKNOWN {
        return Err(Refusal::UnknownType);
    }
    let value = objects::json(data)?;
    Ok(match kind {
        "open" => FrameContent::Open { now_ms: objects::time(&value, "now", now_ms)? },
        "gap" => FrameContent::Gap { since_ms: objects::time(&value, "since", now_ms)? },
        _ => FrameContent::Observations(observations(kind, &value, now_ms)?),
    })
}

fn observations(kind: &str, value: &Value, now_ms: i64) -> Result<Vec<Observation>, Refusal> {
    let observed = |revision, seen| vec![Observation { observed_at: now_ms, revision, seen }];
    match kind {
        "thesis.created" | "thesis.updated" => objects::thesis(value, now_ms),
        "thesis.deleted" => objects::deleted_thesis(value, now_ms),
        "thesis.engagement" => Ok(vec![objects::engagement(value, now_ms)?]),
        "profile.updated" => {
            let seen = objects::profile(value, now_ms)?;
            Ok(observed(seen.revision, ObservedThing::Profile(Box::new(seen))))
        }
        "token.updated" => {
            let seen = objects::token(value, now_ms)?;
            Ok(observed(seen.revision, ObservedThing::Token(Box::new(seen))))
        }
        _ => Err(Refusal::UnknownType),
    }
}

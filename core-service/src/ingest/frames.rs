//! From an event of the feed to the thing that it says. A frame that says nothing right is refused, never an error: the
//! feed goes on behind it.

#[cfg(test)]
mod tests;

use serde_json::Value;
use thesis_net::sse::{Event, StreamItem};

use super::objects::{self, Refusal};
use crate::domain::observation::{Observation, Seen};

/// Most bytes of a frame: 256 KiB. The feed's parser keeps as many.
pub const MAX_FRAME: usize = 256 * 1024;
/// Most bytes of a position.
const MAX_POSITION: usize = 256;

/// The types of frames.
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
/// The type under which frames of other types are counted.
const UNKNOWN: &str = "unknown";

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The connection is open.
    Open {
        /// The upstream's time.
        now_ms: i64,
    },
    /// Something was seen, in this order.
    Observations(Vec<Observation>),
    /// The upstream lost frames.
    Gap {
        /// The time since which they are lost.
        since_ms: i64,
    },
    /// Nothing that can be used.
    Refused(Refusal),
}

/// A frame of the feed.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The place behind it. None when the feed has not told one: its place does not move then.
    pub position: Option<String>,
    /// Its type; `unknown` for one that is not known, or not kept because the frame is too large.
    pub kind: &'static str,
    /// What it says.
    pub said: Said,
}

/// Reads a frame; none when the stream told something else.
#[must_use]
pub fn read(item: StreamItem, now_ms: i64) -> Option<Frame> {
    let (id, kind, said) = match item {
        StreamItem::Retry(_) => return None,
        StreamItem::TooLong { id } => (id, UNKNOWN, Err(Refusal::TooLarge)),
        StreamItem::Event(Event { id, kind, data }) => {
            let kind = KINDS.into_iter().find(|known| *known == kind).unwrap_or(UNKNOWN);
            (id, kind, said(kind, &data, now_ms))
        }
    };
    let is_too_long = id.as_ref().is_some_and(|id| id.len() > MAX_POSITION);
    let said = if is_too_long { Err(Refusal::Position) } else { said };
    let position = id.filter(|id| !is_too_long && !id.is_empty());
    Some(Frame { position, kind, said: said.unwrap_or_else(Said::Refused) })
}

fn said(kind: &str, data: &[u8], now_ms: i64) -> Result<Said, Refusal> {
    if data.len() > MAX_FRAME {
        return Err(Refusal::TooLarge);
    }
    // Its data may be in any form.
    if kind == UNKNOWN {
        return Err(Refusal::UnknownType);
    }
    let value = objects::json(data)?;
    Ok(match kind {
        "open" => Said::Open { now_ms: objects::time(&value, "now", now_ms)? },
        "gap" => Said::Gap { since_ms: objects::time(&value, "since", now_ms)? },
        _ => Said::Observations(observations(kind, &value, now_ms)?),
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
            Ok(observed(seen.revision, Seen::Profile(Box::new(seen))))
        }
        "token.updated" => {
            let seen = objects::token(value, now_ms)?;
            Ok(observed(seen.revision, Seen::Token(Box::new(seen))))
        }
        _ => Err(Refusal::UnknownType),
    }
}

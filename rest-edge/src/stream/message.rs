//! The messages of the WebSocket protocol, as text.

use bytes::Bytes;
use serde::Serialize;
use thesis_proto::{
    error::{ApiError, FieldError},
    json, near, v1,
};

use crate::input::{JsonBody, Kind, Param};

const OP: Param = Param::required("op", Kind::Text(1, 16), "What is asked for");
const RID: Param = Param::new("rid", Kind::Text(0, 64), "Comes back with the answer");
const SUB: Param = Param::required("sub", Kind::Text(1, 64), "Names the subscription");

const AUTH: &[Param] = &[OP, RID, Param::required("key", Kind::Text(1, 200), "The API key")];
const SUBSCRIBE: &[Param] = &[
    OP,
    RID,
    SUB,
    Param::new("types", Kind::EventTypeList(0, 6), "Event types; all but those of alerts unless given"),
    Param::new("filters", Kind::Filters, "Filters of the events"),
    Param::new("cursor", Kind::Text(0, 512), "Resumes after this cursor"),
    super::FROM,
    super::TO,
    super::SPEED,
];
const UNSUBSCRIBE: &[Param] = &[OP, RID, SUB];
const PING: &[Param] = &[OP, RID];

/// The operations of clients, and the fields of their messages.
const OPERATIONS: [(&str, &[Param]); 4] =
    [("auth", AUTH), ("subscribe", SUBSCRIBE), ("unsubscribe", UNSUBSCRIBE), ("ping", PING)];

/// An operation that a client requests. It may contain a key, so it has no `Debug`.
pub(super) enum Operation {
    Auth { key: String },
    Subscribe { sub: String, opening: Box<v1::OpenRequest> },
    Unsubscribe { sub: String },
    Ping,
}

/// A client's message with its request id.
pub(super) struct ClientRequest {
    pub(super) rid: Option<String>,
    pub(super) operation: Result<Operation, ApiError>,
}

impl ClientRequest {
    pub(super) fn read(text: &Bytes) -> Option<Self> {
        let op = JsonBody::object(PING, text)?.text("op");
        let fields = OPERATIONS.iter().find(|(name, _)| op.as_deref() == Some(*name)).map(|(_, fields)| *fields);
        let mut read = JsonBody::object(fields.unwrap_or(PING), text)?;
        let (_, rid) = (read.text("op"), read.text("rid"));
        let is_long = rid.as_ref().is_some_and(|rid| rid.chars().nth(64).is_some());
        let mut missing = Vec::new();
        let mut required = |name: &str, value: Option<String>| {
            let value = value.unwrap_or_default();
            if value.is_empty() || value.chars().nth(64).is_some() && name == "sub" {
                missing.push(FieldError::new(
                    name,
                    if name == "sub" { "must have 1 to 64 characters" } else { "is required" },
                ));
            }
            value
        };
        let operation = match op.as_deref() {
            Some("auth") => Operation::Auth { key: required("key", read.text("key")) },
            Some("subscribe") => Operation::Subscribe {
                sub: required("sub", read.text("sub")),
                opening: Box::new(v1::OpenRequest {
                    types: read.event_types("types"),
                    filters: read.filters("filters"),
                    cursor: read.text("cursor"),
                    from: read.time("from"),
                    to: read.time("to"),
                    speed: read.speed("speed"),
                    ..v1::OpenRequest::default()
                }),
            },
            Some("unsubscribe") => Operation::Unsubscribe { sub: required("sub", read.text("sub")) },
            Some("ping") => Operation::Ping,
            given => {
                let known = OPERATIONS.iter().map(|(name, _)| *name);
                let rule = "must be auth, subscribe, unsubscribe or ping";
                let rule = near::with_nearest(rule, given.unwrap_or_default(), known);
                let rid = rid.filter(|_| !is_long);
                return Some(Self { rid, operation: Err(ApiError::validation(&[FieldError::new("op", rule)])) });
            }
        };
        let mut errors = read.unread();
        missing.retain(|error| errors.iter().all(|unread| unread.param != error.param));
        errors.extend(missing);
        if is_long {
            errors.push(FieldError::new("rid", "must have 64 characters at most"));
        }
        let rid = rid.filter(|_| errors.iter().all(|error| error.param != "rid"));
        Some(Self {
            rid,
            operation: if errors.is_empty() { Ok(operation) } else { Err(ApiError::validation(&errors)) },
        })
    }
}

/// A message from the service to the client.
#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum ServerMessage<'a> {
    Welcome {
        connection_id: &'a str,
        heartbeat_s: u64,
    },
    Subscribed {
        #[serde(skip_serializing_if = "Option::is_none")]
        rid: Option<&'a str>,
        sub: &'a str,
        cursor: &'a str,
        resumed: bool,
        replayed: i64,
        gap: bool,
    },
    Gap {
        sub: &'a str,
        #[serde(flatten)]
        gap: json::StreamGap<'a>,
    },
    Ended {
        sub: &'a str,
        cursor: &'a str,
    },
    Unsubscribed {
        #[serde(skip_serializing_if = "Option::is_none")]
        rid: Option<&'a str>,
        sub: &'a str,
    },
    Heartbeat {
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<&'a str>,
    },
    Pong {
        #[serde(skip_serializing_if = "Option::is_none")]
        rid: Option<&'a str>,
    },
    Error {
        #[serde(skip_serializing_if = "Option::is_none")]
        rid: Option<&'a str>,
        error: json::Error<'a>,
    },
}

impl ServerMessage<'_> {
    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts always serialise")
    }
}

/// The response to a failed request.
pub(super) fn error_message(rid: Option<&str>, error: json::Error<'_>) -> Vec<u8> {
    ServerMessage::Error { rid, error }.text()
}

/// The message with an event of a subscription.
pub(super) fn event_message(sub: &str, cursor: &str, event: &[u8]) -> Vec<u8> {
    let sub = serde_json::to_vec(sub).expect("texts always serialise");
    let mut text = Vec::with_capacity(sub.len() + cursor.len() + event.len() + 48);
    let parts: [&[u8]; 7] =
        [b"{\"op\":\"event\",\"sub\":", &sub, b",\"cursor\":\"", cursor.as_bytes(), b"\",\"event\":", event, b"}"];
    for part in parts {
        text.extend_from_slice(part);
    }
    text
}

#[cfg(test)]
mod tests;

//! The schemas of streams: the types of Server-Sent Events, and the messages of WebSockets.

use serde_json::{Map, Value, json};
use thesis_proto::{
    json::{StreamCursor, StreamGap},
    names,
};
use utoipa::{
    PartialSchema as _, ToSchema as _,
    openapi::{RefOr, Schema},
};

use super::{events, schema::reference};

/// The schemas of the WebSocket messages, as a JSON object.
const MESSAGES: &str = include_str!("messages.json");

/// The schema of `data` by the type of the event.
pub(super) fn frames() -> Value {
    let types = names::EVENT_TYPES.iter().map(|(_, name)| ((*name).to_owned(), reference(&events::name(name))));
    let mut frames: Map<String, Value> = types.collect();
    frames.insert("stream.cursor".to_owned(), reference(&StreamCursor::name()));
    frames.insert("stream.end".to_owned(), reference(&StreamCursor::name()));
    frames.insert("stream.gap".to_owned(), reference(&StreamGap::name()));
    frames.into()
}

/// The schemas of the messages of client and server.
pub(super) fn messages() -> Value {
    json!({"client": reference("WebSocketRequest"), "server": reference("WebSocketMessage")})
}

/// The schemas that only streams use, with the public URL in their examples.
pub(super) fn schemas(public_url: &str) -> Map<String, Value> {
    let messages = MESSAGES.replace("{{api_url}}", public_url);
    let mut schemas: Map<String, Value> = serde_json::from_str(&messages).expect("the file holds JSON");
    let mut add = |name: &str, schema: RefOr<Schema>| {
        schemas.insert(name.to_owned(), serde_json::to_value(schema).unwrap_or_default());
    };
    add(&StreamCursor::name(), StreamCursor::schema());
    add(&StreamGap::name(), StreamGap::schema());
    schemas
}

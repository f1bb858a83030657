//! `POST /sim/frames`: a frame that the test chooses.

use axum::{body::Bytes, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    response::{HandlerResult, Refused, bytes_of, json_of, read},
    shared::Sim,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameBody {
    event: String,
    /// A text is sent as it is, anything else as its JSON.
    data: Value,
}

pub(super) async fn append(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let FrameBody { event, data } = read(&body)?;
    if event.chars().any(char::is_control) {
        return Err(Refused::wrong("an event's type is one line"));
    }
    let data = match data {
        Value::String(text) => text.into_bytes(),
        other => bytes_of(&other),
    };
    let position = sim.publish_raw(&event, &data);
    Ok(json_of(&json!({ "position": position })))
}

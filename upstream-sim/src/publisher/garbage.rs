//! Frames that every reader must refuse. New objects in them have ids that begin with `x_`, so that no frame gives a
//! thesis another author: a reader that receives that first cannot know better.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::{
    dice::Dice,
    response::bytes_of,
    time,
    world::{FrameContent, World},
};

const HOUR_MS: i64 = 3_600_000;
/// A text that is too long by a little.
const LONG_TEXT: usize = 64 * 1024 + 1;
/// A frame that is too long by a little.
const LONG_FRAME: usize = 256 * 1024 + 1;

/// A frame of garbage.
pub(super) fn invent(dice: &mut Dice, world: &World, recent: &VecDeque<usize>, now: i64) -> FrameContent {
    let known = recent.get(dice.below(recent.len())).map(|number| world.theses.at(*number));
    let Some(known) = known else { return content("thesis.created", b"{\"id\":\"x_0\",".to_vec(), now) };
    let mut thesis = serde_json::to_value(known).unwrap_or_default();
    thesis["text"] = json!("never to be believed");
    let mut unknown = thesis.clone();
    unknown["id"] = json!(format!("x_{}", dice.below(1_000_000)));
    let (event, data) = match dice.below(11) {
        0 => return broken(dice, &unknown, now),
        1 => return scalar(dice, now),
        2 => ("thesis.created", wrong_type(dice, unknown)),
        3 => ("thesis.created", without_a_field(dice, unknown)),
        4 => ("thesis.created", with_text(unknown, &"x".repeat(LONG_TEXT))),
        5 => ("thesis.updated", ahead(thesis, now)),
        6 => ("thesis.created", ahead(unknown, now)),
        7 => (dice.pick(&["thesis.pinned", "order.filled", "profile.deleted", "Thesis.Created"]), unknown),
        8 => ("profile.updated", unnamed(thesis["profile"].take(), "handle")),
        9 => ("token.updated", unnamed(thesis["token"].take(), "symbol")),
        _ if dice.chance(0.1) => ("thesis.created", with_text(unknown, &"y".repeat(LONG_FRAME))),
        _ => ("thesis.engagement", json!({ "likes": 5, "replies": 5, "updated_at": time::text(now) })),
    };
    content(event, bytes_of(&data), now)
}

fn content(event: &'static str, data: Vec<u8>, at: i64) -> FrameContent {
    FrameContent { event, data, at }
}

/// No JSON: cut off, or not UTF-8.
fn broken(dice: &mut Dice, thesis: &Value, now: i64) -> FrameContent {
    let mut data = bytes_of(thesis);
    data.truncate(dice.below(data.len()));
    if dice.chance(0.3) {
        data.extend_from_slice(b"\xff\xfe");
    }
    content("thesis.created", data, now)
}

/// JSON, but no object.
fn scalar(dice: &mut Dice, now: i64) -> FrameContent {
    let data = dice.pick(&["null", "[1,2,3]", "\"thesis\"", "12", "{}", "[{}]", "true"]);
    let event = dice.pick(&["thesis.created", "thesis.engagement", "profile.updated", "token.updated", "gap"]);
    content(event, data.as_bytes().to_vec(), now)
}

fn wrong_type(dice: &mut Dice, mut thesis: Value) -> Value {
    let (field, value) = match dice.below(6) {
        0 => ("text", json!(7)),
        1 => ("created_at", json!(12)),
        2 => ("updated_at", json!("yesterday")),
        3 => ("profile", json!("u_1")),
        4 => ("token", json!(["solana", "x"])),
        _ => ("id", json!({ "id": "x_1" })),
    };
    thesis[field] = value;
    thesis
}

fn without_a_field(dice: &mut Dice, mut thesis: Value) -> Value {
    let (object, field) = match dice.below(6) {
        0 => (&mut thesis, "id"),
        1 => (&mut thesis, "created_at"),
        2 => (&mut thesis["profile"], "id"),
        3 => (&mut thesis["profile"], "handle"),
        4 => (&mut thesis["token"], "address"),
        _ => (&mut thesis["token"], "chain"),
    };
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
    thesis
}

fn with_text(mut thesis: Value, text: &str) -> Value {
    thesis["text"] = json!(text);
    thesis
}

fn ahead(mut thesis: Value, now: i64) -> Value {
    thesis["updated_at"] = json!(time::text(now + HOUR_MS));
    thesis
}

/// A profile or token whose name is empty.
fn unnamed(mut object: Value, field: &str) -> Value {
    object[field] = json!("");
    object
}

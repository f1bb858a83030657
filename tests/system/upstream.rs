//! Live data: a service follows a simulated upstream over sockets, whatever that does.

mod budget;
mod configuration;
mod demand;
mod demo;
mod faults;
mod feed;
mod operators;
mod replicas;
mod start;
mod verification;

use serde_json::{Value, json};

use crate::harness::{Setup, World};

/// A small upstream with some theses of the last twelve hours.
const SMALL: World = World { profiles: 12, tokens: 6, theses: 30 };
/// What the upstream sends along and nobody may keep: values, and names of fields.
const PRIVATE: [&str; 7] =
    ["never-stored", ":1234567", "\"email\"", "\"balance\"", "\"pnl_usd\"", "\"positions\"", "\"price_usd\""];
/// A base58 address.
const MINT: &str = "CaseMattersMint1111111111111111111111111111";
/// A hexadecimal address of letters of both cases.
const ADDRESS: &str = "0xAbCdEf0123456789aBcDeF0123456789AbCdEf01";

/// Nothing is fetched at the first start.
fn without_backfill(setup: Setup) -> Setup {
    setup.set("SVC_UPSTREAM_BACKFILL", "0s")
}

/// A thesis to post upstream.
fn new(author: &Value, on: &Value, said: &str) -> Value {
    json!({"profile_id": author["id"], "token": on, "text": said})
}

/// The same, which the feed never tells.
fn quiet(author: &Value, on: &Value, said: &str) -> Value {
    let mut thesis = new(author, on, said);
    thesis["quiet"] = json!(true);
    thesis
}

/// Demands that an answer tells nothing private.
fn assert_public(answer: &str) {
    for private in PRIVATE {
        assert!(!answer.contains(private), "{private} in {answer}");
    }
}

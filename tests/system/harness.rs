//! Starts the program, and speaks to it as its customers do.

mod agreement;
pub(crate) mod browser;
mod client;
mod dice;
mod following;
pub(crate) mod ingest;
mod ledger;
pub(crate) mod person;
mod process;
mod project;
mod receiver;
mod service;
mod socket;
mod sse;
mod store;
mod upstream;
mod way;

use std::time::Duration;

use serde_json::Value;
use thesis_net::clock::{Clock as _, SystemClock};
use tokio::time::{Instant, sleep, timeout};

pub(crate) use self::{
    client::{Answer, Client, fetch, http_client},
    dice::Dice,
    following::{Following, profile_id, reference, thesis_id},
    ledger::Ledger,
    person::Person,
    process::{Process, Setup},
    project::{ALL_SCOPES, Key, Project},
    receiver::{Receiver, teapot},
    service::{LIVE_KEY, SERVICE_TOKEN, Service, TEST_KEY, cluster, embedded, nodes},
    socket::Socket,
    sse::{Frame, Sse},
    store::Store,
    upstream::{UPSTREAM_TOKEN, Upstream, World},
    way::{Passage, Way},
};

/// Longest wait for anything that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Shortest and longest pause between two probes of something that should happen.
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    SystemClock.now_ms()
}

/// Asks again and again until there is an answer.
pub(crate) async fn eventually<T>(what: &str, within: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    let probing = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            // Probes take processor time from what they wait for, so a longer wait has longer pauses.
            sleep((began.elapsed() / 16).clamp(MIN_PAUSE, MAX_PAUSE)).await;
        }
    };
    match timeout(within, probing).await {
        Ok(found) => found,
        Err(_) => panic!("{what}: not within {within:?}"),
    }
}

/// Demands that an object has exactly these fields.
pub(crate) fn assert_fields(object: &Value, expected: &[&str]) {
    let mut found: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{object}");
}

/// The rows of a list's answer.
pub(crate) fn rows(list: &Value) -> &Vec<Value> {
    assert_fields(list, &["object", "data", "next_cursor", "has_more"]);
    assert_eq!(list["object"], "list");
    assert_eq!(list["has_more"], !list["next_cursor"].is_null(), "{list}");
    list["data"].as_array().expect("rows")
}

/// The ids of a list's rows.
pub(crate) fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| text(row, "id")).collect()
}

/// A field that is a text.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_else(|| panic!("{field} is no text in {object}"))
}

/// A field that is a time in the API's one form, as Unix milliseconds.
pub(crate) fn time(object: &Value, field: &str) -> i64 {
    let text = text(object, field);
    let time = thesis_proto::time::parse_iso8601(text).unwrap_or_else(|| panic!("{field} is no time in {object}"));
    let millis = thesis_proto::time::to_millis(&time);
    assert_eq!(thesis_proto::time::format_millis(millis), text);
    millis
}

/// A time in the API's one form.
pub(crate) fn iso(millis: i64) -> String {
    thesis_proto::time::format_millis(millis)
}

//! Texts of messages that are JSON themselves.

use serde::Serialize;
use serde_json::value::RawValue;

/// The JSON of a text, as it is; null if the text is none.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct RawJson<'a>(Option<&'a RawValue>);

/// The JSON of a message's text.
pub(super) fn raw(text: &str) -> RawJson<'_> {
    RawJson(serde_json::from_str(text).ok())
}

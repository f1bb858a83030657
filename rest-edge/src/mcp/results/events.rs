//! The results of `list_events`.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApiPage, cut};

const MORE_EVENTS: &str =
    "This is one page: call list_events again with the same arguments, and next_cursor as cursor.";

/// An event.
#[derive(Deserialize, Serialize, JsonSchema)]
pub(in crate::mcp) struct Event {
    id: String,
    r#type: String,
    created_at: String,
    /// The content, which depends on the type. Of a longer `text` or `bio` it has the first 400 characters and `…`.
    data: JsonObject,
}

/// One page of events.
#[derive(Serialize, JsonSchema)]
pub(in crate::mcp) struct EventPage {
    events: Vec<Event>,
    /// Continues after this page; null on the last one. A page may be short, even empty, before the last one.
    next_cursor: Option<String>,
    /// How to get the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<String>,
}

impl From<ApiPage<Event>> for EventPage {
    fn from(page: ApiPage<Event>) -> Self {
        let more = page.next_cursor.as_ref().map(|_| MORE_EVENTS.to_owned());
        let events = page.data.into_iter().map(|event| Event { data: cut_fields(event.data), ..event });
        Self { events: events.collect(), next_cursor: page.next_cursor, more }
    }
}

/// Cuts the texts of a field that people write, for a list. Ids and URLs are of no use when cut.
fn cut_texts(name: &str, value: Value) -> Value {
    match value {
        Value::String(text) if ["text", "bio"].contains(&name) => Value::String(cut(text)),
        Value::Array(values) => values.into_iter().map(|value| cut_texts(name, value)).collect(),
        Value::Object(fields) => Value::Object(cut_fields(fields)),
        other => other,
    }
}

fn cut_fields(fields: JsonObject) -> JsonObject {
    let cut_field = |(name, value): (String, Value)| {
        let value = cut_texts(&name, value);
        (name, value)
    };
    fields.into_iter().map(cut_field).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{MAX_TEXT, read},
        *,
    };

    #[test]
    fn long_texts_of_events_are_cut() {
        let (long, short) = ("é".repeat(MAX_TEXT + 1), "é".repeat(MAX_TEXT));
        let data = json!({"text": long, "likes": 3, "profile": {"bio": [long, short]}, "image": long});
        let event =
            json!({"id": "evt_1", "type": "thesis.created", "created_at": "2031-01-01T00:00:00Z", "data": data});
        let body = json!({"data": [event], "next_cursor": null}).to_string();
        let page = read::<ApiPage<Event>, EventPage>(body.as_bytes()).unwrap();
        let cut = short.clone() + "…";
        let data = json!({"text": cut, "likes": 3, "profile": {"bio": [cut, short]}, "image": long});
        assert_eq!((&page["events"][0]["data"], &page["events"][0]["id"]), (&data, &json!("evt_1")));
    }
}

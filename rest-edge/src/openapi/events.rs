//! The schemas of events: one for each type, and `Event`, the union of them.

use serde_json::{Map, Value, json};
use thesis_proto::{json::EventType, names};
use utoipa::ToSchema as _;

use super::schema::reference;

/// The schema name of an event type: `thesis.created` becomes `ThesisCreated`.
pub(crate) fn pascal(event_type: &str) -> String {
    let words = event_type.split(['.', '_']).filter_map(|word| {
        let (first, rest) = word.split_at_checked(1)?;
        Some(first.to_uppercase() + rest)
    });
    words.collect()
}

pub(super) fn name(event_type: &str) -> String {
    pascal(event_type) + "Event"
}

/// The name of the schema of thin payloads.
pub(crate) const THIN: &str = "ThinEvent";

/// The schema of what a webhook with the payload `thin` receives.
fn thin() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let about = "When the event was added to the log.";
    let created_at = json!({"type": "string", "format": "date-time", "description": about});
    json!({
        "type": "object",
        "description": "An event without its data, for webhooks with the payload `thin`. Read it by `GET /v1/events/{id}`.",
        "required": ["object", "id", "type", "created_at", "livemode"],
        "properties": {
            "object": {"type": "string", "enum": ["event"], "description": "Always `event`."},
            "id": text("Prefix `evt_`; stable, use it for deduplication."),
            "type": reference(&EventType::name()),
            "created_at": created_at,
            "livemode": {"type": "boolean", "description": "True for live data, false for test data."},
        },
    })
}

/// Splits the common schema of events into one schema for each type.
pub(super) fn part(all: &mut Map<String, Value>) {
    all.remove("EventData");
    let any = all.remove("Event").unwrap_or_default();
    let (mut kinds, mut mapping) = (Vec::new(), Map::new());
    for (kind, event_type) in names::EVENT_TYPES {
        let name = name(event_type);
        let mut event = any.clone();
        event["description"] = json!(format!("An event of type `{event_type}`."));
        let about = format!("Always `{event_type}`.");
        event["properties"]["type"] = json!({"type": "string", "enum": [event_type], "description": about});
        // Both events of alerts have the same data.
        let data = if names::is_of_alerts(*kind) { "AlertEvent".to_owned() } else { pascal(event_type) };
        event["properties"]["data"] = reference(&format!("{data}Data"));
        let kind = reference(&name);
        mapping.insert((*event_type).to_owned(), kind["$ref"].clone());
        kinds.push(kind);
        all.insert(name, event);
    }
    let event = json!({
        "description": "Something that happened; `type` tells what. New types may come: ignore those that you do not know.",
        "oneOf": kinds,
        "discriminator": {"propertyName": "type", "mapping": mapping},
    });
    all.insert("Event".to_owned(), event);
    all.insert(THIN.to_owned(), thin());
    if let Some(result) = all.get_mut("TestThesisResult") {
        result["properties"]["event"]["$ref"] = reference("ThesisCreatedEvent")["$ref"].take();
    }
}

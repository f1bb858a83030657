//! The AsyncAPI description is complete, and has the same schemas as the OpenAPI description.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thesis_proto::names;

use super::description;
use crate::asyncapi::asyncapi;

fn document() -> Value {
    asyncapi("https://edge.test", 1_795_442_700_123)
}

/// The names of the messages of a channel.
fn names_of(document: &Value, channel: &str) -> BTreeSet<String> {
    let messages = document["channels"][channel]["messages"].as_object().unwrap().values();
    let name = |message: &Value| {
        let message = document.pointer(&message["$ref"].as_str().unwrap()[1..]).unwrap();
        message["name"].as_str().unwrap().to_owned()
    };
    messages.map(name).collect()
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    fn walk(document: &Value, value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                // AsyncAPI has no discriminator of this kind.
                assert!(!fields.get("discriminator").is_some_and(Value::is_object));
                if let Some(Value::String(path)) = fields.get("$ref") {
                    assert!(document.pointer(&path[1..]).is_some(), "{path} is missing");
                    found.insert(path.clone());
                }
                fields.values().for_each(|value| walk(document, value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(document, value, found)),
            _ => {}
        }
    }
    let (document, mut found) = (document(), BTreeSet::new());
    walk(&document, &document, &mut found);
    for kind in ["schemas", "messages", "securitySchemes"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/components/{kind}/{name}")), "{kind}: {name} is not used");
        }
    }
    for channel in document["channels"].as_object().unwrap().keys() {
        for name in document["channels"][channel]["messages"].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/channels/{channel}/messages/{name}")), "{channel}: {name} is not sent");
        }
    }
}

#[test]
fn every_event_and_every_message_is_there() {
    let document = document();
    let types: BTreeSet<_> = names::EVENT_TYPES.iter().map(|(_, name)| (*name).to_owned()).collect();
    let with = |others: &[&str]| -> BTreeSet<String> {
        types.iter().cloned().chain(others.iter().map(|name| (*name).to_owned())).collect()
    };
    assert_eq!(names_of(&document, "events"), with(&["stream.cursor", "stream.end", "stream.gap"]));
    assert_eq!(names_of(&document, "webhook"), with(&["thin", "webhook.test"]));
    let other = description::document();
    let schemas = &other["components"]["schemas"];
    let ops = ["WebSocketRequest", "WebSocketMessage"].map(|union| schemas[union]["discriminator"]["mapping"].clone());
    let ops: BTreeSet<_> = ops.iter().flat_map(|ops| ops.as_object().unwrap().keys().cloned()).collect();
    assert_eq!(names_of(&document, "stream"), ops);
}

#[test]
fn both_descriptions_have_the_same_schemas() {
    let (document, other) = (document(), description::document());
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        let mut same = other["components"]["schemas"][name].clone();
        same.as_object_mut().unwrap().remove("discriminator");
        // Examples name the address of the service.
        let schema: Value = schema.to_string().replace("https://edge.test", "http://edge.test").parse().unwrap();
        assert_eq!(schema, same, "{name}");
    }
    assert!(schemas.contains_key("ThesisCreatedEvent") && !schemas.contains_key("WebhookDelivery"));
}

#[test]
fn addresses_are_those_of_the_service() {
    let document = document();
    let place = |server: &str| {
        let server = &document["servers"][server];
        (server["protocol"].clone(), server["host"].clone())
    };
    assert_eq!(place("api"), (json!("https"), json!("edge.test")));
    assert_eq!(place("socket"), (json!("wss"), json!("edge.test")));
    let addresses = ["events", "stream", "webhook"].map(|channel| document["channels"][channel]["address"].clone());
    assert_eq!(addresses, [json!("/v1/events/stream"), json!("/v1/stream"), Value::Null]);
    let headers = &document["components"]["messages"]["ThesisCreatedDelivery"]["headers"];
    assert!(headers["required"].as_array().unwrap().contains(&json!("Service-Signature")), "{headers}");
}
